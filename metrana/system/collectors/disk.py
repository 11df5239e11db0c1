"""The root file system: its size, what a user may still write, and how full it is.

Utilization is what df prints before it rounds, used / (used + available): the blocks kept back for root count neither
as used nor as free, so it isn't 1 - free / total. In a container it's the file system below the image's layers.
statvfs(3), df(1)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from metrana.model import Kind, Metric, Sample, Scope
from metrana.system.sources.procfs import Procfs

if TYPE_CHECKING:
    from metrana.system.health import Health
    from metrana.system.host import Host

TOTAL = Metric("system/disk/total_bytes", "bytes", Kind.GAUGE, Scope.NODE, "Size of the root file system.")
FREE = Metric("system/disk/free_bytes", "bytes", Kind.GAUGE, Scope.NODE, "What a user may still write, df's Avail.")
UTILIZATION = Metric("system/disk/utilization", "percent", Kind.GAUGE, Scope.NODE, "How full it is, df's Use%.")
METRICS = (TOTAL, FREE, UTILIZATION)


class DiskCollector:
    """The root file system."""

    name = "disk"
    metrics = METRICS

    def __init__(self, host: Host, health: Health) -> None:
        self._procfs = Procfs(host)

    def collect(self) -> list[Sample]:
        """Bytes, bytes, percent. Raises ReadFailed."""
        disk = self._procfs.disk()
        samples = [Sample(TOTAL, disk.total_bytes), Sample(FREE, disk.available_bytes)]
        usable_bytes = disk.used_bytes + disk.available_bytes
        # Some sandboxes have a root without blocks.
        if usable_bytes > 0:
            samples.append(Sample(UTILIZATION, 100.0 * disk.used_bytes / usable_bytes))
        return samples

    def attributes(self) -> dict[str, object]:
        """None: the size is a series, since volumes grow."""
        return {}
