"""Between ``log()`` and the disk: what was logged waits here until a background thread has written it."""

from __future__ import annotations

import time
from collections import deque

from metrana import report
from metrana.store.writer import PASSING_ERRORS, Writer, encode_attributes, encode_end, store_error
from metrana.threads import Bell, Worker, original

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from metrana.store.writer import Entry

DELAY_SECS = 0.5  # how long a point may wait for others to be written with
GLANCE_SECS = 0.05  # after which a burst is seen
BURST = 2_000  # points that are written without waiting on
CHUNK = 20_000  # points that are encoded at once
MEMORY_POINTS = 2_000_000  # that wait while the disk refuses them; beyond, the oldest are lost, counted and told
RETRY_SECS = 1.0


class Spool:
    """Entries in order of logging, and the thread that hands them to the writer.

    ``append`` is ``deque.append``: atomic, no lock, no wait. Call ``wake()`` after it while ``is_awake`` is False.
    """

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.entries: deque[Any] = deque()
        self.append = self.entries.append
        self.is_awake = False
        self._lock = original("_thread", "allocate_lock")()
        self._wake = Bell()
        self._stop = Bell()
        self._is_stopping = False
        self._lost = 0
        self._is_failing = False
        self._worker: Worker | None = None

    def open(self) -> None:
        """Make the folder and start the thread. Raises StoreError where the folder can't be made for good."""
        try:
            self.writer.open(time.time())
        except OSError as error:
            if error.errno not in PASSING_ERRORS:
                raise store_error(self.writer.path, error) from error
            self._is_failing = True
        worker = Worker(self._run, "metrana-store")
        try:
            worker.start()
            self._worker = worker
        except RuntimeError:
            self._worker = None  # no thread to be had: log() writes by itself, see wake()

    def wake(self) -> None:
        """Something waits: have it written within a second."""
        if self._is_stopping:
            return
        self.is_awake = True
        if self._worker is None:
            self.is_awake = False
            self.write()
        else:
            self._wake.ring()

    def put_attributes(self, attributes: dict[str, object]) -> None:
        self.append((time.time(), attributes))
        if not self.is_awake:
            self.wake()

    def put_in_background(self, entries: list[Any]) -> None:
        """For threads that may wait for the disk: written at once, which spares waking another thread for it."""
        self.entries.extend(entries)
        if not self.is_awake and not self._is_stopping:
            self.write()

    def write(self, sync: bool = False) -> bool:
        """Hand all that waits to the writer; with ``sync``, to the disk. False when the disk refused."""
        with self._lock:
            return self._write(sync)

    def close(self, event: str | None) -> None:
        """Write all that waits and the writer's end, and stop the thread. As fast as the disk allows."""
        self._is_stopping = True
        self._stop.ring()
        self._wake.ring()
        if self._worker is not None:
            self._worker.join(1.0)
        if event is not None:
            self.append((time.time(), event))
        if not self.write(sync=True):
            report.warn(
                f"the store can't be written ({self.writer.path}): {len(self.entries)} or more points of the run's "
                "end are lost"
            )
        with self._lock:
            self.writer.close()

    def abandon(self) -> None:
        """In a forked copy of the process: give up what the original will write."""
        self.entries.clear()
        self._worker = None
        self.writer.close()

    def _run(self) -> None:
        while not self._is_stopping:
            self._wake.wait()
            # Each waking costs the training process; only a burst is worth looking at again and again.
            self._stop.wait(GLANCE_SECS)
            if len(self.entries) < BURST:
                self._stop.wait(DELAY_SECS - GLANCE_SECS)
            self.is_awake = False
            if not self.write() and not self._is_stopping:
                self.is_awake = True
                self._stop.wait(RETRY_SECS)
                self._wake.ring()

    def _write(self, sync: bool) -> bool:
        try:
            self.writer.write((), time.time())  # what the disk refused before, so that it doesn't grow here
            for lines in self._encode():
                self.writer.write(lines, time.time())
            if sync:
                self.writer.sync()
        except OSError as error:
            self._take_failure(error)
            return False
        self._is_failing = False
        return True

    def _encode(self) -> Iterator[list[str]]:
        """The lines of what waits now, in chunks."""
        if self._lost:
            report.warn(f"the disk refused the store for too long: {self._lost} points are lost")
            self._lost = 0
        waiting = len(self.entries)
        while waiting > 0:
            points: list[Entry] = []
            popleft = self.entries.popleft
            other: tuple[float, Any] | None = None
            for _ in range(min(CHUNK, waiting)):
                entry = popleft()
                waiting -= 1
                if len(entry) != 4:
                    other = entry
                    break
                points.append(entry)
            lines = self.writer.encode_points(points)
            if other is not None:
                timestamp, content = other
                encode = encode_end if isinstance(content, str) else encode_attributes
                lines.append(encode(content, timestamp))
            yield lines

    def _take_failure(self, error: OSError) -> None:
        if not self._is_failing:
            self._is_failing = True
            report.warn(f"{store_error(self.writer.path, error)}; what is logged waits in memory until then")
        while len(self.entries) > MEMORY_POINTS:
            self.entries.popleft()
            self._lost += 1
