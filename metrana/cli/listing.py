"""Runs as a table that fits the terminal: whatever its width, a run is one line."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from metrana.cli.text import (
    count_columns,
    cut_text,
    escape_text,
    format_duration,
    format_project,
    format_table,
    format_time,
)
from metrana.store.ends import ENDED
from metrana.store.run_info import RunInfo

_GAP = 2
_LEAST_ID = 8
_LEAST_NAME = 10  # below it a column goes rather than the name
_LONGEST_NAME = 60  # one long name would push all others apart
_Column = tuple[str, Callable[[RunInfo, int], str]]

_FULL: tuple[_Column, ...] = (
    ("ID", lambda info, length: escape_text(info.id)),
    ("NAME", lambda info, length: escape_text(info.run_name)),
    ("PROJECT", lambda info, length: format_project(info)),
    ("STATUS", lambda info, length: info.status),
    ("STARTED", lambda info, length: format_time(info.started)),
    ("DURATION", lambda info, length: format_duration(info.last - info.started)),
    ("PROCESSES", lambda info, length: str(len(info.writers))),
)
_SHORT: tuple[_Column, ...] = (
    ("ID", lambda info, length: escape_text(info.id[:length])),
    _FULL[1],
    _FULL[2],
    ("STATUS", lambda info, length: "ended" if info.status == ENDED else info.status),
    ("STARTED", lambda info, length: _drop_seconds(format_time(info.started))),
    ("TIME", _FULL[5][1]),
    ("PROCS", _FULL[6][1]),
)
# What's left of it in ever narrower terminals.
_LAYOUTS = (_FULL, _SHORT, _SHORT[:6], (*_SHORT[:2], *_SHORT[3:6]), (*_SHORT[:2], _SHORT[3], _SHORT[5]), _SHORT[:2])


def list_runs(runs: Sequence[RunInfo], columns: int | None) -> list[str]:
    """A line of headings and one for each run, at most ``columns`` wide; whole and uncut without a number.

    In a narrow terminal ids are cut to beginnings that tell these runs apart, and columns go, the last ones first.
    """
    if columns is None:
        return format_table(_fill(_FULL, runs, 0))
    length = _find_length([info.id for info in runs])
    for layout in _LAYOUTS:
        rows = _fill(layout, runs, length)
        room = columns - sum(_width(column) for column in _others(rows, layout)) - _GAP * (len(layout) - 1)
        names = [index for index, (title, _) in enumerate(layout) if title in ("NAME", "PROJECT")]
        widths = _share(room, [min(_LONGEST_NAME, _width([row[index] for row in rows])) for index in names])
        if widths is not None:
            for row in rows:
                for index, width in zip(names, widths, strict=True):
                    row[index] = cut_text(row[index], width)
            break
    return [cut_text(line, columns) for line in format_table(rows)]


def _fill(layout: tuple[_Column, ...], runs: Sequence[RunInfo], length: int) -> list[list[str]]:
    return [[title for title, _ in layout], *([describe(info, length) for _, describe in layout] for info in runs)]


def _others(rows: list[list[str]], layout: tuple[_Column, ...]) -> list[list[str]]:
    return [[row[index] for row in rows] for index, (title, _) in enumerate(layout) if title not in ("NAME", "PROJECT")]


def _width(cells: list[str]) -> int:
    return max(map(count_columns, cells))


def _share(room: int, wanted: list[int]) -> list[int] | None:
    """The widths of the columns of names, the narrower ones whole first; None where that's too little for a name."""
    widths = [0] * len(wanted)
    for left, index in enumerate(sorted(range(len(wanted)), key=wanted.__getitem__)):
        widths[index] = min(wanted[index], room // (len(wanted) - left))
        room -= widths[index]
    if any(width < min(_LEAST_NAME, need) for width, need in zip(widths, wanted, strict=True)):
        return None
    return widths


def _find_length(ids: Sequence[str]) -> int:
    """How much of the ids tells them apart."""
    ordered = sorted(set(ids))
    length = _LEAST_ID
    for one, other in zip(ordered, ordered[1:], strict=False):
        while one[:length] == other[:length] and length < len(other):
            length += 1
    return length


def _drop_seconds(text: str) -> str:
    return text[:-3] if text[-3:-2] == ":" else text
