"""A progress bar on stderr for what takes long, where stderr is a terminal and rich is installed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from metrana.extras import has_package


@contextmanager
def show_progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Gives what's to be told of each step's size; ``total`` is their sum, 0 for what isn't worth a bar."""
    if not total or sys.stderr is None or not sys.stderr.isatty() or not has_package("rich"):
        yield lambda step: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda step: progress.advance(task, step)
