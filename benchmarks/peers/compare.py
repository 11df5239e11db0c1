"""The comparison: every tool in turn, round after round, and the medians of what they told."""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.peers.fresh import FailedError, measure_fresh
from benchmarks.peers.rows import Group
from benchmarks.peers.tools import Tool

Cell = float | str
"""A median, or the reason why there's none."""


class Table(NamedTuple):
    """What was found: by the row's key and the tool's name."""

    tools: tuple[Tool, ...]
    groups: tuple[Group, ...]
    cells: dict[tuple[str, str], Cell]
    rounds: dict[str, int]
    notes: tuple[str, ...]


def compare(
    tools: Sequence[Tool], pythons: dict[str, str], groups: Sequence[Group], rounds: int | None, size: float
) -> Table:
    """Measure. ``pythons`` holds a tool's interpreter; ``rounds`` None: as many as the group says.

    A tool that fails a group in one round isn't asked in its later ones, and keeps what it told before.
    """
    cells: dict[tuple[str, str], Cell] = {}
    done: dict[str, int] = {}
    notes = []
    for group in groups:
        told: dict[tuple[str, str], list[float]] = {}
        count = done[group.name] = rounds or group.rounds
        left = list(tools)
        for turn in range(-group.has_warmup, count):
            for tool in list(left):
                print(f"{group.name} {max(turn, 0) + 1}/{count} {tool.title}", file=sys.stderr, flush=True)
                try:
                    figures = measure_once(tool, pythons[tool.name], group, size)
                except FailedError as error:
                    left.remove(tool)
                    for row in group.rows:
                        cells.setdefault((row.key, tool.name), str(error))
                    continue
                for key, figure in figures.items() if turn >= 0 else ():
                    if isinstance(figure, str):
                        cells[key, tool.name] = figure
                    else:
                        told.setdefault((key, tool.name), []).append(figure)
        for place, values in told.items():
            cells[place] = statistics.median(values)
            if place[0] == "points":
                title = next(tool.title for tool in tools if tool.name == place[1])
                notes.append(f"{title}: {statistics.median(values):,.0f} points were written in the time given")
    return Table(tuple(tools), tuple(groups), cells, done, tuple(notes))


def measure_once(tool: Tool, python: str, group: Group, size: float) -> dict[str, Cell]:
    """One measurement in a folder that's thrown away. Raises FailedError."""
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        figures: dict[str, Cell] = measure_fresh(tool, python, group.name, Path(folder), size, group.deadline_secs)
        return figures
