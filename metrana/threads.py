"""Real threads in the training process, also where gevent or eventlet has replaced Python's own by greenlets.

A reader that blocks would freeze such a program, and a greenlet would never run while the training computes.
"""

from __future__ import annotations

import _thread
import os
import select
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


# The modules themselves and not their names: a select.py beside the script would be found by its name.
_MODULES = {"_thread": _thread, "os": os, "select": select, "time": time}


def original(module: str, name: str) -> Any:
    """A function of the standard library as it was before gevent or eventlet patched it."""
    monkey = sys.modules.get("gevent.monkey")
    if monkey is not None:
        return monkey.get_original(module, name)
    patcher = sys.modules.get("eventlet.patcher")
    if patcher is not None:
        return getattr(patcher.original(module), name)
    return getattr(_MODULES[module], name)


class Bell:
    """Wakes one waiting thread; rung before the wait, the wait returns at once. Safe among greenlets and in signals."""

    def __init__(self) -> None:
        self._lock = original("_thread", "allocate_lock")()
        self._lock.acquire()

    def ring(self) -> None:
        try:
            self._lock.release()
        except RuntimeError:
            pass  # rung already

    def wait(self, timeout_secs: float = -1) -> bool:
        """True when rung, False when the time was up first."""
        return bool(self._lock.acquire(True, timeout_secs))


EXIT_SECS = 1.0


class Worker:
    """A daemon thread that can be waited for with a deadline."""

    def __init__(self, target: Callable[[], None], name: str) -> None:
        self._target = target
        self._name = name
        self._ended = Bell()
        self._is_started = False
        self.has_ended = False

    def start(self) -> None:
        """Raises RuntimeError where no thread can be started."""
        if "gevent.monkey" in sys.modules or "eventlet.patcher" in sys.modules:
            original("_thread", "start_new_thread")(self._run, ())
        else:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._is_started = True  # before: an interrupt may come out of start() though the thread is there
            try:
                self._thread.start()
            except Exception:
                self._is_started = False
                raise
        self._is_started = True

    def join(self, timeout_secs: float | None = None) -> bool:
        """True when the thread has ended, or was never started. Without a time, waits as long as it takes."""
        if not self._is_started:
            return True
        while not self.has_ended:
            # Woken by the bell, or now and then: an interrupt may have taken the bell away.
            secs = 0.2 if timeout_secs is None else max(0.0, min(0.2, timeout_secs))
            if not self._ended.wait(secs) and timeout_secs is not None:
                timeout_secs -= secs
                if timeout_secs <= 0:
                    return self.has_ended
        thread = getattr(self, "_thread", None)
        if thread is not None:
            # A moment: the thread has left its last statement of ours, and what it still does is the interpreter's. An
            # interrupt may have left that in a state in which no thread ever ends.
            thread.join(EXIT_SECS if timeout_secs is None else min(EXIT_SECS, timeout_secs))
        return True

    def _run(self) -> None:
        try:
            self._target()
        finally:
            self.has_ended = True
            self._ended.ring()


def sleep(secs: float) -> None:
    original("time", "sleep")(secs)
