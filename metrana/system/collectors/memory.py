"""Memory of the node: the working set at the level whose limit is the tightest, and how full that limit is.

The working set is the usage without inactive file pages, as the kubelet counts it: a job that streams a data set
doesn't look as if it sat at its limit. The limit may be an ancestor's, shared with others: then theirs counts too.
Where nothing limits it's the host's MemTotal - MemAvailable.
https://docs.kernel.org/admin-guide/cgroup-v2.html#memory
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from metrana.errors import ReadFailed
from metrana.model import Kind, Metric, Sample, Scope
from metrana.system.sources.cgroup import Cgroup

if TYPE_CHECKING:
    from metrana.system.health import Health
    from metrana.system.host import Host

USED = Metric("system/memory/used_bytes", "bytes", Kind.GAUGE, Scope.NODE, "Working set under the tightest limit.")
UTILIZATION = Metric(
    "system/memory/utilization", "percent", Kind.GAUGE, Scope.NODE, "Working set, of the tightest limit."
)
METRICS = (USED, UTILIZATION)


class MemoryCollector:
    """The node's memory."""

    name = "memory"
    metrics = METRICS

    def __init__(self, host: Host, health: Health, cgroup: Cgroup | None = None) -> None:
        self._cgroup = Cgroup.of(host) if cgroup is None else cgroup

    def collect(self) -> list[Sample]:
        """Bytes, and percent of the limit. Raises ReadFailed."""
        reading = self._cgroup.memory()
        if reading.used_bytes is None or reading.limit_bytes is None:
            raise ReadFailed("neither a cgroup nor /proc/meminfo tells the memory")
        return [
            Sample(USED, reading.used_bytes),
            Sample(UTILIZATION, 100.0 * reading.used_bytes / reading.limit_bytes),
        ]

    def attributes(self) -> dict[str, object]:
        """``system/memory/limit_bytes``: what 100 % stands for."""
        limit = self._cgroup.memory().limit_bytes
        return {} if limit is None else {"system/memory/limit_bytes": limit}
