"""The sampling child's keeper in the training process: launches it, and stops it within a deadline."""

from __future__ import annotations

import os
import signal
import weakref
from multiprocessing import context

from metrana.imports import StdlibFirst
from metrana.model import Batch
from metrana.system.channel import ATTRIBUTES, BATCH, FAILED, SERIES, STOP, WARNING, Entry, NullContext, OrderSender
from metrana.system.drain import Drain
from metrana.system.packages import find_folders
from metrana.system.spawn import NAME, TERMINATE, ChildProcess, StandardDescriptors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from metrana.model import Labels

STOP_SECS = 2.0
# Of those: for the last tick and an orderly exit, after terminating, after killing. Then the child is abandoned.
_ORDERLY_SHARE, _TERMINATE_SHARE, _KILL_SHARE = 0.7, 0.05, 0.1

# Never reached, since the child bounds its own buffer. A size of 0 would have the queue import more, and late.
_QUEUE_SIZE = 2**31 - 1

_alive: weakref.WeakSet[Supervisor] = weakref.WeakSet()


class Supervisor:
    """One sampling child, from launch to end.

    The callbacks run in the drain thread: ``on_batch(batch)``, ``on_attributes(dict)``, ``on_warning(text)``, and
    ``on_lost(reason)`` when the child is gone without having been asked to.
    """

    def __init__(
        self,
        interval_secs: float,
        first_step: int,
        on_batch: Callable[[Batch], None],
        on_attributes: Callable[[dict[str, object]], None],
        on_warning: Callable[[str], None],
        on_lost: Callable[[str], None],
    ) -> None:
        self._interval_secs = interval_secs
        self._first_step = first_step
        self._handlers: dict[str, Callable[[Any], None]] = {
            SERIES: self._take_series,
            BATCH: self._take_batch,
            ATTRIBUTES: on_attributes,
            WARNING: on_warning,
            FAILED: self._take_failure,
        }
        self._on_batch = on_batch
        self._on_lost = on_lost
        self._series: tuple[tuple[str, Labels], ...] = ()
        self._failure = ""
        self._is_stopping = False
        self._child: ChildProcess | None = None
        self._queue: Any = None
        self._orders: OrderSender | None = None

    def start(self) -> None:
        """Launch the child and its drain. Raises CannotLaunch, OSError, RuntimeError; then nothing is left behind."""
        # Not when metrana is imported: these are a third of all that it imports, and runs without capture need neither.
        with StdlibFirst():
            from multiprocessing import queues
        # From the first descriptor on: another thread may fork at any moment, and a copy must give them all back.
        _alive.add(self)
        try:
            with StandardDescriptors():
                self._queue = queues.Queue(_QUEUE_SIZE, ctx=NullContext())
                self._orders = orders = OrderSender()
            self._drain = Drain(self._queue, orders, self._handlers, self._end, self._interval_secs)
            options = {
                "pid": os.getpid(),
                "interval_secs": self._interval_secs,
                "first_step": self._first_step,
                **self._drain.knowledge,
            }
            process_object = context.SpawnProcess(
                target=Entry("metrana.system.child", "main"), args=(self._queue, orders.receiver(), options), name=NAME
            )
            self._child = ChildProcess(process_object, find_folders())
            self._queue._writer.close()  # a dead child then means the end of the queue, also in mid-message
            self._drain.start()
        except BaseException:
            _alive.discard(self)
            if self._child is not None:
                self._child.send_signal(signal.SIGKILL)
                self._child.wait(STOP_SECS)
            self.forget()
            raise
        orders.close_receiver()

    def stop(self, timeout_secs: float = STOP_SECS) -> None:
        """Ask the child for its last tick and its exit; terminate, kill and abandon it as the time runs out."""
        child, orders = self._child, self._orders
        if child is None or orders is None or child.owner_pid != os.getpid():
            return
        self._child = None
        self._is_stopping = True
        _alive.discard(self)
        try:
            self._stop(child, orders, timeout_secs)
        except BaseException:
            child.send_signal(signal.SIGKILL)  # an interrupt ends the patience, too
            raise
        finally:
            child.close()
            orders.close()

    def _stop(self, child: ChildProcess, orders: OrderSender, timeout_secs: float) -> None:
        orders.send({STOP: True})
        self._drain.hurry()
        is_drained = self._drain.join(timeout_secs * _ORDERLY_SHARE)
        for signal_number, share in ((TERMINATE, _TERMINATE_SHARE), (signal.SIGKILL, _KILL_SHARE)):
            # A child that has closed its queue needs a moment to exit.
            if is_drained and child.wait(timeout_secs * share):
                return
            if signal_number == TERMINATE:
                self._on_lost("the sampling process didn't end when it was asked to: it may hang in a driver")
            child.send_signal(signal_number)
            is_drained = self._drain.join(timeout_secs * share)
        child.wait(timeout_secs * _KILL_SHARE)

    def forget(self) -> None:
        """Give back every descriptor; in a forked copy of the training process, those of the original."""
        if self._queue is not None:
            self._queue._reader.close()
            self._queue._writer.close()
        if self._orders is not None:
            self._orders.close()
        if self._child is not None:
            self._child.close()
        self._child = None

    def _take_series(self, series: tuple[tuple[str, Labels], ...]) -> None:
        self._series = series

    def _take_batch(self, content: tuple[float, int, tuple[float, ...]]) -> None:
        timestamp, step, values = content
        self._on_batch(Batch(timestamp, step, self._series, values))

    def _take_failure(self, reason: str) -> None:
        self._failure = reason

    def _end(self) -> None:
        if self._is_stopping:
            return
        child = self._child
        if child is not None:
            child.wait(1.0)
            self._on_lost(self._failure or "the sampling process ended unexpectedly")


def _forget_in_fork() -> None:
    for supervisor in list(_alive):
        supervisor.forget()
    _alive.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_fork)
