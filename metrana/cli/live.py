"""``metrana show --live``: a running run drawn again and again, on a screen of its own, until it ends."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from metrana.cli.chart import CHART_PACKAGES, choose_charts
from metrana.cli.page import render_run
from metrana.extras import need
from metrana.store.catalog import reread_run
from metrana.store.ends import RUNNING
from metrana.store.reading import open_reading
from metrana.store.run_info import RunInfo

LOOK_SECS = 2.0


def follow(info: RunInfo, patterns: Sequence[str], superseded: bool = False) -> None:
    """Show a run until it no longer runs or Ctrl-C, and then once more in whole. Raises MissingExtraError.

    Where stdout is no terminal, only that last time.
    """
    need("--live", *CHART_PACKAGES, "rich")
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    reading = open_reading(info, superseded=superseded)
    output = sys.stdout  # rich puts something else in its place
    is_terminal = output.isatty()

    def render() -> list[str]:
        return list(render_run(reading, patterns, choose_charts(output)))

    try:
        with Live(console=Console(file=output), screen=is_terminal, auto_refresh=False) as live:
            while True:
                reading.info = reread_run(reading.info)
                reading.refresh()
                if reading.info.status != RUNNING:
                    break
                if is_terminal:
                    live.update(Text.from_ansi("\n".join(render())), refresh=True)
                time.sleep(LOOK_SECS)
    except KeyboardInterrupt:
        pass  # the way out of it
    for line in render():
        print(line)
