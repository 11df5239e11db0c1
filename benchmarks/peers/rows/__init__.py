"""The rows of the table, a module per group: what's measured together, in one interpreter.

A group's ``measure(adapter, folder, size)`` runs in the tool's interpreter and returns figures by a row's key; a string
in the place of a figure is the reason why there's none.
"""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """A row: the key of its figure, its title, its unit, and whether a smaller figure is the better one.

    ``has_ratio``: whether the figures are told as multiples of metrana's. ``tolerance``, in the row's unit: what comes
    so near to the best figure is as good, since two runs differ as much.
    """

    key: str
    title: str
    unit: str
    is_less_better: bool = True
    has_ratio: bool = True
    tolerance: float = 0.0


class Group(NamedTuple):
    """A group: its module, how many rounds, how long one measurement may take, and whether a first one is left out."""

    name: str
    rounds: int
    deadline_secs: float
    rows: tuple[Row, ...]
    has_warmup: bool = False


GROUPS = (
    Group(
        "startup",
        15,
        60.0,
        (
            Row("import_ms", "import", "ms"),
            Row("first_ms", "first init, in an empty folder", "ms"),
            Row("close_ms", "close, after a thousand points", "ms"),
            Row("later_ms", "init in a folder that has a run", "ms"),
        ),
        has_warmup=True,
    ),
    Group(
        "sampling",
        5,
        90.0,
        (
            Row("rss_mb", "memory added to the training process", "MB"),
            Row("own_ms", "CPU a sample, training process", "ms"),
            Row("all_ms", "CPU a sample, all processes of the tool", "ms"),
            Row("values", "values in a sample", "", has_ratio=False),
        ),
    ),
    Group(
        "logging",
        5,
        90.0,
        (Row("one_us", "log one scalar", "µs"), Row("ten_us", "log a dict of ten", "µs")),
    ),
    Group(
        "slowdown",
        9,
        60.0,
        (
            Row("slower_percent", "slow-down of a pure-Python loop", "%", has_ratio=False, tolerance=0.5),
            Row("still_percent", "time that the loop stands still", "%", has_ratio=False, tolerance=0.1),
        ),
    ),
    Group(
        "held",
        3,
        60.0,
        (Row("late_ms", "lateness of a sample, a C call holding the interpreter 5 s", "ms", tolerance=5.0),),
    ),
    Group(
        "killed",
        5,
        90.0,
        (
            Row(
                "kept_percent",
                "points kept after kill -9, of two seconds' logging",
                "%",
                is_less_better=False,
                has_ratio=False,
            ),
        ),
    ),
    Group(
        "stored",
        3,
        240.0,
        (Row("point_bytes", "bytes on disk, a logged point", "B"), Row("read_secs", "read a million points", "s")),
    ),
)
