"""What an index holds of each series: its pieces, whose they are, and in which file each of them stands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

import numpy as np

from metrana.store.index.files import PieceRow
from metrana.store.index.pieces import Floats, Ints, Piece, make_piece, order_by_time
from metrana.store.reader import SeriesKey


@dataclass(frozen=True)
class Held:
    """A piece and the number of its writer. ``token`` and ``row`` tell its file, None while it's in memory only."""

    piece: Piece
    writer: int
    token: str | None = None
    row: PieceRow | None = None


@dataclass(frozen=True)
class SeriesPieces:
    """The pieces of one series, by writer and then as they were written.

    ``counts`` says how many of them each attempt has, where several have any: then they're by attempt first.
    ``superseded`` has what was left out of them, by the attempt that wrote it.
    """

    key: SeriesKey
    held: tuple[Held, ...]
    counts: tuple[int, ...] = ()
    superseded: dict[int, tuple[Piece, ...]] = field(default_factory=dict)
    pieces: tuple[Piece, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "pieces", tuple(held.piece for held in self.held))

    @property
    def attempts(self) -> list[tuple[Piece, ...]]:
        """The pieces of each attempt that has any."""
        if not self.counts:
            return [self.pieces]
        ends = list(accumulate(self.counts, initial=0))
        return [self.pieces[first:end] for first, end in pairwise(ends)]


# Series that stood in one line share times and steps: joined once for all of them. The pieces that were joined are kept
# beside, since an id is another array's once its own is gone.
_Joined = dict[tuple[int, int], tuple[Floats, Ints, Piece, Piece]]


def add_pieces(
    by_key: dict[SeriesKey, SeriesPieces], new: Iterable[tuple[SeriesKey, Held]]
) -> dict[SeriesKey, SeriesPieces]:
    """A new dict with pieces added behind those of the same writer.

    Pieces in memory are joined with smaller ones in front of them, so that a live run's stay few.
    """
    grown = {key: list(found.held) for key, found in by_key.items()}
    touched = set()
    joined: _Joined = {}
    for key, held in new:
        pieces = grown.setdefault(key, [])
        touched.add(key)
        at = next((index for index, other in enumerate(pieces) if other.writer > held.writer), len(pieces))
        while at and _are_joinable(pieces[at - 1], held):
            at -= 1
            held = Held(_join(pieces.pop(at).piece, held.piece, joined), held.writer)
        pieces.insert(at, held)
    return {key: SeriesPieces(key, tuple(held)) if key in touched else by_key[key] for key, held in grown.items()}


def _are_joinable(earlier: Held, later: Held) -> bool:
    return (
        earlier.writer == later.writer
        and earlier.token is None
        and later.token is None
        and len(earlier.piece) <= 2 * len(later.piece)
    )


def _join(earlier: Piece, later: Piece, joined: _Joined) -> Piece:
    values = np.concatenate((earlier.values, later.values))
    pair = (id(earlier.times), id(later.times))
    if pair in joined:
        return make_piece(*joined[pair][:2], values)
    times, steps = np.concatenate((earlier.times, later.times)), np.concatenate((earlier.steps, later.steps))
    order = order_by_time(times)
    if order is not None:
        return make_piece(times[order], steps[order], values[order])
    joined[pair] = times, steps, earlier, later
    return make_piece(times, steps, values)
