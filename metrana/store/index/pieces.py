"""Points of one series as NumPy columns ordered by time, with the extremes of each block of them beside."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BLOCK_POINTS = 256
FEWEST_BLOCKS = 16  # below that, the points themselves are as fast


@dataclass(frozen=True)
class Blocks:
    """What stands in each block of ``BLOCK_POINTS`` values: the finite ones' extremes, sum and number.

    ``low`` and ``high`` are infinite, the wrong way round, for a block without a finite value.
    """

    low: Floats
    high: Floats
    total: Floats
    finite: Ints


@dataclass(frozen=True)
class Piece:
    """A stretch of a series: ``times`` in seconds since the epoch, ``steps`` and ``values``, of equal length, by time.

    ``low``, ``high`` and ``finite`` are over the finite values: NaN and 0 where there's none.
    """

    times: Floats
    steps: Ints
    values: Floats
    blocks: Blocks | None
    has_ordered_steps: bool
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

    def __len__(self) -> int:
        return len(self.values)


def make_piece(times: Floats, steps: Ints, values: Floats) -> Piece:
    """A piece of columns that hold at least one point and are ordered by time."""
    has_ordered_steps = bool(np.all(steps[1:] >= steps[:-1]))
    lowest, highest = (steps[0], steps[-1]) if has_ordered_steps else (steps.min(), steps.max())
    blocks = make_blocks(values) if len(values) >= BLOCK_POINTS * FEWEST_BLOCKS else None
    with np.errstate(over="ignore", invalid="ignore"):
        finite = values[np.isfinite(values)] if not np.isfinite(values.sum()) else values
    return Piece(
        times,
        steps,
        values,
        blocks,
        has_ordered_steps=has_ordered_steps,
        first_time=float(times[0]),
        last_time=float(times[-1]),
        first_step=int(steps[0]),
        last_step=int(steps[-1]),
        lowest_step=int(lowest),
        highest_step=int(highest),
        last_value=float(values[-1]),
        low=float(finite.min()) if len(finite) else float("nan"),
        high=float(finite.max()) if len(finite) else float("nan"),
        finite=len(finite),
    )


def make_blocks(values: Floats) -> Blocks:
    """The blocks of a column; the last one may be shorter than the others."""
    whole = len(values) // BLOCK_POINTS * BLOCK_POINTS
    parts = [values[:whole].reshape(-1, BLOCK_POINTS)] + ([values[whole:][None, :]] if whole < len(values) else [])
    summed = [_summarize(part) for part in parts]
    low, high, total, finite = (np.concatenate(columns) for columns in zip(*summed, strict=True))
    return Blocks(low, high, total, finite)


def _summarize(rows: Floats) -> tuple[Floats, Floats, Floats, Ints]:
    with np.errstate(over="ignore", invalid="ignore"):
        total = rows.sum(axis=1)
        if np.isfinite(total).all():  # a sum tells of any NaN or infinity in it
            count = np.full(len(rows), rows.shape[1], dtype=np.int64)
            return rows.min(axis=1), rows.max(axis=1), total, count
        good = np.isfinite(rows)
        return (
            np.where(good, rows, np.inf).min(axis=1),
            np.where(good, rows, -np.inf).max(axis=1),
            np.where(good, rows, 0.0).sum(axis=1),
            good.sum(axis=1),
        )


def order_by_time(times: Floats) -> NDArray[np.intp] | None:
    """The order that sorts by time and leaves equal times as they are; None where it's so already."""
    if np.all(times[1:] >= times[:-1]):
        return None
    return np.argsort(times, kind="stable")
