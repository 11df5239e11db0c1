"""A series as a few lines of a terminal: bars over the time axis, gaps where there's nothing to draw."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from math import isfinite

UNICODE_LEVELS = " ▁▂▃▄▅▆▇█"
ASCII_LEVELS = " .:|#"
# A stretch without points is drawn through up to this many times the mean distance of two points.
_BRIDGED_INTERVALS = 3.0


def choose_levels(encoding: str | None) -> str:
    """The characters of a bar, from empty to full, that an output of this encoding can show."""
    try:
        UNICODE_LEVELS.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII_LEVELS
    return UNICODE_LEVELS


def draw_chart(
    timestamps: Sequence[float],
    values: Sequence[float],
    width: int,
    height: int,
    levels: str,
    *,
    span: tuple[float, float] | None = None,
    floor: float | None = None,
    ceiling: float | None = None,
) -> list[str]:
    """``height`` lines of at most ``width`` characters, the top one first.

    Each column is the mean of its stretch of time. ``span`` is the time axis (seconds since the epoch), by default from
    the first point to the last; ``floor`` and ``ceiling`` are values that the scale reaches at least.
    """
    columns = average_columns(timestamps, values, width, span)
    drawn = [value for value in columns if value is not None]
    if not drawn:
        return [""] * height
    low = min(drawn if floor is None else [floor, *drawn])
    high = max(drawn if ceiling is None else [ceiling, *drawn])
    full = (len(levels) - 1) * height
    heights = [0 if value is None else _scale(value, low, high, full) for value in columns]
    step = len(levels) - 1
    rows = range(height - 1, -1, -1)
    return ["".join(levels[max(0, min(step, bar - row * step))] for bar in heights).rstrip() for row in rows]


def average_columns(
    timestamps: Sequence[float], values: Sequence[float], width: int, span: tuple[float, float] | None = None
) -> list[float | None]:
    """The mean of the finite values in each of ``width`` stretches of time, None for a gap.

    A stretch between two points that lie no further apart than usual keeps the earlier value; one that holds only NaN
    and infinities is a gap.
    """
    if not timestamps or width < 1:
        return [None] * width
    first, last = span or (timestamps[0], timestamps[-1])
    # Halves, because the difference of two timestamps may be larger than any float.
    origin = first / 2
    length = last / 2 - origin
    scale = width / length if length > 0 and isfinite(width / length) else 0.0
    sums, counts, seen = array("d", bytes(8 * width)), array("q", bytes(8 * width)), bytearray(width)
    for timestamp, value in zip(timestamps, values):  # noqa: B905 - columns of one series
        column = int((timestamp / 2 - origin) * scale)
        if column >= width:
            column = width - 1
        elif column < 0:
            column = 0
        seen[column] = 1
        if value - value == 0.0:
            count = counts[column] = counts[column] + 1
            # A running mean: the sum of finite values may overflow.
            sums[column] += value / count - sums[column] / count
    means: list[float | None] = [sums[column] if counts[column] else None for column in range(width)]
    between = (timestamps[-1] / 2 - timestamps[0] / 2) / max(1, len(timestamps) - 1)
    _bridge(means, seen, between * scale * _BRIDGED_INTERVALS)
    return means


def _bridge(means: list[float | None], seen: bytearray, longest: float) -> None:
    """Fill stretches without points, up to ``longest`` columns from one point's column to the next."""
    previous = -1
    for column in range(len(means)):
        if not seen[column]:
            continue
        if previous >= 0 and column - previous <= longest + 1:
            means[previous + 1 : column] = [means[previous]] * (column - previous - 1)
        previous = column


def _scale(value: float, low: float, high: float, full: int) -> int:
    """The height of a bar from 1 to ``full``: the lowest value still differs from a gap."""
    # Halves, because high - low may be larger than any float.
    reach = high / 2 - low / 2
    share = 0.5 if reach <= 0 else (value / 2 - low / 2) / reach
    return 1 + round(share * (full - 1))
