"""The figures and the axes of the page: what stands beside a name, and what ticks say."""

from __future__ import annotations

import math
import os
import platform
import re
import shutil
from pathlib import Path

import pytest

from metrana import open_run
from metrana.cli.chart import Charts
from metrana.cli.page import render_run
from metrana.cli.text import find_unit, format_value
from metrana.procstat import read_start_ticks
from metrana.store.catalog import find_run
from metrana.store.reading import open_reading
from tests.ui.browser import PHONE, Browser
from tests.ui.serving import Server
from tests.unit.store.build import T0, declare, end, head, points, put

pytestmark = pytest.mark.browser

AXES = {"clock": "absolute", "elapsed": "elapsed", "step": "step"}
ODD = (math.nan, math.inf, -math.inf, 3e38, -0.0, 5e-324, 1234567.891, 0.00012345)
GPU = ("system/gpu/utilization", "system/gpu/memory_used_bytes", "system/gpu/sm_clock_mhz")
MINE = tuple(f"train/metric{number:02d}" for number in range(37))
SIZE = re.compile(r" ([KMGTPE]i)?B$")
JSON_VALUES = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def put_eight_cards(store: Path, ticks: int, *, is_closed: bool) -> None:
    """A run of this very process: 40 metrics, odd values among them, one series of a single point."""
    names = [(name, {"gpu": str(card)}) for name in GPU for card in range(8)] + [(name, {}) for name in MINE]
    lines = [head("odd", T0, host=platform.node(), pid=os.getpid(), pid_start=read_start_ticks(os.getpid()))]
    lines += [declare(number, name, **labels) for number, (name, labels) in enumerate(names)]
    for tick in range(ticks):
        values: dict[int, object] = {}
        for number, (name, _) in enumerate(names):
            value = math.pi ** (number % 20) * 1e-3 * (tick + 1)
            if name in MINE[: len(ODD)] and tick == ticks - 1:
                value = ODD[MINE.index(name)]
            if name != MINE[-1] or tick == 0:
                values[number] = JSON_VALUES.get(str(value), value)
        lines.append(points(T0 + 10 * tick, 1000 - tick, values))  # steps that go down: the last by time counts
    put(store, *lines, *([end(T0 + 10 * ticks)] if is_closed else []), run="odd")


def shown_by_show(store: Path) -> dict[str, list[str]]:
    """By metric the last values that ``metrana show`` tells."""
    found: dict[str, list[str]] = {}
    name = ""
    info = find_run(str(store), "odd")
    for line in render_run(open_reading(info), ["*"], Charts(200, can_draw=False)):
        word = line.split()[0] if line.startswith("  ") else ""
        name = word if word in GPU + MINE else name
        if name and "  last " in line:
            found.setdefault(name, []).append(line.partition("  last ")[2].partition("  ")[0])
    return found


def shown_by_frame(store: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in open_run("odd", dir=store).series():
        found.setdefault(one.name, []).append(format_value(float(one.values[-1]), find_unit(one.name)))
    return found


def shown_by_page(page: Browser) -> dict[str, list[str]]:
    """By metric what stands beside its names, with the unit that stands beside the chart's, unless it has its own."""
    script = """return [...metrana.charts].map(([name, chart]) => [name, chart.metric.group, chart.unit.textContent,
        [...chart.legend.element.querySelectorAll('.value')].map((value) => value.textContent)])"""
    return {
        name: [value if group == "yours" or SIZE.search(value) else f"{value} {unit}" for value in values]
        for name, group, unit, values in page.js(script)
    }


@pytest.mark.timeout(240)
def test_last_values_are_the_same_everywhere(browser: Browser, tmp_path: Path) -> None:
    """On the page, in ``show`` and in a frame: for each series, on each axis, live and ended, scrolled to or not."""
    put_eight_cards(tmp_path, 30, is_closed=False)
    with Server(tmp_path) as server:
        for is_closed in (False, True):
            if is_closed:
                put_eight_cards(tmp_path, 45, is_closed=True)
            browser.open(f"{server.url}#run=odd-id")
            state = "closed" if is_closed else "live"
            browser.wait_js("document.querySelector('#head .state').textContent === arguments[0]", state, state)
            expected = shown_by_frame(tmp_path)
            assert (40, 61) == (len(expected), sum(map(len, expected.values())))
            assert {"nan", "inf", "-inf", "3e+38"} <= {value for values in expected.values() for value in values}
            assert expected == shown_by_show(tmp_path)
            for value in AXES.values():
                browser.click(f"input[value={value}] + span")
                browser.wait_drawn()
                assert expected == shown_by_page(browser), (state, value)
                for metric in expected:
                    browser.card(metric)
                browser.hover(MINE[0], 0.3)
                browser.js("metrana.setCursor(null, null); window.scrollTo(0, 0)")
                browser.wait_js("metrana.cursor.at === null && metrana.cursorFrame === null", "no cursor")
                browser.wait_drawn()
                assert expected == shown_by_page(browser), (state, value, "after scrolling")
                ticks = browser.js(
                    "return [...metrana.charts].filter(([, {plot}]) => plot).map(([n, {plot}]) => [n, plot.ticks])"
                )
                few = [(name, own) for name, own in ticks if min(len(set(own["x"])), len(set(own["y"]))) < 3]
                assert 40 == len(ticks) and [] == few, (state, value)
                if value == "elapsed":
                    assert {"0m"} == {own["x"][0] for _, own in ticks}
                    assert {"m"} == {text[-1] for _, own in ticks for text in own["x"]}
                    assert {0.0} == {ends[0] for ends in browser.ranges().values()}
        assert [] == browser.take_logs()[0]


def test_a_fourth_digit_does_not_fill_a_chart(browser: Browser, tmp_path: Path) -> None:
    """What changes by less than a twentieth takes up as little of the chart's height; a unit stands once."""
    rows = [points(T0 + tick, tick, {0: 1.001 + tick * 1e-4, 1: 14.1 * 2**20, 2: 3.2 * 2**40}) for tick in range(60)]
    names = ["flat", "system/gpu/memory_used_bytes", "system/disk/size_bytes"]
    put(tmp_path, head(), *(declare(n, name) for n, name in enumerate(names)), *rows, end(T0 + 60))
    with Server(tmp_path) as server:
        browser.open(server.url, PHONE)
        low, high = browser.y_range("flat")
        assert high - low > 0.05
        assert ["14.1"] == browser.js(
            "return [...document.querySelectorAll('[data-group=gpu] .value')].map((one) => one.textContent)"
        )
        assert "memory_used MiB" == " ".join(browser.text("[data-group=gpu] h3").split())
        assert "size TiB" == " ".join(browser.text("[data-group=disk] h3").split())


def test_a_point_of_another_century_flattens_nothing(browser: Browser, tmp_path: Path) -> None:
    """Charts cover the run's time; a chart with points elsewhere says so, and shows them when asked."""
    far = T0 - 100 * 365 * 86400
    rows = [points(far if tick == 30 else T0 + tick, tick, {0: float(tick)}) for tick in range(60)]
    put(tmp_path, head(), declare(0, "loss"), declare(1, "lr"), *rows, points(T0 + 60, 60, {1: 1.0}), end(T0 + 61))
    with Server(tmp_path) as server:
        browser.open(server.url)
        assert [T0, pytest.approx(T0 + 60, abs=1.5)] == browser.ranges()["loss"]
        assert "outside" in browser.text("[data-metric=loss]")
        assert "outside" not in browser.text("[data-metric=lr]")
        browser.click("#reset")
        browser.wait_drawn()
        assert far == pytest.approx(browser.ranges()["loss"][0])
        assert 3 <= len(set(browser.js("return metrana.charts.get('loss').plot.ticks.x")))


def test_a_link_to_no_run_opens_no_other(browser: Browser, cards: Server) -> None:
    """It says that the run isn't there."""
    browser.open(f"{cards.url}#run=gone-id")
    assert "There's no run gone-id in this folder" in browser.text("#empty")
    assert 0 == browser.js("return metrana.runs.length")
    browser.click("#runs li[data-run=one-id] .open")
    browser.wait_js("metrana.runs[0]?.key === 'one-id'", "the run that was chosen")
    browser.wait_drawn()
    assert "no run" not in browser.text("main")


def test_a_removed_run_is_told_once(browser: Browser, tmp_path: Path) -> None:
    """The page says it, keeps what it has drawn, and goes on with the other run."""
    rows = [points(T0 + tick, tick, {0: float(tick)}) for tick in range(60)]
    folders = [
        put(tmp_path, head(run), declare(0, "loss"), *rows, end(T0 + 60), run=run).parents[1] for run in ("a", "b")
    ]
    with Server(tmp_path) as server:
        browser.open(f"{server.url}#run=a-id&with=b-id")
        shutil.rmtree(folders[1])
        browser.wait_js("document.getElementById('problems').innerText.includes('has been removed')", "the message")
        rounds = "metrana.runs[0].round > arguments[0]"
        browser.wait_js(rounds, "two more looks", browser.js("return metrana.runs[0].round + 1"))
        assert 1 == browser.js("return document.querySelectorAll('#problems p').length")
        assert [60, 60] == [len(line["x"]) for line in browser.lines("loss")]
    browser.take_logs()
