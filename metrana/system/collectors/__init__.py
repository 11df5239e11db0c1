"""Collectors turn sources into samples of their declared metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from metrana.model import Metric, Sample
from metrana.system.devices import Hint


class Collector(Protocol):
    """One file, one collector. The constructor takes ``(host, health)``, and raises Unavailable with nothing to read.

    ``name`` is the file's name, the collector's name in ``system/capture/<name>`` and the second part of its metrics'
    names. ``METRICS`` is the module's tuple of what it reports.
    """

    name: str
    metrics: tuple[Metric, ...]

    def collect(self) -> list[Sample]:
        """One reading. Raises Unavailable (drop at once) or ReadFailed, OSError (drop after five in a row)."""
        ...

    def attributes(self) -> dict[str, object]:
        """Constant facts of the run that the collector found at its start, by attribute name."""
        ...


@runtime_checkable
class DeviceCollector(Collector, Protocol):
    """A collector whose devices depend on what the training process does."""

    def reason(self) -> str | None:
        """Why there's no chart although the collector lives, in a few words; None where there is one."""
        ...

    def update(self, environ: Mapping[str, str], hint: Hint | None) -> None:
        """What has become known about the training process: its environment, and its framework's device."""
        ...


COLLECTORS = (
    ("cpu", "metrana.system.collectors.cpu:CpuCollector"),
    ("memory", "metrana.system.collectors.memory:MemoryCollector"),
    ("disk", "metrana.system.collectors.disk:DiskCollector"),
    ("process", "metrana.system.collectors.process:ProcessCollector"),
    ("gpu", "metrana.system.collectors.gpu:GpuCollector"),
)
"""Every collector: name and class. By path, so that one whose packages can't be imported costs only itself."""
