"""Between ``log()`` and the disk: what was logged waits here until a background thread has written it."""

from __future__ import annotations

import _thread
import errno
import time
from collections import deque
from contextlib import contextmanager

from metrana import report
from metrana.errors import StoreError, describe_error
from metrana.store.encoding import add_time_of_writing, encode_attributes, encode_end
from metrana.store.writer import PASSING_ERRORS, Writer, describe_failure
from metrana.threads import Bell, Worker, original, sleep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from metrana.model import Batch
    from metrana.store.encoding import Entry

DELAY_SECS = 0.5  # how long a point may wait for others to be written with
GLANCE_SECS = 0.05  # after which a burst is seen
BURST = 2_000  # points that are written without waiting on
CHUNK = 10_000  # points that are encoded at once
QUIET_POINTS = 1_000  # while no more wait, log() leaves it to the thread's own pace
BACKLOG = 250_000  # points that may wait for their encoding before log() makes room for it
MEMORY_POINTS = 2_000_000  # that wait for a disk that refuses or hangs; beyond, the oldest are lost, and that's told
YIELD_SECS = 0.001
RETRY_SECS = 1.0
OWN_SECS = 10.0  # a point whose time is further from now than that may carry one that the user gave


class _Request:
    """Somebody waits until what was logged before is on the disk."""

    def __init__(self) -> None:
        self._done = Bell()
        self.is_written = False

    def finish(self, is_written: bool) -> None:
        self.is_written = is_written
        self._done.ring()

    def wait(self, secs: float) -> bool:
        """True when it was answered within the time."""
        return self._done.wait(secs)


class Spool:
    """Entries in order of logging, and the thread that hands them to the writer.

    ``append`` is the deque's own: atomic, no lock, no wait. Call ``wake()`` after it while ``is_awake`` is False.

    Only background threads write: the spool's own, and through ``put_batch`` the drain's. Whoever calls
    ``flush()`` or ``close()`` just waits for them, so that a signal handler may call these while its own thread does.
    """

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.entries: deque[Any] = deque(maxlen=MEMORY_POINTS)
        self.append = self.entries.append
        self.is_awake = True  # until it's open, nothing is to be woken
        self._lock = original("_thread", "allocate_lock")()
        self._owner: int | None = None  # the thread that holds the lock
        self._wake = Bell()
        self._hurry = Bell()
        self._requests: deque[_Request] = deque()
        self._is_stopping = False
        self._is_failing = False
        self._worker: Worker | None = None

    def open(self) -> None:
        """Make the folder and start the thread. Raises StoreError where the folder can't be made for good."""
        try:
            self.writer.open(time.time())
        except OSError as error:
            if error.errno not in PASSING_ERRORS:
                failure = describe_failure(self.writer.path, error)
                raise StoreError(f"{failure}; give a folder that can be as dir= or METRANA_DIR") from error
            if error.errno not in (errno.EMFILE, errno.ENFILE):  # that may well have passed before the first write
                self._take_failure(error)
        worker = Worker(self._run, "metrana-store")
        try:
            worker.start()
            self._worker = worker
        except RuntimeError:
            self._worker = None  # no thread to be had: log() writes by itself, see wake()
        self.is_awake = False
        if self.entries:
            self.wake()

    def wake(self) -> None:
        """Something waits: have it written within a second."""
        if self._is_stopping:
            return
        if self._worker is None:
            self._write_alone()
            return
        waiting = len(self.entries)
        if waiting < QUIET_POINTS:
            self.is_awake = True
            self._wake.ring()
        elif waiting > BACKLOG and not self.writer.is_stalled:
            # A loop that does nothing but log is faster than the encoding, and would never let it catch up. This gives
            # it the interpreter, call by call until it has; it never waits for the disk.
            sleep(YIELD_SECS)

    def put_attributes(self, attributes: dict[str, object]) -> None:
        """Raises ValueError where they have no JSON form: here, in the caller's thread, not in the one that writes."""
        now = time.time()
        self.append((now, encode_attributes(attributes, now)))
        if not self.is_awake:
            self.wake()

    def put_batch(self, batch: Batch) -> None:
        """For background threads, which may wait for the disk: written at once, which spares waking another thread."""
        with self._holding():
            if self._is_stopping:
                return
            try:
                self.writer.write_batch(batch)
                self._is_failing = False
            except OSError as error:
                self._take_failure(error)

    def flush(self) -> bool:
        """Return when all that waits now is on the disk; False when the disk refused."""
        if self._worker is None:
            return self._write_alone()
        request = _Request()
        self._requests.append(request)
        self._hurry.ring()
        self._wake.ring()
        while not request.wait(0.2):
            if self._worker.has_ended:
                return self._write_alone()
        return request.is_written

    def close(self, event: str) -> None:
        """Write all that waits and the writer's end, and stop the thread. As fast as the disk allows.

        May be called again where an interrupt ended the wait.
        """
        if not self._is_stopping:
            now = time.time()
            self.append((now, encode_end(event, now)))
            self._is_stopping = True
        if self._worker is not None:
            self._hurry.ring()
            self._wake.ring()
            self._worker.join()
        if self._worker is None or self.entries:
            # What other threads logged while the last of it was written.
            self._write_alone()
        with self._holding():
            self.writer.finish()
        lost = len(self.entries) + self.writer.refused_lines
        if lost:
            report.warn(f"the store can't be written: {self.writer.path}: {lost} lines of the run's end are lost")

    def abandon(self) -> None:
        """In a forked copy of the process: give up what the original will write."""
        self._is_stopping = True
        self.entries.clear()
        self._worker = None
        self.writer.close()

    def _run(self) -> None:
        is_over = False
        try:
            while not is_over:
                if not self.entries:
                    self._wake.wait()
                # Each waking costs the training process; only a burst is worth looking at again.
                self._wait_unless_hurried(GLANCE_SECS)
                if len(self.entries) < BURST:
                    self._wait_unless_hurried(DELAY_SECS - GLANCE_SECS)
                is_over = self._is_stopping
                requests = [self._requests.popleft() for _ in range(len(self._requests))]
                self.is_awake = False
                with self._holding():
                    is_written = self._write(sync=is_over or bool(requests))
                for request in requests:
                    request.finish(is_written)
                if not is_written and not is_over:
                    self.is_awake = True
                    self._wait_unless_hurried(RETRY_SECS)
        finally:
            while self._requests:
                self._requests.popleft().finish(False)

    def _wait_unless_hurried(self, secs: float) -> None:
        if not self._requests and not self._is_stopping:
            self._hurry.wait(secs)

    def _write_alone(self) -> bool:
        """Where there's no thread, or none any more. False where this thread is in the middle of it already: in a
        signal handler."""
        if self._owner == _thread.get_ident():
            return False
        with self._holding():
            return self._write(sync=True)

    @contextmanager
    def _holding(self) -> Iterator[None]:
        with self._lock:
            self._owner = _thread.get_ident()
            try:
                yield
            finally:
                self._owner = None

    def _write(self, sync: bool) -> bool:
        try:
            now = time.time()
            if sync:
                self.writer.look()
            if self.writer.refused_lines:
                self.writer.write((), now)  # first what the disk refused before, so that it doesn't grow here
            waiting = len(self.entries)
            while waiting > 0:
                if len(self.entries) >= MEMORY_POINTS:
                    report.warn("the disk didn't take the store in time: the oldest points waiting in memory are lost")
                taken = min(CHUNK, waiting)
                self.is_awake = False  # so that log() looks how much waits
                self.writer.write(self._encode(taken, now), now)
                waiting -= taken
            if sync:
                self.writer.sync()
        except OSError as error:
            self._take_failure(error)
            return False
        except Exception as error:  # memory that ran out, a bug: the thread must live on, and nothing is thrown away
            self._take_failure(OSError(0, describe_error(error)))
            return False
        self._is_failing = False
        return True

    def _take_failure(self, error: OSError) -> None:
        if not self._is_failing:
            self._is_failing = True
            failure = describe_failure(self.writer.path, error)
            report.warn(f"{failure}; what is logged waits in memory, and is written as soon as it can be")

    def _encode(self, count: int, now: float) -> list[str]:
        """The lines of the next entries: points, and lines that stand already.

        The last tells when it was written: of a process that's killed nothing else does.
        """
        popleft = self.entries.popleft
        taken = [popleft() for _ in range(count)]
        lines: list[str] = []
        points: list[Entry] = []
        try:
            for entry in taken:
                if len(entry) == 4:
                    points.append(entry)
                else:
                    lines += self.writer.encode_points(points)
                    lines.append(entry[1])
                    points = []
            lines += self.writer.encode_points(points)
            if not now - OWN_SECS < taken[-1][0] < now + OWN_SECS:  # a time that the user gave
                lines[-1] = add_time_of_writing(lines[-1], now)
            return lines
        except BaseException:  # whatever it was: nothing that was taken may be lost for it
            self.entries.extendleft(reversed(taken))
            raise
