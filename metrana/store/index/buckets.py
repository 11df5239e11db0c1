"""Many points as few buckets of the time or step axis, whose extremes are those of all the points in them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from metrana.store.index.pieces import BLOCK_POINTS, Floats, Ints, Piece

# A bucket that spans this many points on average is summed up from blocks, with points only at its two ends.
_POINTS_FOR_BLOCKS = 8 * BLOCK_POINTS


@dataclass(frozen=True)
class Buckets:
    """Buckets that hold points, in order; those without are left out.

    ``x`` lies between the bucket's first and last point: seconds since the epoch, or steps. ``low``, ``mean`` and
    ``high`` are over the finite values, NaN where there's none. ``count`` counts all points, finite or not.
    """

    x: Floats
    low: Floats
    mean: Floats
    high: Floats
    count: Ints


class BucketSums:
    """Adds up pieces of series into buckets between ``edges`` (n + 1 of them for n buckets).

    A bucket takes in its left edge and not its right one; the last takes in both.
    """

    def __init__(self, edges: Floats) -> None:
        count = len(edges) - 1
        self._edges = edges
        self._first = np.full(count, np.inf)
        self._last = np.full(count, -np.inf)
        self._low = np.full(count, np.inf)
        self._high = np.full(count, -np.inf)
        self._total = np.zeros(count)
        self._finite = np.zeros(count, dtype=np.int64)
        self._count = np.zeros(count, dtype=np.int64)

    def add(self, piece: Piece, by_step: bool = False) -> None:
        axis: NDArray[np.float64] | NDArray[np.int64] = piece.steps if by_step else piece.times
        values, is_whole = piece.values, True
        if by_step and not piece.has_ordered_steps:
            order = np.argsort(axis, kind="stable")
            axis, values, is_whole = axis[order], values[order], False
        edges = _whole_edges(self._edges) if by_step else self._edges
        bounds = np.searchsorted(axis, edges, side="left")
        bounds[-1] = np.searchsorted(axis, edges[-1], side="right")
        filled = np.flatnonzero(bounds[1:] > bounds[:-1])
        if not len(filled):
            return
        starts, ends = bounds[filled], bounds[filled + 1]
        self._first[filled] = np.minimum(self._first[filled], axis[starts])
        self._last[filled] = np.maximum(self._last[filled], axis[ends - 1])
        self._count[filled] += ends - starts
        if is_whole and piece.blocks is not None and ends[-1] - starts[0] > _POINTS_FOR_BLOCKS * len(filled):
            self._add_blocks(piece, filled, starts, ends)
        else:
            self._add_points(values[starts[0] : ends[-1]], filled, starts - starts[0], piece.finite == len(piece))

    def result(self) -> Buckets:
        filled = np.flatnonzero(self._count)
        finite = self._finite[filled]
        with np.errstate(invalid="ignore", divide="ignore"):
            low, high = self._low[filled], self._high[filled]
            # Sums of finite values may overflow; what lies between the extremes is then their middle.
            mean = self._total[filled] / finite
            mean = np.where(np.isfinite(mean), mean, low / 2 + high / 2)
        none = finite == 0
        low[none] = high[none] = mean[none] = np.nan
        x = self._first[filled] / 2 + self._last[filled] / 2
        return Buckets(x, low, mean, high, self._count[filled])

    def _add_points(self, values: Floats, into: NDArray[np.intp], starts: NDArray[np.intp], is_finite: bool) -> None:
        if is_finite:
            low, high, finite = values, values, None
        else:
            good = np.isfinite(values)
            low, high = np.where(good, values, np.inf), np.where(good, values, -np.inf)
            values, finite = np.where(good, values, 0.0), np.add.reduceat(good, starts, dtype=np.int64)
        if finite is None:
            finite = np.diff(starts, append=len(values))
        with np.errstate(over="ignore"):
            total = np.add.reduceat(values, starts)
        self._add_sums(into, np.minimum.reduceat(low, starts), np.maximum.reduceat(high, starts), total, finite)

    def _add_blocks(
        self, piece: Piece, filled: NDArray[np.intp], starts: NDArray[np.intp], ends: NDArray[np.intp]
    ) -> None:
        blocks = piece.blocks
        assert blocks is not None
        first, last = -(-starts // BLOCK_POINTS), ends // BLOCK_POINTS
        is_wide = first < last
        wide = filled[is_wide]
        if len(wide):
            inner = np.column_stack((first[is_wide], last[is_wide])).ravel()
            if inner[-1] == len(blocks.low):
                inner = inner[:-1]
            with np.errstate(over="ignore"):
                total = np.add.reduceat(blocks.total, inner)[::2]
            self._add_sums(
                wide,
                np.minimum.reduceat(blocks.low, inner)[::2],
                np.maximum.reduceat(blocks.high, inner)[::2],
                total,
                np.add.reduceat(blocks.finite, inner)[::2],
            )
        # What the blocks leave over at both ends of each bucket, or all of a bucket that holds no whole block.
        heads = np.where(is_wide, first * BLOCK_POINTS, ends)
        tails = np.where(is_wide, last * BLOCK_POINTS, ends)
        self._add_gathered(piece, filled, starts, heads)
        self._add_gathered(piece, filled, tails, ends)

    def _add_gathered(
        self, piece: Piece, filled: NDArray[np.intp], starts: NDArray[np.intp], ends: NDArray[np.intp]
    ) -> None:
        sizes = ends - starts
        chosen = np.flatnonzero(sizes > 0)
        if not len(chosen):
            return
        sizes = sizes[chosen]
        offsets = np.concatenate(([0], np.cumsum(sizes)[:-1]))
        picks = np.arange(int(sizes.sum())) + np.repeat(starts[chosen] - offsets, sizes)
        self._add_points(piece.values[picks], filled[chosen], offsets, piece.finite == len(piece))

    def _add_sums(
        self, into: NDArray[np.intp], low: Floats, high: Floats, total: Floats, finite: NDArray[np.intp] | Ints
    ) -> None:
        self._low[into] = np.minimum(self._low[into], low)
        self._high[into] = np.maximum(self._high[into], high)
        with np.errstate(over="ignore", invalid="ignore"):
            self._total[into] += total
        self._finite[into] += finite


def _whole_edges(edges: Floats) -> Ints:
    """The edges for whole numbers: compared with floats, the whole column would be converted first."""
    limit = 2.0**63 - 1024  # the largest float that an int64 can hold
    whole = np.ceil(np.clip(edges, -limit, limit))
    whole[-1] = np.floor(np.clip(edges[-1], -limit, limit))
    return whole.astype(np.int64)


def add_up(pieces: Iterable[Piece], start: float, end: float, count: int, by_step: bool = False) -> Buckets:
    """The pieces' points from start to end, both included, in ``count`` buckets of equal width."""
    # Halves, because the distance of two timestamps may be larger than any float.
    shares = np.arange(count + 1) / count
    edges = start * (1.0 - shares) + end * shares
    edges[-1] = end
    sums = BucketSums(np.maximum.accumulate(edges))
    for piece in pieces:
        sums.add(piece, by_step)
    return sums.result()
