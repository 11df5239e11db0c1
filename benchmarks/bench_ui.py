"""The page of charts in headless Chromium: from the click to the first chart and to all, a zoom, memory.

``python -m benchmarks.bench_ui [FOLDER]``; stores of the kinds ``day`` and ``second`` that FOLDER holds are used,
others are made first (they take a few minutes and 2 GB). Needs what the tests of the page need.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.make_store import STORES
from benchmarks.measure import report
from tests.scripts import wait_until
from tests.ui.browser import Browser, missing_browser
from tests.ui.serving import Server
from tests.ui.stores import put_lines

OPENINGS = 5
ZOOMS = 10
_LIMIT_SECS = 300.0
_FIRST, _ALL, _ZOOM, _MEMORY = 2000.0, 5000.0, 300.0, 1000.0
# Newer than the run that's measured, so that the page opens with this one and the other waits for its click.
_OTHER_START = 1767225600.0 + 1e7


def main() -> None:
    missing = missing_browser()
    if missing:
        print(f"the page isn't measured: {missing}")
        return
    given = sys.argv[1:2] if __name__ == "__main__" else []
    with tempfile.TemporaryDirectory(prefix="bench-ui-") as made:
        folder = Path(given[0] if given else made)
        for kind in ("day", "second"):
            store = folder / kind
            if not store.is_dir():
                STORES[kind](store)
            if not any(store.rglob("other@*")):
                put_lines(store, "other", _OTHER_START)
        measure(folder / "day", "4.3 million points, opened for the first time", is_first=True)
        measure(folder / "second", "33 million points, opened for the second time", is_first=False)


def measure(store: Path, title: str, *, is_first: bool) -> None:
    figures: dict[str, list[float]] = {}
    if not is_first:
        open_and_look(store, {})
    for _ in range(OPENINGS):
        if is_first:
            for index in store.rglob(".index"):
                shutil.rmtree(index)
        open_and_look(store, figures)
    print(title)
    report("  from the click to the first chart", figures["first"], "ms", _FIRST)
    report("  from the click to all charts, read to the end", figures["all"], "ms", _ALL)
    report("  a zoom, charts in view", figures["visible"], "ms", _ZOOM)
    report("  a zoom, all charts", figures["zoom"], "ms")
    report("  memory of the server at its peak, mapped files too", figures["peak"], "MB", _MEMORY)


def open_and_look(store: Path, figures: dict[str, list[float]]) -> None:
    with tempfile.TemporaryDirectory() as profile, Server(store) as server:
        browser = Browser(Path(profile))
        try:
            browser.open(server.url)
            browser.js("document.querySelector('#runs li[data-run=da1] .open').click()")
            done = "return metrana.opened && metrana.runs[0].key === 'da1' && metrana.opened.all"
            wait_until(lambda: browser.js(done), "all charts", _LIMIT_SECS)
            keep(figures, browser.js("return metrana.opened"), "first", "all")
            for index in range(ZOOMS):
                zoom(browser, figures, index)
            figures.setdefault("peak", []).append(read_peak(server.process.pid))
        finally:
            browser.close()


def zoom(browser: Browser, figures: dict[str, list[float]], index: int) -> None:
    """A zoom to a fortieth of the day, another one each time, as a drag does it."""
    before = browser.js("return metrana.drawing")
    browser.js(
        """const {domain: [start, end]} = metrana.axes.time, at = start + (end - start) * (0.1 + 0.08 * arguments[0]);
        metrana.zoomTo(metrana.axes.time, at, at + (end - start) / 40)""",
        index,
    )
    browser.wait_js("metrana.drawing > arguments[0] && metrana.timings.all", "the zoom", before)
    timings = browser.js("return metrana.timings")
    keep(figures, {"visible": timings["visible"], "zoom": timings["all"]}, "visible", "zoom")


def read_peak(pid: int) -> float:
    """The most memory in MB that a process ever had, with the files that it maps."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return float(fields["VmHWM"].split()[0]) * 1024 / 1e6


def keep(figures: dict[str, list[float]], found: dict[str, Any], *names: str) -> None:
    for name in names:
        figures.setdefault(name, []).append(float(found[name]))


if __name__ == "__main__":
    main()
