"""The axes of a chart in the terminal: how far they reach, and ticks that differ."""

from __future__ import annotations

import math
import sys

_LEAST_EXTENT = 0.05  # of the largest value: what changes by less doesn't fill a chart
_LEAST_BYTES = 8.0  # so that ticks in whole bytes differ
_TIME_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_TIME_UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def widen(low: float, high: float, unit: str) -> tuple[float, float]:
    """The range of a chart of values from ``low`` to ``high``: itself, unless they hardly differ."""
    size = max(abs(low), abs(high))
    least = max(size * _LEAST_EXTENT, _LEAST_BYTES if unit == "bytes" else 0.0) or 0.2
    if high - low >= least:
        return low, high
    middle = low / 2 + high / 2
    bottom = max(0.0, middle - least / 2) if unit == "bytes" and low >= 0 else middle - least / 2
    return max(bottom, -sys.float_info.max), min(bottom + least, sys.float_info.max)


def choose_moments(start: float, end: float, most: int) -> list[tuple[float, str]]:
    """Round times from ``start`` to ``end``, in seconds, at most ``most`` of them and at least three, in one unit."""
    most = max(3, most)
    span = end - start
    step = _round_up(span / (most - 1))
    while True:
        first, last = math.ceil(start / step - 1e-9), math.floor(end / step + 1e-9)
        if last - first >= 2 or not span / step < 1e6:
            break
        step = _round_up(step * 0.4, before=step)
    size, unit = next(((size, unit) for size, unit in _TIME_UNITS if step >= 1 and not step % size), (1, "s"))
    skip = max(1, math.ceil((last - first + 1) / max(most, 3)))
    if (last - first) // skip < 2:
        skip = max(1, (last - first) // 2)
    digits = max(0, -math.floor(math.log10(step / size) + 1e-9))
    return [(at * step, f"{at * step / size:.{digits}f}{unit}") for at in range(first, last + 1, skip)]


def _round_up(rough: float, before: float = math.inf) -> float:
    """A step that's as round as times are; below ``before``, where that was too wide."""
    if before <= 1 or rough <= 0.5:
        return _round_decimal(min(rough, 0.5) if before == math.inf else rough)
    if rough > _TIME_STEPS[-1]:
        return _round_decimal(rough / 86400) * 86400
    if before == math.inf:
        return next(step for step in _TIME_STEPS if step >= rough)
    return next(step for step in reversed(_TIME_STEPS) if step < before)


def _round_decimal(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return power * next(factor for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
