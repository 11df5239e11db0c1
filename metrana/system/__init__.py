"""Capture of the hardware's metrics from a spawned child process: usable without a Run.

::

    monitor = SystemMonitor(on_batch=print, interval_secs=1.0)
    monitor.start()
    ...
    monitor.stop()
"""

from __future__ import annotations

import sys

from metrana import report
from metrana.errors import SettingError, describe_error
from metrana.system.lock_files import is_key
from metrana.system.supervisor import STOP_SECS, Supervisor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from metrana.model import Batch


GRACE_SECS = 45.0


class SystemMonitor:
    """Charts this machine from a child process: one Batch a tick.

    ``on_batch(batch)`` and ``on_attributes(attributes)`` are called in a background thread and must be quick.
    ``interval_secs`` is the time from tick to tick, ``first_step`` the first tick's step.

    ``run_id``, sixteen hexadecimal digits, has the processes of a machine that were given the same one agree on who
    reports what: each card and the node once. ``rank`` is what ``metrana doctor`` calls this process by, ``grace_secs``
    how long slower ranks have for the cards that they drive. Raises SettingError for another ``run_id``.
    """

    def __init__(
        self,
        on_batch: Callable[[Batch], None],
        on_attributes: Callable[[dict[str, object]], None] | None = None,
        interval_secs: float = 30.0,
        first_step: int = 0,
        run_id: str | None = None,
        rank: int | None = None,
        grace_secs: float = GRACE_SECS,
    ) -> None:
        if run_id is not None and not is_key(run_id):
            raise SettingError(f"run_id {run_id!r} can't be used: it has to be sixteen digits of 0-9 and a-f")
        self._on_batch = on_batch
        self._take_attributes = on_attributes or (lambda attributes: None)
        self._options = {
            "interval_secs": interval_secs,
            "first_step": first_step,
            "run_id": run_id,
            "rank": rank,
            "grace_secs": grace_secs,
        }
        self._supervisor: Supervisor | None = None

    def start(self) -> None:
        """Start sampling, unless it's going on. Never raises an Exception: ``system/capture`` says why it can't be."""
        if self._supervisor is not None:
            return
        if sys.platform != "linux":
            report.warn(f"the hardware is charted on Linux only: capture is off on {sys.platform}")
            self._explain(f"not on {sys.platform}")
            return
        supervisor = Supervisor(
            self._options, on_batch=self._on_batch, on_attributes=self._on_attributes, on_lost=self._explain
        )
        self._supervisor = supervisor  # before it starts: a signal handler may stop it then
        try:
            supervisor.start()
        except BaseException as error:  # an interrupt, too: there's nothing to stop then
            self._supervisor = None
            if not isinstance(error, Exception):
                raise
            # Whatever keeps a child from starting must not reach the training.
            self._explain(f"the sampling process can't be started: {describe_error(error)}")

    def stop(self, timeout_secs: float = STOP_SECS) -> None:
        """Take a last sample and stop, within ``timeout_secs`` whatever state the child is in."""
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is not None:
            supervisor.stop(timeout_secs)

    def _on_attributes(self, attributes: dict[str, object]) -> None:
        try:
            self._take_attributes(attributes)
        except Exception as error:  # the receiver is anybody's code
            report.warn(f"what takes the attributes of the hardware raised {type(error).__name__}")

    def _explain(self, reason: str) -> None:
        report.note(f"no chart of the hardware: {reason}")
        self._on_attributes({"system/capture": reason})
