"""The writing side of the store: one process appends to its own folder of a run."""

from __future__ import annotations

import errno
import json
import os
import time
from itertools import groupby
from operator import itemgetter

from metrana import report
from metrana.descriptors import OwnDescriptor, above_standard
from metrana.model import Labels
from metrana.store.encoding import Entry, SeriesKey, encode_columns, encode_declaration, encode_values
from metrana.store.layout import FORMAT_VERSION, SEGMENT_BYTES, encode_value, run_folder, segment_file, writer_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from metrana.identity import Identity
    from metrana.model import Batch
    from metrana.store.process import WriterProcess

STALL_SECS = 0.05
LOOK_SECS = 5.0  # from one look at whether the folder is still there to the next
WRITE_BYTES = 1024 * 1024  # at most in one write call, so that a stalled disk never holds much more than this twice

BURST_POINTS = 32  # in a row of one series, from which on columns are worth it
COLUMN_POINTS = 1000  # in one line at most: what a kill in the middle of a write may tear

# What may pass by itself: the store is tried again later. Everything else is the folder's fault and said at once.
PASSING_ERRORS = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE, errno.EINTR}
)


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
        self._file: OwnDescriptor | None = None
        self._segment = 0
        self._size = 0
        self._series: dict[SeriesKey, int] = {}
        self._batch_series: tuple[tuple[str, Labels], ...] = ()
        self._batch_numbers = ""
        self._refused = b""
        self._is_torn = False
        self._look_due = 0.0
        self._is_finished = False
        self._waiting_since = 0.0  # for the disk, that is: inside a write call

    def open(self, timestamp: float) -> None:
        """Make the folder and its first segment. Raises OSError; may be called again then."""
        if self._file is not None:
            return
        # A folder that was there before may be the user's own project; what lies in it below is metrana's in any case.
        is_own = not os.path.isdir(self.store_dir)
        os.makedirs(self.path, exist_ok=True)
        keep_out_of_git(self.store_dir if is_own else os.path.dirname(os.path.dirname(os.path.dirname(self.run_path))))
        self._open_segment(timestamp)

    @property
    def rank(self) -> int | None:
        """The process's rank in its launch."""
        return self._process.rank

    @property
    def refused_lines(self) -> int:
        """How many lines wait here for a disk that refused them."""
        return self._refused.count(b"\n")

    @property
    def is_stalled(self) -> bool:
        """Whether the disk keeps a write call waiting; a moment may as well be a wait for the interpreter."""
        since = self._waiting_since
        return since > 0.0 and time.monotonic() - since > STALL_SECS

    def in_fork(self) -> Writer:
        """A writer of the same run for this process, a forked copy of the one that made this writer."""
        return Writer(self.store_dir, self._identity, self._process.in_fork(), self._segment_bytes)

    def write(self, lines: Iterable[str], timestamp: float) -> None:
        """Append lines, each without its newline. Raises OSError; what was not written is kept for the next call."""
        if self._is_finished:
            return
        self._refused += "".join([line + "\n" for line in lines]).encode("ascii")
        if self._find_file() is not None and timestamp >= self._look_due and self._is_removed(timestamp):
            report.warn(f"the store's folder was removed while it was written: {self.path} is made anew")
            self.close()
        while self._refused:
            file = self._find_file()
            if file is None:
                self.open(timestamp)
            else:
                self._write_some(file)
        if self._file is None:
            self.open(timestamp)
        elif self._size >= self._segment_bytes:
            self.close()
            self._open_segment(timestamp)

    def encode_points(self, entries: list[Entry]) -> list[str]:
        """The lines of points, with declarations in front of a series' first.

        Neighbours of one tick share a line. A burst of one series, as a loop that logs without a pause makes, is
        written in columns: a third of the time and of the room.
        """
        known = len(self._series)
        try:
            return self._encode_points(entries)
        except BaseException:  # whatever it was: the new series' declarations are lost with the other lines
            while len(self._series) > known:
                self._series.popitem()
            raise

    def _encode_points(self, entries: list[Entry]) -> list[str]:
        lines: list[str] = []
        mixed: list[Entry] = []
        for key, group in groupby(entries, itemgetter(2)):
            points = list(group)
            if len(points) < BURST_POINTS:
                mixed += points
                continue
            self._encode_mixed(mixed, lines)
            mixed = []
            number = self._series.get(key) or self._declare(key, lines)
            for first in range(0, len(points), COLUMN_POINTS):
                lines.append(encode_columns(number, points[first : first + COLUMN_POINTS]))
        self._encode_mixed(mixed, lines)
        return lines

    def _encode_mixed(self, entries: list[Entry], lines: list[str]) -> None:
        series = self._series
        index, count = 0, len(entries)
        while index < count:
            timestamp, step, key, value = entries[index]
            index += 1
            numbers, values = [str(series.get(key) or self._declare(key, lines))], [encode_value(value)]
            while index < count and entries[index][0] == timestamp and entries[index][1] == step:
                _, _, key, value = entries[index]
                index += 1
                numbers.append(str(series.get(key) or self._declare(key, lines)))
                values.append(encode_value(value))
            lines.append(f'{{"t":{timestamp!r},"s":{step},"i":[{",".join(numbers)}],"v":[{",".join(values)}]}}')

    def write_batch(self, batch: Batch) -> None:
        """Append a tick as one line. Raises OSError; then it's kept, as with write()."""
        lines: list[str] = []
        if batch.series is not self._batch_series:
            numbers = [self._series.get(key) or self._declare(key, lines) for key in batch.series]
            self._batch_series, self._batch_numbers = batch.series, ",".join(map(str, numbers))
        values = encode_values(list(batch.values))
        lines.append(f'{{"t":{batch.timestamp!r},"s":{batch.step},"i":[{self._batch_numbers}],"v":{values}}}')
        self.write(lines, batch.timestamp)

    def sync(self) -> None:
        """Have the kernel put it all on the disk. Raises OSError."""
        file = self._find_file()
        if file is not None:
            os.fsync(file.fd)

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def finish(self) -> None:
        """Close for good: what comes later is no longer of this run."""
        self._is_finished = True
        self.close()

    def look(self) -> None:
        """Have the next write see whether the folder is still there."""
        self._look_due = 0.0

    def _find_file(self) -> OwnDescriptor | None:
        """The open segment; None where there's none, or the script has closed it, as daemons close all they inherit."""
        if self._file is not None and not self._file.is_ours():
            self._file = None  # the number may be the script's own file by now: it's neither written nor closed
        return self._file

    def _is_removed(self, timestamp: float) -> bool:
        self._look_due = timestamp + LOOK_SECS
        return self._file is not None and os.fstat(self._file.fd).st_nlink == 0

    def _declare(self, key: SeriesKey, lines: list[str]) -> int:
        number = self._series[key] = len(self._series) + 1
        lines.append(encode_declaration(key, number))
        return number

    def _open_segment(self, timestamp: float) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
        path = os.path.join(self.path, segment_file(self._segment + 1))
        file = OwnDescriptor(above_standard(os.open(path, flags | getattr(os, "O_BINARY", 0), 0o644)))
        self._file = file
        self._segment += 1
        self._size = 0
        self._is_torn = False
        head = json.dumps({**self._head, "t": timestamp}, separators=(",", ":"))
        # Lines that wait from the segment before refer to its declarations: repeat all of them.
        declarations = [encode_declaration(key, number) for key, number in self._series.items()]
        self._refused = "".join(line + "\n" for line in (head, *declarations)).encode("ascii") + self._refused
        while self._refused:
            self._write_some(file)

    def _write_some(self, file: OwnDescriptor) -> None:
        """One write call. A short write tears a line: it's written again in whole, on a line of its own."""
        end = len(self._refused)
        if end > WRITE_BYTES:
            end = self._refused.rfind(b"\n", 0, WRITE_BYTES) + 1 or self._refused.find(b"\n") + 1
        chunk = self._refused[:end]
        prefix = b"\n" if self._is_torn else b""
        self._waiting_since = time.monotonic()
        try:
            written = os.write(file.fd, prefix + chunk)
        finally:
            self._waiting_since = 0.0
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


def describe_failure(path: str, error: OSError) -> str:
    """Why a folder can't be written, in one clear phrase."""
    reason = error.strerror or type(error).__name__
    return f"the store can't be written: {reason}: {error.filename or path}"


def keep_out_of_git(folder: str) -> None:
    """Have git see nothing of a folder that is metrana's own."""
    try:
        fd = os.open(os.path.join(folder, ".gitignore"), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    except OSError:
        return  # there already, or another process was first
    try:
        os.write(fd, b"*\n")
    finally:
        os.close(fd)
