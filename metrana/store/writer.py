"""The writing side of the store: one process appends to its own folder of a run."""

from __future__ import annotations

import errno
import json
import os
import time

from metrana.model import Labels
from metrana.procstat import read_pid_namespace, read_start_ticks
from metrana.store.layout import FORMAT_VERSION, SEGMENT_BYTES, encode_value, run_folder, segment_file, writer_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from metrana.identity import Identity
    from metrana.model import Batch

SeriesKey = str | tuple[str, Labels]
"""A series by its metric's name, or by name and labels where it has labels."""

Entry = tuple[float, int, SeriesKey, float]
"""Timestamp, step, series, value: a point on its way to the disk."""

WRITE_BYTES = 1024 * 1024  # at most in one write call, so that a stalled disk never holds much more than this twice

# What may pass by itself: the store is tried again later. Everything else is the folder's fault and said at once.
PASSING_ERRORS = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE, errno.EINTR}
)


class WriterProcess:
    """What a writer tells of its process: where it runs, which launch and rank it belongs to.

    ``launcher`` names the process that started it; ``is_resumed`` says that it continues an earlier launch's run,
    ``is_forked`` that it's a copy of another writer's process.
    """

    def __init__(
        self,
        host: str,
        rank: int | None = None,
        local_rank: int | None = None,
        launcher: str | None = None,
        is_resumed: bool = False,
        is_forked: bool = False,
        pid: int | None = None,
    ) -> None:
        self.host = host
        self.pid = os.getpid() if pid is None else pid
        self.pid_start = read_start_ticks(self.pid)
        self.pid_namespace = read_pid_namespace()
        self.rank = rank
        self.local_rank = local_rank
        self.launcher = launcher
        self.is_resumed = is_resumed
        self.is_forked = is_forked

    def in_fork(self) -> WriterProcess:
        """This process, where the object was inherited from the one that forked it."""
        return WriterProcess(self.host, self.rank, self.local_rank, self.launcher, self.is_resumed, is_forked=True)

    def to_dict(self) -> dict[str, object]:
        return {
            "host": self.host,
            "pid": self.pid,
            "pid_start": self.pid_start,
            "pid_namespace": self.pid_namespace,
            "rank": self.rank,
            "local_rank": self.local_rank,
            "launcher": self.launcher,
            "resumed": self.is_resumed,
            "forked": self.is_forked,
        }


class Writer:
    """Appends lines to the segments of one writer folder. Not thread-safe: its owner holds a lock.

    Lines that a full disk refused stay in memory and are written with the next call, in order.
    """

    def __init__(
        self, store_dir: str, identity: Identity, process: WriterProcess, segment_bytes: int = SEGMENT_BYTES
    ) -> None:
        self.store_dir = store_dir
        self._identity = identity
        self._process = process
        self.run_path = os.path.join(store_dir, run_folder(*identity.names, identity.run_id))
        self.path = os.path.join(self.run_path, writer_folder(process.host, process.pid, time.time_ns()))
        self._head = {
            "v": FORMAT_VERSION,
            "run": {
                "id": identity.run_id,
                "organization": identity.organization,
                "workspace_name": identity.workspace_name,
                "project_name": identity.project_name,
                "run_name": identity.run_name,
                "orchestration_id": identity.orchestration_id,
            },
            "writer": process.to_dict(),
        }
        self._segment_bytes = segment_bytes
        self._fd = -1
        self._segment = 0
        self._size = 0
        self._series: dict[SeriesKey, int] = {}
        self._batch_series: tuple[tuple[str, Labels], ...] = ()
        self._batch_numbers = ""
        self._refused = b""
        self._is_torn = False

    def open(self, timestamp: float) -> None:
        """Make the folder and its first segment. Raises OSError; may be called again then."""
        if self._fd >= 0:
            return
        # A folder that was there before may be the user's own project; what lies in it below is metrana's in any case.
        is_own = not os.path.isdir(self.store_dir)
        os.makedirs(self.path, exist_ok=True)
        _keep_out_of_git(self.store_dir if is_own else os.path.dirname(os.path.dirname(os.path.dirname(self.run_path))))
        self._open_segment(timestamp)

    @property
    def refused_lines(self) -> int:
        """How many lines wait here for a disk that refused them."""
        return self._refused.count(b"\n")

    def in_fork(self) -> Writer:
        """A writer of the same run for this process, a forked copy of the one that made this writer."""
        return Writer(self.store_dir, self._identity, self._process.in_fork(), self._segment_bytes)

    def write(self, lines: Iterable[str], timestamp: float) -> None:
        """Append lines, each without its newline. Raises OSError; what was not written is kept for the next call."""
        self._refused += "".join([line + "\n" for line in lines]).encode("ascii")
        if self._fd < 0:
            self.open(timestamp)
        while self._refused:
            self._write_some()
        if self._size >= self._segment_bytes:
            os.close(self._fd)
            self._fd = -1
            self._open_segment(timestamp)

    def encode_points(self, entries: list[Entry]) -> list[str]:
        """The lines of points, with declarations in front of a series' first: neighbours of one tick share a line."""
        lines: list[str] = []
        series = self._series
        index, count = 0, len(entries)
        while index < count:
            timestamp, step, key, value = entries[index]
            index += 1
            number = series.get(key) or self._declare(key, lines)
            text = repr(value) if value - value == 0.0 else encode_value(value)
            if index < count and entries[index][0] == timestamp and entries[index][1] == step:
                numbers, values = [str(number)], [text]
                while index < count and entries[index][0] == timestamp and entries[index][1] == step:
                    _, _, key, value = entries[index]
                    index += 1
                    numbers.append(str(series.get(key) or self._declare(key, lines)))
                    values.append(encode_value(value))
                lines.append(f'{{"t":{timestamp!r},"s":{step},"i":[{",".join(numbers)}],"v":[{",".join(values)}]}}')
            else:
                lines.append(f'{{"t":{timestamp!r},"s":{step},"i":[{number}],"v":[{text}]}}')
        return lines

    def write_batch(self, batch: Batch) -> None:
        """Append a tick as one line. Raises OSError; then it's kept, as with write()."""
        lines: list[str] = []
        if batch.series is not self._batch_series:
            numbers = [self._series.get(key) or self._declare(key, lines) for key in batch.series]
            self._batch_series, self._batch_numbers = batch.series, ",".join(map(str, numbers))
        values = ",".join(map(encode_value, batch.values))
        lines.append(f'{{"t":{batch.timestamp!r},"s":{batch.step},"i":[{self._batch_numbers}],"v":[{values}]}}')
        self.write(lines, batch.timestamp)

    def sync(self) -> None:
        """Have the kernel put it all on the disk. Raises OSError."""
        if self._fd >= 0:
            os.fsync(self._fd)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _declare(self, key: SeriesKey, lines: list[str]) -> int:
        number = self._series[key] = len(self._series) + 1
        lines.append(encode_declaration(key, number))
        return number

    def _open_segment(self, timestamp: float) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
        path = os.path.join(self.path, segment_file(self._segment + 1))
        self._fd = os.open(path, flags | getattr(os, "O_BINARY", 0), 0o644)
        self._segment += 1
        self._size = 0
        self._is_torn = False
        head = json.dumps({**self._head, "t": timestamp}, separators=(",", ":"))
        # Lines that wait from the segment before refer to its declarations: repeat all of them.
        declarations = [encode_declaration(key, number) for key, number in self._series.items()]
        self._refused = "".join(line + "\n" for line in (head, *declarations)).encode("ascii") + self._refused
        while self._refused:
            self._write_some()

    def _write_some(self) -> None:
        """One write call. A short write tears a line: it's written again in whole, on a line of its own."""
        end = len(self._refused)
        if end > WRITE_BYTES:
            end = self._refused.rfind(b"\n", 0, WRITE_BYTES) + 1 or self._refused.find(b"\n") + 1
        chunk = self._refused[:end]
        prefix = b"\n" if self._is_torn else b""
        written = os.write(self._fd, prefix + chunk)
        self._size += written
        written -= len(prefix)
        if written < 0:
            return
        if written == len(chunk):
            self._refused = self._refused[written:]
            self._is_torn = False
            return
        whole = chunk.rfind(b"\n", 0, written) + 1
        self._is_torn = written > whole
        if chunk[written : written + 1] == b"\n":
            whole = written + 1  # only its newline is missing: the next write brings one
        self._refused = self._refused[whole:]


def encode_declaration(key: SeriesKey, number: int) -> str:
    name, labels = (key, ()) if isinstance(key, str) else key
    text = f'{{"d":{number},"n":{json.dumps(name)}'
    return text + (f',"l":{json.dumps(dict(labels), separators=(",", ":"))}}}' if labels else "}")


def encode_attributes(attributes: dict[str, object], timestamp: float) -> str:
    return json.dumps({"a": attributes, "t": timestamp}, separators=(",", ":"))


def encode_end(event: str, timestamp: float) -> str:
    return json.dumps({"e": event, "t": timestamp}, separators=(",", ":"))


def describe_failure(path: str, error: OSError) -> str:
    """Why a folder can't be written, in one clear phrase."""
    reason = error.strerror or type(error).__name__
    return f"the store can't be written: {reason}: {error.filename or path}"


def _keep_out_of_git(folder: str) -> None:
    """Have git see nothing of a folder that is metrana's own."""
    try:
        fd = os.open(os.path.join(folder, ".gitignore"), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    except OSError:
        return  # there already, or another process was first
    try:
        os.write(fd, b"*\n")
    finally:
        os.close(fd)
