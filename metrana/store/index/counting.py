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

LOOK_SECS = 10.0  # from one look at writers that seem to live to the next: an end makes of a later one an attempt


class Attempts:
    """Chooses the pieces that count. What hasn't changed is chosen once."""

    def __init__(self, info: RunInfo) -> None:
        self._info = info
        self._looked = time.monotonic()
        self._numbers = number_attempts(info.writers)
        self._by_key: dict[SeriesKey, SeriesPieces] = {}
        self._by_writer: dict[int, int] = {}
        self._chosen: dict[SeriesKey, SeriesPieces] = {}

    def choose(self, snapshot: Snapshot) -> dict[SeriesKey, SeriesPieces]:
        """The pieces that count, by series; the same dict as before where nothing has changed."""
        by_key, old = snapshot.by_key, self._by_key
        by_writer = self._number(snapshot)
        if by_key is old and by_writer == self._by_writer:
            return self._chosen
        if len(set(by_writer.values())) < 2:
            chosen = by_key
        else:
            is_same = by_writer == self._by_writer
            chosen = {
                key: self._chosen[key]
                if is_same and key in self._chosen and old.get(key) is found
                else _leave_out(found, by_writer)
                for key, found in by_key.items()
            }
        self._by_key, self._by_writer, self._chosen = by_key, by_writer, chosen
        return chosen

    def _number(self, snapshot: Snapshot) -> dict[int, int]:
        """The attempt of each writer, both by number."""
        if self._is_outdated(snapshot):
            self._looked = time.monotonic()
            self._info = replace(self._info, writers=reread_run(self._info).writers)
            self._numbers = number_attempts(self._info.writers)
        return {number: self._numbers.get(folder, 0) for folder, number in snapshot.writers.items()}

    def _is_outdated(self, snapshot: Snapshot) -> bool:
        written = {os.path.dirname(path) for path in snapshot.positions}
        if not written <= self._numbers.keys():
            return True
        writers = [writer for writer in self._info.writers if not writer.is_forked]
        return (
            len(writers) > 1
            and any(writer.status == RUNNING for writer in writers)
            and any(writer.is_resumed or writer.rank is not None for writer in writers)
            and time.monotonic() > self._looked + LOOK_SECS
        )


def _leave_out(found: SeriesPieces, attempts: dict[int, int]) -> SeriesPieces:
    if not is_superseded_at_all(found.key[0]):
        return found
    lowest: dict[int, int] = {}
    for held in found.held:
        attempt = attempts[held.writer]
        lowest[attempt] = min(lowest.get(attempt, held.piece.lowest_step), held.piece.lowest_step)
    limits = find_limits(lowest)
    kept: list[Held] = []
    left: dict[int, tuple[Piece, ...]] = {}
    for held in found.held:
        attempt, piece = attempts[held.writer], held.piece
        limit = limits[attempt]
        if limit is None or piece.highest_step < limit:
            kept.append(held)
            continue
        if piece.lowest_step < limit:
            counts = piece.steps < limit
            kept.append(Held(_choose(piece, counts), held.writer))
            piece = _choose(piece, ~counts)
        left[attempt] = (*left.get(attempt, ()), piece)
    return SeriesPieces(found.key, tuple(kept), left)


def _choose(piece: Piece, chosen: NDArray[np.bool_]) -> Piece:
    return make_piece(piece.times[chosen], piece.steps[chosen], piece.values[chosen])
