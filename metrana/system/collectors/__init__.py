"""Collectors turn sources into samples of their declared metrics."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from metrana.errors import Unavailable, describe_error
from metrana.model import Metric, Sample, Scope
from metrana.system.devices import Device, Hint, Resolution

if TYPE_CHECKING:
    from metrana.system.health import Health
    from metrana.system.host import Host


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
class HandingDown(Protocol):
    """A collector of the node that needs the reading before: the next reporter goes on from this one's."""

    def hand_down(self) -> object:
        """The last reading as JSON can hold it."""
        ...

    def resume(self, left: object) -> None:
        """Go on from what another process handed down; what makes no sense is ignored."""
        ...


Choose = Callable[[Resolution, Sequence[Device]], Mapping[int, str]]
"""The cards that this process is to report now, by driver index, each with its ``gpu`` label."""


NOT_CHOSEN = "other processes of the run report the GPUs, or have their time to"
"""What a collector of devices says where nothing else is the reason that it reports none."""


@runtime_checkable
class DeviceCollector(Collector, Protocol):
    """A collector whose devices depend on what the training process does. A driver may keep any call of it waiting."""

    def select(self, choose: Choose) -> None:
        """Who says in each reading which cards are to be reported; without it, all that are reportable are."""
        ...

    def is_reporting(self) -> bool:
        """Whether any card was this process's to report in the last reading."""
        ...

    def reason(self) -> str | None:
        """Why there's no chart although the collector lives, in a few words; None where there is one."""
        ...

    def update(self, environ: Mapping[str, str], hint: Hint | None) -> None:
        """What has become known about the training process: its environment, and its framework's device."""
        ...


Row = tuple[str, str, Scope]
"""A collector's name, its class as module:name, and the claim that it takes to report."""

COLLECTORS: tuple[Row, ...] = (
    ("cpu", "metrana.system.collectors.cpu:CpuCollector", Scope.NODE),
    ("memory", "metrana.system.collectors.memory:MemoryCollector", Scope.NODE),
    ("disk", "metrana.system.collectors.disk:DiskCollector", Scope.NODE),
    ("process", "metrana.system.collectors.process:ProcessCollector", Scope.PROCESS),
    ("gpu", "metrana.system.collectors.gpu:GpuCollector", Scope.DEVICE),
)
"""Every collector. By path, so that one whose packages can't be imported costs only itself."""


def build(row: Row, host: Host, health: Health) -> Any:
    """A collector. Raises Unavailable."""
    module, _, name = row[1].partition(":")
    try:
        return getattr(importlib.import_module(module), name)(host, health)
    except Unavailable:
        raise
    except ImportError as error:
        raise Unavailable(f"{error.name or 'a module'} can't be imported: {error}") from error
    except Exception as error:  # one that can't even be built is a fault of its own, and won't mend by itself
        raise Unavailable(f"can't be started: {describe_error(error)}") from error
    except BaseException as error:  # a library that exits while it's loaded costs itself, not the child
        raise Unavailable(f"can't be started: raised {type(error).__name__}") from error
