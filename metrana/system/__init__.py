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
from metrana.system.supervisor import STOP_SECS, Supervisor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from metrana.model import Batch


class SystemMonitor:
    """Charts this machine from a child process: one Batch a tick.

    ``on_batch(batch)`` and ``on_attributes(attributes)`` are called in a background thread and must be quick.
    ``interval_secs`` is the time from tick to tick, ``first_step`` the first tick's step.
    """

    def __init__(
        self,
        on_batch: Callable[[Batch], None],
        on_attributes: Callable[[dict[str, object]], None] | None = None,
        interval_secs: float = 30.0,
        first_step: int = 0,
    ) -> None:
        self._on_batch = on_batch
        self._on_attributes = on_attributes or (lambda attributes: None)
        self._interval_secs = interval_secs
        self._first_step = first_step
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
            self._interval_secs,
            self._first_step,
            on_batch=self._on_batch,
            on_attributes=self._on_attributes,
            on_warning=report.warn,
            on_lost=self._explain,
        )
        try:
            supervisor.start()
            self._supervisor = supervisor
        except Exception as error:  # whatever keeps a child from starting must not reach the training
            self._explain(f"the sampling process can't be started: {error}")

    def stop(self, timeout_secs: float = STOP_SECS) -> None:
        """Take a last sample and stop, within ``timeout_secs`` whatever state the child is in."""
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is not None:
            supervisor.stop(timeout_secs)

    def _explain(self, reason: str) -> None:
        report.note(f"no chart of the hardware: {reason}")
        self._on_attributes({"system/capture": reason})
