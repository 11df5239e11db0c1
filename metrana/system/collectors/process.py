"""The training process itself, never the child that samples it: resident memory and CPU utilization.

CPU utilization is in percent of one core, as top shows it: eight busy threads read 800. Its children, such as the
workers of a data loader, aren't counted. Resident memory counts pages shared with them in full.
proc_pid_stat(5), proc_pid_statm(5)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from metrana.model import Kind, Metric, Sample, Scope
from metrana.system.sources.counters import Span
from metrana.system.sources.procfs import Procfs

if TYPE_CHECKING:
    from metrana.system.health import Health
    from metrana.system.host import Host

RSS = Metric("system/process/rss_bytes", "bytes", Kind.GAUGE, Scope.PROCESS, "Resident memory of the process.")
CPU_UTILIZATION = Metric(
    "system/process/cpu_utilization", "percent", Kind.GAUGE, Scope.PROCESS, "CPU time of the process, of one core."
)
METRICS = (RSS, CPU_UTILIZATION)


class ProcessCollector:
    """The process ``host.pid``; its CPU utilization from the second reading on."""

    name = "process"
    metrics = METRICS

    def __init__(self, host: Host, health: Health) -> None:
        self._host = host
        self._procfs = Procfs(host)
        self._span = Span()

    def collect(self) -> list[Sample]:
        """Bytes, and percent of one core. Raises Unavailable when the process is gone, ReadFailed."""
        samples = [Sample(RSS, self._procfs.process_rss_bytes())]
        grown = self._span.advance(self._host.monotonic(), (self._procfs.process_cpu_secs(),))
        if grown is not None:
            span_secs, used_secs = grown
            samples.append(Sample(CPU_UTILIZATION, 100.0 * used_secs / span_secs))
        return samples

    def attributes(self) -> dict[str, object]:
        """None: the run knows its processes."""
        return {}
