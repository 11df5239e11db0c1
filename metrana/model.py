"""The words of metrana as types: metric, sample, point, batch.

These are plain classes: this module is loaded into the training process, where importing ``dataclasses`` or
``typing`` would cost more than all of metrana's own code.
"""

from __future__ import annotations

import enum

Labels = tuple[tuple[str, str], ...]
"""The label set of a series: (key, value) pairs sorted by key."""

Point = tuple[str, Labels, float]
"""Metric name, labels, value; its batch holds the timestamp and the step."""


class Scope(enum.Enum):
    """Which claim a process needs in order to report a metric."""

    DEVICE = "device"
    NODE = "node"
    PROCESS = "process"


class Kind(enum.Enum):
    """How the values of a metric behave."""

    GAUGE = "gauge"
    COUNTER = "counter"


class Metric:
    """A declared quantity. ``unit`` is the unit of its values: percent, bytes, celsius, watts, mhz."""

    __slots__ = ("name", "unit", "kind", "scope", "help")

    def __init__(self, name: str, unit: str, kind: Kind, scope: Scope, help: str) -> None:
        self.name = name
        self.unit = unit
        self.kind = kind
        self.scope = scope
        self.help = help

    def __repr__(self) -> str:
        return f"Metric({self.name!r}, {self.unit!r})"


class Sample:
    """One value of one series as a collector returns it: no time, no step. ``labels`` are the metric's own."""

    __slots__ = ("metric", "value", "labels")

    def __init__(self, metric: Metric, value: float, labels: Labels = ()) -> None:
        self.metric = metric
        self.value = value
        self.labels = labels

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sample):
            return NotImplemented
        return (self.metric, self.value, self.labels) == (other.metric, other.value, other.labels)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Sample({self.metric.name!r}, {self.value!r}, {self.labels!r})"


class Batch:
    """The points of one tick. ``timestamp`` is in seconds since the epoch and holds for all of them.

    ``series`` names them, (metric name, labels) each, and ``values`` has their values in the same order. Batches with
    the same series share one tuple of them.
    """

    __slots__ = ("timestamp", "step", "series", "values")

    def __init__(
        self, timestamp: float, step: int, series: tuple[tuple[str, Labels], ...], values: tuple[float, ...]
    ) -> None:
        self.timestamp = timestamp
        self.step = step
        self.series = series
        self.values = values

    @property
    def points(self) -> list[Point]:
        """Each point as (metric name, labels, value); labels are (key, value) pairs sorted by key."""
        return [(name, labels, value) for (name, labels), value in zip(self.series, self.values, strict=True)]

    def __repr__(self) -> str:
        return f"Batch({self.timestamp!r}, {self.step!r}, {len(self.values)} points)"


def labels_of(mapping: dict[str, str]) -> Labels:
    """The label set of a mapping, in the order that makes equal sets equal."""
    return tuple(sorted(mapping.items()))
