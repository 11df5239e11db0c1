"""The writing side of the store: one process appends to its own folder of a run."""

from __future__ import annotations

import errno
import json
import os
import time

from metrana.errors import StoreError
from metrana.model import Labels
from metrana.store.layout import FORMAT_VERSION, SEGMENT_BYTES, encode_value, run_folder, segment_file, writer_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from metrana.identity import Identity

SeriesKey = str | tuple[str, Labels]
"""A series by its metric's name, or by name and labels where it has labels."""

Entry = tuple[float, int, SeriesKey, float]
"""Timestamp, step, series, value: a point on its way to the disk."""

WRITE_BYTES = 1024 * 1024  # at most in one write call, so that a stalled disk never holds much more than this twice

# What may pass by itself: the store is tried again later. Everything else is the folder's fault and said at once.
PASSING_ERRORS = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE, errno.EINTR}
)


class Writer:
    """Appends lines to the segments of one writer folder. Not thread-safe: its owner holds a lock.

    Lines that a full disk refused stay in memory and are written with the next call, in order.
    """

    def __init__(
        self,
        store_dir: str,
        identity: Identity,
        host: str,
        pid: int,
        start_ns: int,
        rank: int | None,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        self._store_dir = store_dir
        self._identity = identity
        self._host = host
        self._rank = rank
        self.run_path = os.path.join(store_dir, run_folder(*identity.names, identity.run_id))
        self.path = os.path.join(self.run_path, writer_folder(host, pid, start_ns))
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
            "writer": {"host": host, "pid": pid, "pid_start": read_pid_start(pid), "rank": rank},
        }
        self._segment_bytes = segment_bytes
        self._fd = -1
        self._segment = 0
        self._size = 0
        self._series: dict[SeriesKey, int] = {}
        self._declared: list[tuple[SeriesKey, int]] = []
        self._refused = b""
        self._is_torn = False

    def open(self, timestamp: float) -> None:
        """Make the folder and its first segment. Raises OSError; may be called again then."""
        if self._fd >= 0:
            return
        os.makedirs(self.path, exist_ok=True)
        _keep_out_of_git(self._store_dir)
        self._open_segment(timestamp)

    def for_process(self, pid: int) -> Writer:
        """A writer of the same run for another process of this host."""
        return Writer(self._store_dir, self._identity, self._host, pid, time.time_ns(), self._rank, self._segment_bytes)

    def write(self, lines: Iterable[str], timestamp: float) -> None:
        """Append lines, each without its newline. Raises OSError; what was not written is kept for the next call."""
        text = "".join([line + "\n" for line in lines])
        data = self._refused + text.encode("ascii")
        self._refused = data
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


def read_pid_start(pid: int) -> int | None:
    """When a process started, in clock ticks since boot (proc(5), /proc/pid/stat, field 22), or None."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def is_rank_over(run_path: str, rank: int) -> bool:
    """Whether a process of this rank has written into a run and is gone. Unreadable folders say nothing."""
    try:
        writers = os.listdir(run_path)
    except OSError:
        return False
    for writer in writers:
        try:
            with open(os.path.join(run_path, writer, segment_file(1)), "rb") as file:
                head = json.loads(file.readline())["writer"]
            if head["rank"] == rank and not (
                head["host"] == os.uname().nodename and read_pid_start(head["pid"]) == head["pid_start"]
            ):
                return True
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return False


def store_error(path: str, error: OSError) -> StoreError:
    """The one clear error for a folder that can't be written."""
    reason = error.strerror or type(error).__name__
    return StoreError(
        f"the store can't be written: {reason}: {error.filename or path}; "
        "give a folder that can be as dir= or METRANA_DIR"
    )


def _keep_out_of_git(store_dir: str) -> None:
    path = os.path.join(store_dir, ".gitignore")
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    except OSError:
        return  # there already, or another process was first
    try:
        os.write(fd, b"*\n")
    finally:
        os.close(fd)
