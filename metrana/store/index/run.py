"""RunIndex: a run's series as columns, kept up with the lines that are appended to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from metrana.store.index.buckets import Buckets, add_up
from metrana.store.index.holding import SeriesPieces
from metrana.store.index.pieces import Floats, Ints, Piece
from metrana.store.index.state import IndexState
from metrana.store.life import find_window
from metrana.store.reader import SeriesKey
from metrana.store.run_info import RunInfo
from metrana.store.series import SeriesInfo

Axis = Literal["time", "step"]


@dataclass(frozen=True)
class Columns:
    """Points of a series: seconds since the epoch, steps, values. Not to be written to.

    They're ordered by time; where several attempts have logged into the series, by attempt and then by time.
    """

    times: Floats
    steps: Ints
    values: Floats

    def __len__(self) -> int:
        return len(self.values)


class RunIndex:
    """The series of one run. May be used from several threads.

    What's read from the lines is kept beside them in the run's folder, and taken from there the next time.
    """

    def __init__(self, info: RunInfo, may_write: bool = True) -> None:
        self.info = info
        self._lock = threading.Lock()
        self._state = IndexState(info, may_write)
        self._superseded = False
        self._described: tuple[dict[SeriesKey, SeriesPieces], tuple[SeriesInfo, ...]] = ({}, ())
        self._window: tuple[RunInfo, tuple[SeriesInfo, ...], tuple[float, float]] | None = None

    @classmethod
    def open(cls, info: RunInfo, *, may_write: bool = True, budget_secs: float | None = None) -> RunIndex:
        """The index of a run, as it stands now.

        With ``budget_secs`` it returns after about that time with the series that it has got to; ``progress`` says how
        far that is, and ``refresh()`` goes on. Without ``may_write`` nothing is written into the run's folder. Never
        raises for what stands in the run's files.
        """
        index = cls(info, may_write)
        index.refresh(budget_secs)
        return index

    def refresh(self, budget_secs: float | None = None) -> bool:
        """Take in what was appended to the run since; True where that's anything."""
        end = None if budget_secs is None else time.monotonic() + budget_secs
        with self._lock:
            return self._state.read_on(end)

    @property
    def everything(self) -> RunIndex:
        """The run with what later attempts have superseded. It's kept up with this one, and needs no close()."""
        if self._superseded:
            return self
        whole = copy(self)
        whole._superseded, whole._described = True, ({}, ())
        return whole

    @property
    def _by_key(self) -> dict[SeriesKey, SeriesPieces]:
        return self._state.everything if self._superseded else self._state.counting

    def close(self) -> None:
        """End what may still be reading in the background, after a budget was up, and wait for what's being saved."""
        with self._lock:
            self._state.close()

    @property
    def progress(self) -> float:
        """How much of the run's lines has been read, from 0 to 1."""
        return self._state.progress

    @property
    def series(self) -> tuple[SeriesInfo, ...]:
        """The series that hold points, ordered by name and labels."""
        by_key = self._by_key
        described, infos = self._described
        if described is not by_key:  # each reading that brings points makes another dict
            infos = tuple(_describe(key, by_key[key].attempts) for key in sorted(by_key))
            self._described = (by_key, infos)
        return infos

    @property
    def window(self) -> tuple[float, float]:
        """From when to when the run is shown, in seconds since the epoch: see ``find_window``."""
        info, series, known = self.info, self.series, self._window
        if known is None or known[0] is not info or known[1] is not series:
            ends = [(each.first_time, each.last_time) for each in series]
            known = self._window = (info, series, find_window(info.started, info.last, ends))
        return known[2]

    @property
    def attributes(self) -> dict[str, Any]:
        """The newest value of each attribute, by name."""
        return {name: value for name, (_, value) in sorted(self._state.snapshot.attributes.items())}

    @property
    def skipped_lines(self) -> int:
        """How many lines hold anything unreadable; their good points are taken."""
        return self._state.skipped_lines

    @property
    def unreadable(self) -> tuple[str, ...]:
        """The paths that couldn't be read."""
        return self._state.unreadable

    @property
    def newest_version(self) -> int:
        """The newest version of the format that a segment of the run claims."""
        return self._state.snapshot.newest_version

    def read(self, series: SeriesInfo, start: float | None = None, end: float | None = None) -> Columns:
        """The points of a series from ``start`` to ``end``, both included, in seconds since the epoch."""
        found = self._by_key.get((series.name, series.labels))
        attempts = [_read_pieces(pieces, start, end) for pieces in ([] if found is None else found.attempts)]
        attempts = [columns for columns in attempts if len(columns)]
        if len(attempts) == 1:
            return attempts[0]
        if not attempts:
            return Columns(np.empty(0), np.empty(0, dtype=np.int64), np.empty(0))
        return Columns(
            np.concatenate([columns.times for columns in attempts]),
            np.concatenate([columns.steps for columns in attempts]),
            np.concatenate([columns.values for columns in attempts]),
        )

    def buckets(
        self,
        series: SeriesInfo,
        start: float | None = None,
        end: float | None = None,
        count: int = 1000,
        by: Axis = "time",
    ) -> Buckets:
        """A series in ``count`` buckets of equal width from ``start`` to ``end``, by default all of it.

        The ends are seconds since the epoch, or steps with ``by="step"``. See Buckets.
        """
        return self.band([series], start, end, count, by)

    def band(
        self,
        series: Iterable[SeriesInfo],
        start: float | None = None,
        end: float | None = None,
        count: int = 1000,
        by: Axis = "time",
    ) -> Buckets:
        """Many series in the same buckets: the lowest, the mean and the highest of all their values in each."""
        if by not in ("time", "step"):
            raise ValueError(f"by={by!r} is no axis: 'time' or 'step'")
        if count < 1:
            raise ValueError(f"count={count!r}: at least one bucket")
        by_step = by == "step"
        pieces = [piece for each in series for piece in self._pieces(each)]
        start = min((_span(piece, by_step)[0] for piece in pieces), default=0.0) if start is None else start
        end = max((_span(piece, by_step)[1] for piece in pieces), default=0.0) if end is None else end
        return add_up(pieces, float(start), float(end), count, by_step)

    def find_superseded(self, series: SeriesInfo) -> SeriesInfo | None:
        """What later attempts have superseded of a series, described as a series is; None where that's nothing."""
        left = self._left(series)
        return _describe((series.name, series.labels), [left[attempt] for attempt in sorted(left)]) if left else None

    def superseded_bands(
        self, series: Iterable[SeriesInfo], start: float, end: float, count: int, by: Axis = "time"
    ) -> list[Buckets]:
        """What later attempts have superseded, as ``band()`` has what counts: for each attempt apart, oldest first."""
        by_attempt: dict[int, list[Piece]] = {}
        for each in series:
            for attempt, pieces in self._left(each).items():
                by_attempt.setdefault(attempt, []).extend(pieces)
        return [add_up(pieces, start, end, count, by == "step") for _, pieces in sorted(by_attempt.items())]

    def _pieces(self, series: SeriesInfo) -> Sequence[Piece]:
        found = self._by_key.get((series.name, series.labels))
        return () if found is None else found.pieces

    def _left(self, series: SeriesInfo) -> dict[int, tuple[Piece, ...]]:
        found = self._by_key.get((series.name, series.labels))
        return {} if found is None else found.superseded


def _read_pieces(pieces: Sequence[Piece], start: float | None, end: float | None) -> Columns:
    """The points of pieces from ``start`` to ``end``, by time."""
    parts = []
    for piece in pieces:
        first = 0 if start is None else int(np.searchsorted(piece.times, start, side="left"))
        last = len(piece) if end is None else int(np.searchsorted(piece.times, end, side="right"))
        if first < last:
            parts.append((piece.times[first:last], piece.steps[first:last], piece.values[first:last]))
    if len(parts) == 1:
        return Columns(*parts[0])
    if not parts:
        return Columns(np.empty(0), np.empty(0, dtype=np.int64), np.empty(0))
    times, steps, values = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    if np.any(times[1:] < times[:-1]):
        order = np.argsort(times, kind="stable")
        times, steps, values = times[order], steps[order], values[order]
    return Columns(times, steps, values)


def _describe(key: SeriesKey, attempts: Sequence[Sequence[Piece]]) -> SeriesInfo:
    name, labels = key
    pieces = [piece for own in attempts for piece in own]
    newest = max(reversed(attempts[-1]), key=lambda piece: piece.last_time)
    oldest = min(attempts[0], key=lambda piece: piece.first_time)
    finite = [piece for piece in pieces if piece.finite]
    return SeriesInfo(
        name,
        labels,
        count=sum(map(len, pieces)),
        first_time=min(piece.first_time for piece in pieces),
        last_time=max(piece.last_time for piece in pieces),
        first_step=oldest.first_step,
        last_step=newest.last_step,
        lowest_step=min(piece.lowest_step for piece in pieces),
        highest_step=max(piece.highest_step for piece in pieces),
        last_value=newest.last_value,
        low=min((piece.low for piece in finite), default=float("nan")),
        high=max((piece.high for piece in finite), default=float("nan")),
        finite=sum(piece.finite for piece in finite),
    )


def _span(piece: Piece, by_step: bool) -> tuple[float, float]:
    return (piece.lowest_step, piece.highest_step) if by_step else (piece.first_time, piece.last_time)
