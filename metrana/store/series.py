"""A series as told without its points."""

from __future__ import annotations

from dataclasses import dataclass

from metrana.model import Labels


@dataclass(frozen=True)
class SeriesInfo:
    """A series without its points: one per metric and label set, however many processes wrote it.

    Times are in seconds since the epoch; ``last_value`` and ``last_step`` are those of the newest point of the newest
    attempt, which needn't have the highest step, nor the latest time where a clock is behind. ``low`` and ``high`` are
    over the ``finite`` values, NaN where there's none.
    """

    name: str
    labels: Labels
    count: int
    first_time: float
    last_time: float
    first_step: int
    last_step: int
    lowest_step: int
    highest_step: int
    last_value: float
    low: float
    high: float
    finite: int
