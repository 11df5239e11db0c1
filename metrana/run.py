"""Run: what ``init()`` returns, and the run that the module's functions act on."""

from __future__ import annotations

import os
import sys
import threading
import time
from itertools import count
from multiprocessing import util

from metrana import values
from metrana.errors import MetricError, NoRunError, StoreError
from metrana.guesses import guesses_arguments
from metrana.store.spool import Spool
from metrana.system import GRACE_SECS, SystemMonitor
from metrana.threads import original

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any, NoReturn

    from metrana.identity import Identity
    from metrana.model import Labels
    from metrana.store.encoding import SeriesKey

CLOSED, FAILED = "closed", "failed"

_is_exiting = False


class _NoCounters(dict):  # type: ignore[type-arg]
    """The counters of a closed run: none, and none can be made by a log() that another thread began before."""

    def setdefault(self, key: object, default: object = None) -> NoReturn:
        raise no_run("the run was closed by another thread: call metrana.init() to open another")

    def __setitem__(self, key: object, value: object) -> NoReturn:
        self.setdefault(key)


class Run:
    """An open run. Made by ``metrana.init()``; a context manager that closes it.

    The methods may be called from any thread. ``log()`` never waits for the disk: a point is there within a second.
    """

    def __init__(
        self,
        identity: Identity,
        spool: Spool,
        next_steps: dict[tuple[str, Labels], int],
        on_close: Callable[[Run], None],
        lacks_capture: bool,
    ) -> None:
        self._identity = identity
        self._spool = spool
        self._on_close = on_close
        self._monitor: SystemMonitor | None = None
        self._is_closed = False
        self._is_fork_copy = False
        self._lacks_capture = lacks_capture
        self._fork_lock = original("_thread", "RLock")()
        self._is_settling = False
        self._append = spool.append
        self._now = time.time
        self._counters: dict[SeriesKey, Callable[[], int]] = {
            (name if not labels else (name, labels)): count(step).__next__
            for (name, labels), step in next_steps.items()
        }

    @property
    def id(self) -> str:
        """The run's id: what ``metrana show`` takes, and the end of its folder's name."""
        return self._identity.run_id

    @property
    def name(self) -> str:
        return self._identity.run_name

    @property
    def path(self) -> str:
        """The run's folder in the store."""
        return self._spool.writer.run_path

    @property
    def store_dir(self) -> str:
        """The store's folder."""
        return self._spool.writer.store_dir

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    @property
    def lacks_capture(self) -> bool:
        """Whether the next init() is to chart the hardware: in a forked copy, and where the start was interrupted."""
        return self._lacks_capture

    @property
    def identity(self) -> Identity:
        return self._identity

    def log(
        self,
        name: str | dict[str, Any],
        value: object = values.MISSING,
        *,
        step: object = None,
        labels: object = None,
        timestamp: object = None,
    ) -> None:
        """Log one metric, or several as a dict of names and values; names of a nested dict are joined with slashes.

        ``step`` counts up by itself from 0, per series; ``timestamp`` is in seconds since the epoch, now by default.
        ``labels`` is a dict of text to text that separates series. Raises MetricError for a value that isn't a number
        (then nothing of the call is logged), NoRunError once the run is closed.
        """
        # The way of nearly every call. A closed run and a forked copy have no counters, so they need no check here.
        kind = value.__class__
        counters = self._counters
        if (
            labels is None
            and timestamp is None
            and (kind is float or (kind is int and -values.INT_LIMIT < value < values.INT_LIMIT))  # type: ignore[operator]
            and name.__class__ is str
            and name in counters
        ):
            if step is None:
                at_step = counters[name]()
            else:
                at_step = values.to_step(name, step)
                counters[name] = count(at_step + 1).__next__
            self._append((self._now(), at_step, name, value))
            if not self._spool.is_awake:
                self._spool.wake()
            return
        self._log(name, value, step, labels, timestamp)

    @guesses_arguments
    def log_attributes(self, attributes: dict[str, Any]) -> None:
        """Log constant facts of the run. Later ones replace earlier ones of the same name.

        Values are JSON's: numbers, texts, lists, dicts; anything else is kept as its text. Raises SettingError where
        ``attributes`` is no dict, NoRunError once the run is closed.
        """
        self._check_open()
        self._spool.put_attributes(values.to_attributes(attributes))

    def flush(self) -> None:
        """Return when everything logged before is on the disk.

        Raises StoreError where the disk refuses it (it's tried again all the same), NoRunError once the run is closed.
        """
        self._check_open()
        if not self._spool.flush():
            raise StoreError(f"the store can't be written now: {self.path}: what was logged waits in memory")

    def close(self) -> None:
        """End the run: take a last sample of the hardware, write everything. A second call does nothing.

        Bounded: two seconds more than the disk needs.
        """
        self._end(CLOSED)

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # sys.exit() is an end that the script chose, as it is at the end of a script without the context.
        self._end(CLOSED if kind is None or issubclass(kind, SystemExit) else FAILED)

    def capture(self, interval_secs: float, first_step: int = 0, grace_secs: float = GRACE_SECS) -> None:
        """Start charting the hardware into this run. Never raises an Exception.

        ``grace_secs`` is how long the other processes of the run have to claim the cards that they drive.
        """
        self._check_open()
        self._monitor = SystemMonitor(
            on_batch=self._spool.put_batch,
            on_attributes=self._spool.put_attributes,
            interval_secs=interval_secs,
            first_step=first_step,
            run_id=self.id,
            rank=self._spool.writer.rank,
            grace_secs=grace_secs,
        )
        self._monitor.start()
        self._lacks_capture = False

    def end_at_exit(self) -> None:
        """The interpreter ends without a ``close()``: keep everything, and tell a crash from an end."""
        global _is_exiting
        _is_exiting = True
        has_crashed = not hasattr(sys, "ps1") and (
            getattr(sys, "last_exc", None) is not None or getattr(sys, "last_type", None) is not None
        )
        self._end(FAILED if has_crashed else CLOSED)

    def leave_in_fork(self) -> None:
        """In a forked copy of the process: the sampling child, the writer and all that waits are the original's."""
        self._monitor = None
        self._spool.abandon()
        self._lacks_capture = True
        self._is_settling = False
        self._fork_lock = original("_thread", "RLock")()
        if not self._is_fork_copy:  # a copy of a copy that has said nothing yet changes nothing
            self._is_fork_copy = True
            # Without counters log() takes its longer way, which settles the copy.
            self._original_counters, self._counters = self._counters, {}

    def _settle_in_fork(self) -> None:
        """The copy has something to say: it gets a writer of its own in the same run."""
        with self._fork_lock:
            if not self._is_fork_copy or self._is_settling:
                return  # another of its threads was first, or this one is at it and was interrupted by a signal
            self._is_settling = True
            self._spool = Spool(self._spool.writer.in_fork())
            self._append = self._spool.append
            self._spool.open()
            # multiprocessing's forked workers leave by os._exit, which runs its finalizers and no exit handler.
            util.Finalize(self, self.end_at_exit, exitpriority=0)
            # Last of all: they open the short way to every thread.
            self._counters = self._original_counters
            self._is_fork_copy = False

    def _log(self, name: object, value: object, step: object, labels: object, timestamp: object) -> None:
        self._check_open()
        if isinstance(name, dict):
            if value is not values.MISSING:
                raise MetricError("log() takes a dict of names and values, or one name and its value, not both")
            pairs = list(name.items())
        elif value is values.MISSING:
            raise MetricError(f"metric {name!r}: no value was given")
        else:
            pairs = [(name, value)]
        # All are checked before the first is logged: a call is logged as a whole or not at all.
        numbers = values.to_numbers(pairs)
        first = numbers[0][0] if numbers else ""
        at = self._now() if timestamp is None else values.to_timestamp(first, timestamp)
        label_set = () if labels is None else values.to_labels(first, labels)
        given = None if step is None else values.to_step(first, step)
        entries = []
        for key, number in numbers:
            series: SeriesKey = (key, label_set) if label_set else key
            if given is None:
                entries.append((at, self._counter(series)(), series, number))
            else:
                self._counters[series] = count(given + 1).__next__
                entries.append((at, given, series, number))
        self._extend(entries)

    def _counter(self, series: SeriesKey) -> Callable[[], int]:
        # setdefault is atomic: two threads with a series' first point share one counter.
        return self._counters.get(series) or self._counters.setdefault(series, count().__next__)

    def _extend(self, entries: list[tuple[float, int, SeriesKey, float]]) -> None:
        self._spool.entries.extend(entries)  # in one piece, so that the points of a tick stay neighbours
        if not self._spool.is_awake:
            self._spool.wake()

    def _end(self, event: str) -> None:
        """End the run. Where an interrupt ends the wait in here, the next call, the exit's at the latest, goes on."""
        if self._is_closed:
            return
        if not self._is_fork_copy:
            try:
                if self._monitor is not None:
                    self._monitor.stop()
            finally:
                self._counters = _NoCounters()
                self._spool.close(event)
        self._is_closed = True
        self._on_close(self)

    def _check_open(self) -> None:
        if self._is_closed:
            raise no_run(f"run {self.name!r} is closed: call metrana.init() to open another")
        if self._is_fork_copy:
            self._settle_in_fork()

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "open"
        return f"<metrana.Run {self.name!r} {self.id} {state} in {os.path.dirname(self.path)}>"


def no_run(message: str) -> BaseException:
    """What to raise without an open run: NoRunError; in a daemon thread that the interpreter's exit meets, its end.

    Python stops such threads a moment later, in silence. A traceback would look like a fault of the training.
    """
    if _is_exiting and threading.get_ident() != threading.main_thread().ident:
        return SystemExit()
    return NoRunError(message)
