"""The page for everybody: by keyboard, read aloud, and on paper."""

from __future__ import annotations

import base64
import importlib.resources
import math
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.scripts import DEADLINE_SECS
from tests.ui.browser import Browser
from tests.ui.serving import Server
from tests.unit.store.build import T0, declare, end, head, points, put

pytestmark = pytest.mark.browser

CHARTS = 40
BLUE = (0x21, 0x66, 0xD8)
SMALL = 20  # pixels: what's lower than this is the mark in a legend


def find_violations(page: Browser) -> list[Any]:
    axe = pytest.importorskip("axe_core_python", reason="axe-core-python isn't installed: pip install axe-core-python")
    page.js((importlib.resources.files(axe) / "axe.min.js").read_text(encoding="utf-8"))
    script = """const done = arguments[0];
        axe.run(document, {resultTypes: ['violations']}).then(({violations}) =>
            done(violations.map(({id, nodes}) => [id, nodes.map((node) => node.html.slice(0, 200))])))"""
    found: list[Any] = page.driver.execute_async_script(script)
    return found


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_nothing(browser: Browser, cards: Server, tmp_path: Path, dark: bool) -> None:
    """No violation of any rule: the list, a run, two overlaid, an empty store; light and dark."""
    for fragment in ("", "#run=cards-id", "#run=cards-id&with=one-id", "#run=gone"):
        browser.open(cards.url + fragment, dark=dark)
        assert [] == find_violations(browser), fragment
    with Server(tmp_path / ".metrana") as server:
        browser.open(server.url, dark=dark)
        assert [] == find_violations(browser)


def test_a_chart_is_one_stop_of_the_keyboard(browser: Browser, cards: Server) -> None:
    """Tab goes from chart to chart; each is named, with its figures."""
    from selenium.webdriver.common.keys import Keys

    browser.open(f"{cards.url}#run=one-id")
    browser.js("document.querySelector('[data-metric=loss] .body').focus()")
    names = []
    for _ in range(3):
        names.append(browser.js("return document.activeElement.getAttribute('aria-label')"))
        browser.driver.switch_to.active_element.send_keys(Keys.TAB)
    assert ["loss", "lr", "utilization %"] == [name.partition(":")[0] for name in names]
    last = browser.js("return document.querySelector('[data-metric=loss] .value').textContent")
    assert f"loss: {last}" == names[0]


def test_no_chart_is_cut_on_paper(browser: Browser, tmp_path: Path) -> None:
    """A run of 40 charts as PDF: each is drawn whole, also those that weren't scrolled to, and no list of runs."""
    if shutil.which("pdftoppm") is None:
        pytest.skip("no pdftoppm here (on Debian: apt-get install poppler-utils)")
    import numpy as np
    from PIL import Image

    # A square wave reaches from the foot of its chart to the head: a chart that's cut is lower than the others.
    names = [f"train/metric{number:02d}" for number in range(CHARTS)]
    rows = [points(T0 + tick, tick, dict.fromkeys(range(CHARTS), float(tick % 2))) for tick in range(9)]
    put(tmp_path / "store", head(), *(declare(n, name) for n, name in enumerate(names)), *rows, end(T0 + 9))
    put(tmp_path / "store", head("another", T0 - 99), declare(0, "loss"), end(T0 - 98), run="another")
    with Server(tmp_path / "store") as server:
        browser.open(server.url, dark=True)
        assert "another" in browser.text("#runs")
        # As where there are too many charts to draw them ahead.
        browser.js(
            "for (const chart of [...metrana.charts.values()].slice(20)) { chart.loaded.clear(); chart.stale = true; }"
        )
        (tmp_path / "page.pdf").write_bytes(base64.b64decode(browser.driver.print_page()))
    words = subprocess.run(["pdftotext", str(tmp_path / "page.pdf"), "-"], capture_output=True, check=True, text=True)
    assert all(name in words.stdout for name in ("train-id", *names))
    assert not any(word in words.stdout for word in ("another", "Runs", "elapsed")), "neither list nor toolbar"
    command = ["pdftoppm", "-r", "72", "-png", str(tmp_path / "page.pdf"), str(tmp_path / "page")]
    subprocess.run(command, check=True, timeout=DEADLINE_SECS)
    heights = []
    for path in sorted(tmp_path.glob("page-*.png")):
        pixels = np.asarray(Image.open(path).convert("RGB")).astype(int)
        is_line = np.abs(pixels - BLUE).sum(axis=2) < 200
        for half in np.array_split(is_line, 2, axis=1):
            rows_drawn = np.flatnonzero(half.any(axis=1))
            stretches = np.split(rows_drawn, np.flatnonzero(np.diff(rows_drawn) > 2) + 1)
            heights += [len(stretch) for stretch in stretches if len(stretch) > SMALL]
    assert CHARTS == len(heights)
    assert max(heights) - min(heights) <= 2 and math.isclose(max(heights), heights[0], abs_tol=2)
