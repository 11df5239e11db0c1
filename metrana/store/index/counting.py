"""What counts of the pieces of a run: those of an attempt end where a later one has logged the same steps again."""

from __future__ import annotations

import os
import time
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from metrana.store.attempts import find_limits, is_superseded_at_all, number_attempts
from metrana.store.catalog import reread_run
from metrana.store.ends import RUNNING
from metrana.store.index.holding import Held, SeriesPieces
from metrana.store.index.pieces import Piece, make_piece
from metrana.store.index.snapshot import Snapshot
from metrana.store.reader import SeriesKey
from metrana.store.run_info import RunInfo

LOOK_SECS = 10.0  # from one look at living writers that don't say of which attempt they are to the next

_Chosen = dict[SeriesKey, SeriesPieces]
# A piece's points below a limit and the others, by both. The piece is kept beside: an id is another's once its own is
# gone.
_Cuts = dict[tuple[int, int], tuple[Piece, tuple[Piece, Piece]]]


class Attempts:
    """Chooses the pieces that count. What hasn't changed is chosen once."""

    def __init__(self, info: RunInfo) -> None:
        self._info = info
        self._looked = time.monotonic()
        self._numbers = number_attempts(info.writers)
        self._headless: dict[str, int] = {}  # writers without a readable head, and how much of them there was
        self._by_key: _Chosen = {}
        self._by_writer: dict[int, int] = {}
        self._counting: _Chosen = {}
        self._everything: _Chosen = {}
        self._cuts: dict[SeriesKey, _Cuts] = {}

    def choose(self, snapshot: Snapshot) -> tuple[_Chosen, _Chosen]:
        """The pieces that count, and all of them in order, by series; the same dicts where nothing has changed."""
        by_key, old = snapshot.by_key, self._by_key
        by_writer = self._number(snapshot)
        if by_key is old and by_writer == self._by_writer:
            return self._counting, self._everything
        if len(set(by_writer.values())) < 2:
            self._counting = self._everything = by_key
        else:
            is_same = by_writer == self._by_writer
            counting, everything = {}, {}
            for key, found in by_key.items():
                if is_same and old.get(key) is found:
                    counting[key], everything[key] = self._counting[key], self._everything[key]
                else:
                    everything[key] = _arrange(found, by_writer)
                    counting[key] = self._leave_out(everything[key], by_writer)
            self._counting, self._everything = counting, everything
        self._by_key, self._by_writer = by_key, by_writer
        return self._counting, self._everything

    def _leave_out(self, found: SeriesPieces, attempts: dict[int, int]) -> SeriesPieces:
        """A series, arranged by attempt, without what later attempts supersede."""
        if not found.counts:
            return found
        lowest: dict[int, int] = {}
        for held in found.held:
            attempt = attempts[held.writer]
            lowest[attempt] = min(lowest.get(attempt, held.piece.lowest_step), held.piece.lowest_step)
        limits = find_limits(lowest)
        before, cuts = self._cuts.get(found.key, {}), _Cuts()
        kept: list[Held] = []
        left: dict[int, tuple[Piece, ...]] = {}
        for held in found.held:
            attempt, piece = attempts[held.writer], held.piece
            limit = limits[attempt]
            if limit is None or piece.highest_step < limit:
                kept.append(held)
                continue
            if piece.lowest_step < limit:
                cut = before.get((id(piece), limit)) or (piece, _cut(piece, limit))
                cuts[id(piece), limit] = cut
                counts, piece = cut[1]
                kept.append(Held(counts, held.writer))
            left[attempt] = (*left.get(attempt, ()), piece)
        self._cuts[found.key] = cuts
        return SeriesPieces(found.key, tuple(kept), _count(kept, attempts), left)

    def _number(self, snapshot: Snapshot) -> dict[int, int]:
        """The attempt of each writer, both by number."""
        if self._is_outdated(snapshot):
            self._looked = time.monotonic()
            self._info = replace(self._info, writers=reread_run(self._info).writers)
            self._numbers = number_attempts(self._info.writers)
            self._headless = self._measure_headless(snapshot)
        return {number: self._numbers.get(folder, 0) for folder, number in snapshot.writers.items()}

    def _is_outdated(self, snapshot: Snapshot) -> bool:
        written = {os.path.dirname(path) for path in snapshot.positions}
        if not written <= self._numbers.keys() or self._measure_headless(snapshot) != self._headless:
            return True
        # Their attempts hang on when others have ended.
        unsaid = [writer for writer in self._info.writers if writer.attempt is None and not writer.is_forked]
        return (
            len(unsaid) > 1
            and any(writer.status == RUNNING for writer in unsaid)
            and any(writer.is_resumed or writer.rank is not None for writer in unsaid)
            and time.monotonic() > self._looked + LOOK_SECS
        )

    def _measure_headless(self, snapshot: Snapshot) -> dict[str, int]:
        sizes = {writer.folder: 0 for writer in self._info.writers if not writer.has_head}
        for path, at in snapshot.positions.items() if sizes else ():
            folder = os.path.dirname(path)
            if folder in sizes:
                sizes[folder] += max(at.offset, at.seen_bytes)
        return sizes


def _arrange(found: SeriesPieces, attempts: dict[int, int]) -> SeriesPieces:
    """A series by attempt, where several have points of it."""
    if not is_superseded_at_all(found.key[0]) or len({attempts[held.writer] for held in found.held}) < 2:
        return found
    held = sorted(found.held, key=lambda each: attempts[each.writer])
    return SeriesPieces(found.key, tuple(held), _count(held, attempts))


def _count(held: list[Held], attempts: dict[int, int]) -> tuple[int, ...]:
    """How many pieces each attempt has, of pieces that are by attempt."""
    counts: dict[int, int] = {}
    for each in held:
        attempt = attempts[each.writer]
        counts[attempt] = counts.get(attempt, 0) + 1
    return tuple(counts.values())


def _cut(piece: Piece, limit: int) -> tuple[Piece, Piece]:
    counts = piece.steps < limit
    return _choose(piece, counts), _choose(piece, ~counts)


def _choose(piece: Piece, chosen: NDArray[np.bool_]) -> Piece:
    return make_piece(piece.times[chosen], piece.steps[chosen], piece.values[chosen])
