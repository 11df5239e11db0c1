"""CPU utilization of the node, as a share of what the training process may use.

With a limit in a cgroup (a quota, a cpuset) or an affinity it's the usage at the level that sets the limit, divided by
the limit: a job held to 2 of 128 cores that uses both reads 100 %, and so do all jobs together under one shared limit.
Without a limit it's the whole host's busy time in /proc/stat, where waiting for a disk is idle.
A quota lets a burst run over; the value is clamped to 100.
https://docs.kernel.org/admin-guide/cgroup-v2.html#cpu
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from metrana.errors import ReadFailed
from metrana.model import Kind, Metric, Sample, Scope
from metrana.system.sources.cgroup import Cgroup
from metrana.system.sources.counters import Span

if TYPE_CHECKING:
    from metrana.system.health import Health
    from metrana.system.host import Host

UTILIZATION = Metric(
    "system/cpu/utilization", "percent", Kind.GAUGE, Scope.NODE, "CPU time used, of what the process may use."
)
METRICS = (UTILIZATION,)

RESUME_SECS = 3600.0
"""A reading older than that is none of a reporter that has just gone."""


class CpuCollector:
    """The node's CPU utilization from the second reading on."""

    name = "cpu"
    metrics = METRICS

    def __init__(self, host: Host, health: Health, cgroup: Cgroup | None = None) -> None:
        self._host = host
        self._cgroup = Cgroup.of(host) if cgroup is None else cgroup
        self._span = Span()

    def collect(self) -> list[Sample]:
        """Percent of the allowance, 0 to 100. Raises ReadFailed."""
        reading = self._cgroup.cpu()
        if reading.used_secs is None:
            raise ReadFailed("neither a cgroup nor /proc/stat tells the CPU time")
        counters = (reading.used_secs, reading.passed_secs or 0.0)
        what = (reading.kind, reading.limit_from, reading.counter, reading.passed_secs is None)
        grown = self._span.advance(self._host.monotonic(), counters, what)
        if grown is None:
            return []
        span_secs, used_secs, passed_secs = grown
        if reading.passed_secs is None:
            passed_secs = span_secs * (reading.limit_cores or 0.0)
        if passed_secs <= 0:
            return []
        return [Sample(UTILIZATION, min(100.0, 100.0 * used_secs / passed_secs))]

    def hand_down(self) -> object:
        """The last reading as JSON can hold it: whoever takes the node over has a rate with its first reading."""
        return self._span.last

    def resume(self, left: object) -> None:
        """Go on from what the node's reporter before has handed down; what makes no sense is ignored."""
        try:
            at_secs, (used_secs, passed_secs), what = left  # type: ignore[misc]
            last = float(at_secs), (float(used_secs), float(passed_secs)), tuple(what)  # type: ignore[has-type]
        except (TypeError, ValueError, OverflowError):  # OverflowError: an integer that no float holds
            return
        if 0 <= self._host.monotonic() - last[0] <= RESUME_SECS:
            self._span.resume(last)

    def attributes(self) -> dict[str, object]:
        """``system/cpu/limit_cores``: what 100 % stands for, the host's cores where nothing limits."""
        cores = self._cgroup.cpu().limit_cores or self._cgroup.host_cores()
        return {} if cores is None else {"system/cpu/limit_cores": cores}
