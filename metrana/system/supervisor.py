"""The sampling child's keeper in the training process: launches it, replaces it, and stops it within a deadline."""

from __future__ import annotations

import os
import signal
import time
import weakref

from metrana import report
from metrana.errors import describe_error
from metrana.model import Batch
from metrana.system.channel import (
    ATTRIBUTES,
    BATCH,
    DROPPED_ATTRIBUTE,
    ENDED,
    FAILED,
    MODE_ATTRIBUTE,
    SERIES,
    STARTED,
    STOP,
    WARNING,
)
from metrana.system.connection import Connection
from metrana.system.drain import SILENT, Drain, find_overdue
from metrana.system.lock_files import SHM, clear
from metrana.system.restarts import HUNG, Restarts, describe_loss
from metrana.system.spawn import TERMINATE
from metrana.threads import Bell, Worker, original

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from metrana.model import Labels

STOP_SECS = 2.0
# Of those: for the last tick, for an exit after it, after terminating, after killing. Then the child is abandoned.
_ORDERLY_SHARE, _EXIT_SHARE, _TERMINATE_SHARE, _KILL_SHARE = 0.7, 0.1, 0.05, 0.1
DEATH_SECS = 0.5  # in which a child that was killed, or has closed its queue, is gone

REPLACED_ATTRIBUTE = "system/capture_replaced"
_NEVER_STARTED = "the run ended before the sampling process had started"
_NEVER_ENDED = "the sampling process didn't end when it was asked to: it may hang in a driver"

STOPPED, DRAINED = "stopped", "drained"

_alive: weakref.WeakSet[Supervisor] = weakref.WeakSet()


class Supervisor:
    """The sampling children of one capture, one at a time, from launch to end.

    ``options`` are the capture's own: what the child should know. The callbacks run in the drain thread:
    ``on_batch(batch)``, ``on_attributes(dict)``, and ``on_lost(reason)`` when there's no child any more though nobody
    has asked it to end.
    """

    def __init__(
        self,
        options: dict[str, Any],
        on_batch: Callable[[Batch], None],
        on_attributes: Callable[[dict[str, object]], None],
        on_lost: Callable[[str], None],
    ) -> None:
        self._options = options
        self._on_batch = on_batch
        self._on_attributes = on_attributes
        self._on_lost = on_lost
        self._owner_pid = os.getpid()
        self._next_step: int = options["first_step"]
        self._dropped = 0
        self._mode = SHM
        self._grid_start: float | None = None
        self._series: tuple[tuple[str, Labels], ...] = ()
        self._failure = ""
        self._is_stopping = False
        self._has_left_in_order = False
        self._closing = original("_thread", "allocate_lock")()
        self._released: set[str] = set()
        self._stop_bell = Bell()
        self._connection: Connection | None = None
        self._restarts = Restarts()
        self._abandoned: list[int] = []
        handlers: dict[str, Callable[[Any], None]] = {
            STARTED: self._take_start,
            SERIES: self._take_series,
            BATCH: self._take_batch,
            ATTRIBUTES: self._take_attributes,
            WARNING: report.warn,
            FAILED: self._take_failure,
        }
        is_alone = options["run_id"] is None or not options["grace_secs"]
        self._drain = Drain(handlers, options["interval_secs"], is_alone)
        self._worker = Worker(self._keep, "metrana-drain")

    def start(self) -> None:
        """Launch the child and its drain. Raises CannotLaunch, OSError, RuntimeError; then nothing is left behind."""
        # From the first descriptor on: another thread may fork at any moment, and a copy gives back what it knows of.
        _alive.add(self)
        try:
            self._launch()
            if self._is_stopping:  # a signal handler or another thread has stopped it before there was a child to ask
                self._take_back()
                return
            self._worker.start()
        except BaseException:  # an interrupt, too, and then the thread may be there already
            self._is_stopping = True
            self._stop_bell.ring()
            self._take_back()
            raise

    def stop(self, timeout_secs: float = STOP_SECS) -> None:
        """Ask the child for its last tick and its exit; terminate, kill and abandon it as the time runs out."""
        if self._is_stopping or self._owner_pid != os.getpid():
            return
        self._is_stopping = True
        try:
            self._stop(timeout_secs)
        except BaseException:
            self._signal(signal.SIGKILL)  # an interrupt ends the patience, too
            raise
        finally:
            self._clear_locks()
            self._release(STOPPED)

    def _clear_locks(self) -> None:
        """Delete the lock files of a child that was killed, unless other processes of the run are there."""
        run_id = self._options["run_id"]
        if run_id is not None and not self._has_left_in_order:
            clear(run_id, self._mode, os.environ)

    def _release(self, side: str) -> None:
        """Close the connection once both sides, who stops and the drain thread, have done with it."""
        with self._closing:
            self._released.add(side)
            if self._released == {STOPPED, DRAINED} and self._connection is not None:
                self._wait(0.0)  # where it was killed meanwhile, no zombie is left
                self._connection.close()
                _alive.discard(self)

    def forget(self) -> None:
        """In a forked copy of the training process: give back the descriptors of the original."""
        self._is_stopping = True
        if self._connection is not None:
            self._connection.close()

    def _launch(self) -> None:
        self._connection = connection = Connection()
        connection.open(
            {
                **self._options,
                **self._drain.knowledge,
                "pid": os.getpid(),
                "first_step": self._next_step,
                "start": self._grid_start,
                "left_out": self._restarts.left_out,
                "abandoned": self._abandoned,
                "dropped": self._dropped,
            }
        )

    def _take_back(self) -> None:
        """Undo the start, as far as it has come."""
        self._signal(signal.SIGKILL)
        self._wait(STOP_SECS)
        self._worker.join(DEATH_SECS)
        self._clear_locks()
        if self._connection is not None:
            self._connection.close()
        _alive.discard(self)

    def _stop(self, timeout_secs: float) -> None:
        self._stop_bell.ring()
        self._ask_to_stop()
        is_drained = self._worker.join(timeout_secs * _ORDERLY_SHARE)
        if is_drained and self._wait(timeout_secs * _EXIT_SHARE):
            return
        if not is_drained:
            self._on_lost(_NEVER_STARTED if self._grid_start is None else _NEVER_ENDED)
        for signal_number, share in ((TERMINATE, _TERMINATE_SHARE), (signal.SIGKILL, _KILL_SHARE)):
            self._signal(signal_number)
            is_drained = is_drained or self._worker.join(timeout_secs * share)
            if is_drained and self._wait(timeout_secs * share):
                return

    def _ask_to_stop(self) -> None:
        connection = self._connection
        if connection is not None and connection.orders is not None:
            connection.orders.send({STOP: True})

    def _signal(self, number: int) -> None:
        connection = self._connection
        if connection is not None and connection.child is not None:
            connection.child.send_signal(number)

    def _wait(self, secs: float) -> bool:
        connection = self._connection
        return connection is None or connection.child is None or connection.child.wait(secs)

    def _keep(self) -> None:
        """The drain thread: empty the queue of one child after the other."""
        try:
            while self._connection is not None:
                ending = self._drain.empty(self._connection)
                self._has_left_in_order = ending == ENDED
                if self._is_stopping:
                    return
                if ending == ENDED or self._failure:
                    self._wait(DEATH_SECS)
                    self._on_lost(self._failure or "the sampling process ended by itself")
                    return
                if not self._replace(self._connection, ending):
                    return
        finally:
            self._release(DRAINED)

    def _replace(self, connection: Connection, ending: str) -> bool:
        """Launch another child in the place of one that ended or hangs; False where that's given up."""
        source, how = self._find_out(connection, ending)
        lived_secs = time.monotonic() - connection.opened_at
        connection.close()
        while self._bear(source, how, lived_secs):
            try:
                self._launch()
            except Exception as error:  # memory, descriptors, processes may be short just now: as good as lost at once
                source, how, lived_secs = "", f"no new one could be started ({describe_error(error)})", 0.0
                self._signal(signal.SIGKILL)
                self._wait(DEATH_SECS)
                if self._connection is not None:
                    self._connection.close()
                continue
            if self._is_stopping:
                self._ask_to_stop()
            return True
        return False

    def _bear(self, source: str, how: str, lived_secs: float) -> bool:
        """Tell of a loss, and wait until it's time for another child; False where there's none to be."""
        verdict = self._restarts.judge(source, how, lived_secs)
        if verdict.given_up:
            self._on_lost(verdict.given_up)
            report.warn(f"no more charts of the hardware: {verdict.given_up}")
            return False
        loss = describe_loss(source, how)
        self._on_attributes({REPLACED_ATTRIBUTE: f"{self._restarts.count} times, last: {loss}"})
        report.note(f"the sampling process was lost: {loss}; it's replaced")
        if verdict.newly_left_out:
            report.warn(f"{self._restarts.left_out[verdict.newly_left_out]}; the other charts go on")
        return not (self._stop_bell.wait(verdict.delay_secs) or self._is_stopping)

    def _find_out(self, connection: Connection, ending: str) -> tuple[str, str]:
        """What a child was reading when it ended, "" for nothing, and how it ended; then it's gone or abandoned."""
        child = connection.child
        if child is None or connection.vitals is None:
            return "", "never started"
        if ending == SILENT:
            overdue = find_overdue(connection, time.monotonic())
            child.send_signal(signal.SIGKILL)
            if not child.wait(DEATH_SECS):
                self._abandoned.append(child.pid)
            return overdue.what if overdue is not None else "", HUNG
        loop, devices = connection.vitals.read()
        if not child.wait(DEATH_SECS):
            child.send_signal(signal.SIGKILL)  # it has closed its queue, and lives
            if not child.wait(DEATH_SECS):
                self._abandoned.append(child.pid)
        # The driver first: what the loop reads are files.
        return devices.what or loop.what, child.ending

    def _take_start(self, grid_start: float) -> None:
        self._grid_start = grid_start

    def _take_series(self, series: tuple[tuple[str, Labels], ...]) -> None:
        self._series = series

    def _take_attributes(self, attributes: dict[str, Any]) -> None:
        self._dropped = attributes.get(DROPPED_ATTRIBUTE, self._dropped)
        self._mode = attributes.get(MODE_ATTRIBUTE, self._mode)
        self._on_attributes(attributes)

    def _take_batch(self, content: tuple[float, int, tuple[float, ...]]) -> None:
        timestamp, step, values = content
        self._next_step = max(self._next_step, step + 1)
        self._on_batch(Batch(timestamp, step, self._series, values))

    def _take_failure(self, reason: str) -> None:
        self._failure = reason


def _forget_in_fork() -> None:
    for supervisor in list(_alive):
        supervisor.forget()
    _alive.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_fork)
