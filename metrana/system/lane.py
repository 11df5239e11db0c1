"""One thread for the calls that may hang. Only it ever touches the driver; the loop never waits for it for long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")


class Lane(Generic[T]):
    """Runs one call at a time. ``on_late()`` is called in the thread when a call ends that nobody waits for."""

    def __init__(self, on_late: Callable[[], None]) -> None:
        self._on_late = on_late
        self._calls: SimpleQueue[Callable[[], T]] = SimpleQueue()
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._is_awaited = False
        self._results: list[T] = []
        self._since: float | None = None
        self._thread: threading.Thread | None = None

    @property
    def busy_secs(self) -> float | None:
        """How long the call has been going on; None when none is."""
        since = self._since
        return None if since is None else time.monotonic() - since

    def submit(self, call: Callable[[], T]) -> None:
        """Begin a call, which must not raise, when none is going on. Raises RuntimeError where no thread starts."""
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="devices", daemon=True)
            thread.start()
            self._thread = thread  # only now: where none can be had, the next call tries again
        self._ended.clear()
        self._is_awaited = True
        self._since = time.monotonic()
        self._calls.put(call)

    def wait(self, secs: float) -> None:
        """Wait for the call that's going on, no longer than that."""
        self._ended.wait(secs)
        with self._lock:
            self._is_awaited = False

    def take(self) -> T | None:
        """What a call returned, each once and in their order; None where there's nothing new."""
        return self._results.pop(0) if self._results else None

    def _run(self) -> None:
        while True:
            result = self._calls.get()()
            with self._lock:
                self._results.append(result)
                self._since = None
                is_late = not self._is_awaited
                self._ended.set()
            if is_late:
                self._on_late()
