"""Columns as they grow while lines are read: the series that stand in a line together share times and steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metrana.store.index.pieces import Floats, Ints, Piece, make_piece, order_by_time
from metrana.store.layout import decode_value
from metrana.store.reader import SeriesKey

MOST_GROUPS = 1000  # of a writer; lines of yet other series are taken apart, one series at a time
_INT64 = np.iinfo(np.int64)


@dataclass
class _Part:
    """Rows of a group: the values have a row for each series."""

    times: Floats
    steps: Ints
    values: Floats
    lines: Ints


class Group:
    """The series of a line, and the rows that such lines made. ``width`` is how many series they are."""

    def __init__(self, groups: Groups, keys: tuple[SeriesKey, ...]) -> None:
        self.keys = keys
        self.width = len(keys)
        self.parts: list[_Part] = []
        self._groups = groups
        self._clear()

    def add(self, timestamp: float, step: int, values: list[Any], line: int) -> None:
        """One row. What the values are is looked at later, for many at once."""
        if not self._lines:
            self._groups.filled.append(self)
        self._times.append(timestamp)
        self._steps.append(step)
        self._values += values
        self._lines.append(line)

    def add_columns(self, times: Floats, steps: Ints, values: Floats, line: int) -> None:
        """Many rows of the one series, from one line."""
        self.flush()
        lines = np.full(len(times), line, dtype=np.int64)
        self.parts.append(_Part(times, steps, values[None, :], lines))

    def flush(self) -> int:
        """Make columns of the rows added since; how many lines held something that isn't a value."""
        if not self._lines:
            return 0
        skipped = 0
        types = set(map(type, self._values))
        try:
            if not types <= {float, int}:
                raise ValueError("a value to look at by itself")
            values = np.array(self._values, np.float64).reshape(-1, self.width).T
            steps = np.array(self._steps, np.int64)
        except (ValueError, OverflowError):
            skipped = self._add_one_by_one()
        else:
            times, lines = np.array(self._times, np.float64), np.array(self._lines, np.int64)
            self.parts.append(_Part(times, steps, np.ascontiguousarray(values), lines))
        self._clear()
        return skipped

    def _clear(self) -> None:
        self._times: list[float] = []
        self._steps: list[int] = []
        self._values: list[Any] = []
        self._lines: list[int] = []

    def _add_one_by_one(self) -> int:
        """Rows with NaN and infinities, which JSON has as text, and with what's none of the format's values."""
        skipped = 0
        rows: list[list[tuple[float, int, float, int]]] = [[] for _ in self.keys]
        for row, (timestamp, step, line) in enumerate(zip(self._times, self._steps, self._lines, strict=True)):
            if not _INT64.min <= step <= _INT64.max:
                skipped += 1
                continue
            is_whole = True
            values = self._values[row * self.width : (row + 1) * self.width]
            for own, value in zip(rows, values, strict=True):
                try:
                    own.append((timestamp, step, decode_value(value), line))
                except (ValueError, OverflowError):
                    is_whole = False
            skipped += not is_whole
        if len({tuple(line for *_, line in own) for own in rows}) == 1:
            if rows[0]:
                self.parts.append(_as_part(rows))
        else:
            for key, own in zip(self.keys, rows, strict=True):
                if own:
                    self._groups.find((key,)).parts.append(_as_part([own]))
        return skipped


class Groups:
    """All groups of one writer."""

    def __init__(self) -> None:
        self.filled: list[Group] = []  # since the last flush
        self._by_keys: dict[tuple[SeriesKey, ...], Group] = {}

    def find(self, keys: tuple[SeriesKey, ...]) -> Group:
        group = self._by_keys.get(keys)
        if group is None:
            group = self._by_keys[keys] = Group(self, keys)
        return group

    @property
    def are_many(self) -> bool:
        """Whether lines hold ever other series, so that a group for each would cost more than it spares."""
        return len(self._by_keys) >= MOST_GROUPS

    def flush(self) -> int:
        """How many lines held something that isn't a value."""
        filled, self.filled = self.filled, []
        return sum(group.flush() for group in filled)

    def finish(self) -> list[tuple[SeriesKey, Piece]]:
        """The pieces, those of one series in the order of their lines, and no groups from then on."""
        groups = [group for group in self._by_keys.values() if group.parts]
        self._by_keys = {}
        wholes = {group: _join(group.parts) for group in groups}
        by_key: dict[SeriesKey, list[tuple[Group, int]]] = {}
        for group in groups:
            group.parts = []
            for index, key in enumerate(group.keys):
                by_key.setdefault(key, []).append((group, index))
        orders = {group: _sort_rows(whole) for group, whole in wholes.items()}
        pieces: list[tuple[SeriesKey, Piece]] = []
        for key, places in by_key.items():
            places.sort(key=lambda place: orders[place[0]].first_line)
            follow = all(
                orders[earlier].last_line <= orders[later].first_line
                for (earlier, _), (later, _) in zip(places, places[1:], strict=False)
            )
            parts = [(wholes[group], index) for group, index in places]
            if follow:
                pieces += [(key, make_piece(whole.times, whole.steps, whole.values[index])) for whole, index in parts]
            else:
                pieces.append((key, _merge(parts)))
        return pieces


@dataclass
class _Lines:
    first_line: int
    last_line: int


def _as_part(rows: list[list[tuple[float, int, float, int]]]) -> _Part:
    times, steps, _, lines = zip(*rows[0], strict=True)
    values = np.array([[value for _, _, value, _ in own] for own in rows], np.float64)
    return _Part(np.array(times, np.float64), np.array(steps, np.int64), values, np.array(lines, np.int64))


def _join(parts: list[_Part]) -> _Part:
    """The parts of a group as one, in the order of their lines."""
    parts.sort(key=lambda part: int(part.lines[0]))
    if len(parts) == 1:
        return parts[0]
    return _Part(
        np.concatenate([part.times for part in parts]),
        np.concatenate([part.steps for part in parts]),
        np.concatenate([part.values for part in parts], axis=1),
        np.concatenate([part.lines for part in parts]),
    )


def _sort_rows(whole: _Part) -> _Lines:
    """Put rows into the order of their times; from which line to which they reach."""
    lines = _Lines(int(whole.lines.min()), int(whole.lines.max()))
    order = order_by_time(whole.times)
    if order is not None:
        whole.times, whole.steps, whole.lines = whole.times[order], whole.steps[order], whole.lines[order]
        whole.values = whole.values[:, order]
    return lines


def _merge(parts: list[tuple[_Part, int]]) -> Piece:
    """A series that stood in lines of several kinds, in turns."""
    times = np.concatenate([part.times for part, _ in parts])
    lines: NDArray[np.int64] = np.concatenate([part.lines for part, _ in parts])
    order = np.lexsort((lines, times))
    steps = np.concatenate([part.steps for part, _ in parts])
    values = np.concatenate([part.values[index] for part, index in parts])
    return make_piece(times[order], steps[order], values[order])
