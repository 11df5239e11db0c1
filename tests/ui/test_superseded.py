"""A training that was resumed from checkpoints, on the page: what counts, and faintly what was logged before."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.ui.browser import Browser
from tests.ui.serving import Server
from tests.ui.test_reach import find_violations
from tests.unit.store.build import T0, declare, end, head, points, put, put_attempt, resumed

pytestmark = pytest.mark.browser

ATTEMPTS = (range(60), range(45, 100), range(40, 90))  # the last one hasn't come as far as the one before
COUNTING = [(0, step) for step in range(40)] + [(2, step) for step in range(40, 90)]
SUPERSEDED = [[(0, step) for step in range(40, 60)], [(1, step) for step in range(45, 100)]]
FAINT = 0.45
# Each line of the chart as Bokeh is given it: its points, colour and opacity.
DRAWN = """const {data} = metrana.charts.get('loss').plot.lineSource;
    return data.xs.map((xs, at) => [[...xs], [...data.ys[at]], data.color[at], data.alpha[at]])"""
TOLD = "const {legend, figure} = metrana.charts.get('loss'); return [legend.element.innerText, figure.ariaLabel]"
TOGGLE = "document.querySelector('#superseded input')"


def put_attempts(store: Path, *numbers: int) -> None:
    for number in numbers:
        put_attempt(store, number, ATTEMPTS[number])


def place(attempt: int, step: int, by: str) -> tuple[float, float]:
    """Where a point stands on the axis, and its value."""
    x = step if by == "step" else T0 + 1000 * attempt + 1 + step - ATTEMPTS[attempt].start
    return float(x), 1000.0 * attempt + step


def places(steps: list[tuple[int, int]], by: str) -> list[tuple[float, float]]:
    return [place(attempt, step, by) for attempt, step in steps]


def drawn(page: Browser) -> list[tuple[list[tuple[float, float]], str, float]]:
    found: Any = page.js(DRAWN)
    return [(list(zip(xs, ys, strict=True)), color, alpha) for xs, ys, color, alpha in found]


def choose(page: Browser, action: str) -> None:
    """Do what draws the charts anew, and wait for that."""
    before = page.js("return metrana.drawing")
    page.js(action)
    page.wait_js("metrana.drawing > arguments[0]", "the charts to be drawn anew", before)
    page.wait_drawn()


@pytest.mark.parametrize("by", ["time", "step"])
def test_what_counts_runs_forward_and_the_rest_is_faint_when_asked(browser: Browser, tmp_path: Path, by: str) -> None:
    """Resumed twice: one line from left to right; with the toggle each earlier attempt's points too, in no figure."""
    put_attempts(tmp_path, 0, 1, 2)
    with Server(tmp_path) as server:
        browser.open(server.url)
        if by == "step":
            choose(browser, "document.querySelector('input[value=step]').click()")
        ((counting, color, alpha),) = drawn(browser)
        assert 1 == alpha and all(earlier[0] < later[0] for earlier, later in pairwise(counting))
        if by == "step":
            assert places(COUNTING, by) == counting
        told = browser.js(TOLD)
        choose(browser, f"{TOGGLE}.click()")
        *faint, (same, _, whole) = drawn(browser)
        assert (2, counting, 1) == (len(faint), same, whole)
        for (found, own, opacity), expected in zip(faint, SUPERSEDED, strict=True):
            assert (color, FAINT) == (own, opacity)
            if by == "step":
                assert places(expected, by) == found
            else:  # in buckets of some seconds
                ends = places([expected[0], expected[-1]], by)
                assert ends[0][0] <= found[0][0] and found[-1][0] <= ends[1][0]
        assert told == browser.js(TOLD)
        start, end = browser.ranges()["loss"]
        assert start <= min(x for found, *_ in faint for x, _ in found)
        assert max(x for found, *_ in faint for x, _ in found) <= end, "steps beyond the last attempt's"
        choose(browser, f"{TOGGLE}.click()")
        assert 1 == len(drawn(browser))
        assert [] == browser.take_logs()[0]


@pytest.mark.parametrize("is_shown", [False, True])
def test_an_attempt_that_begins_under_an_open_page_is_told(browser: Browser, tmp_path: Path, is_shown: bool) -> None:
    """What it supersedes leaves the line at once, not when all is fetched the next time; where asked it turns faint."""
    put_attempt(tmp_path, 0, range(600))
    put_attempt(tmp_path, 1, range(590, 600))
    with Server(tmp_path) as server:
        browser.open(server.url)
        if is_shown:
            choose(browser, f"{TOGGLE}.click()")
        # A stretch that's already full, in buckets that stay. All is fetched again from time to time: not just now.
        choose(browser, f"metrana.zoomTo(metrana.axes.time, {T0}, {T0 + 601})")
        browser.js("for (const one of metrana.charts.get('loss').loaded.values()) one.wholeAt = performance.now()")
        put_attempt(tmp_path, 2, range(50, 60))
        told = "metrana.runs[0].metrics.get('loss').series[0].last === arguments[0]"
        browser.wait_js(told, "the attempt", T0 + 2010)
        browser.wait_drawn()
        (line,) = browser.lines("loss")
        assert 50 > max(line["high"])
        faint = [value for found, _, alpha in drawn(browser) if alpha == FAINT for _, value in found]
        assert faint == sorted(faint) and is_shown == bool(faint)
        assert not is_shown or faint[0] == pytest.approx(50, abs=2) and faint[-1] == pytest.approx(599, abs=2)
        assert "2059" == browser.text("[data-metric=loss] .value")


def test_the_toggle_is_for_the_keyboard_and_only_where_there_is_anything(
    browser: Browser, cards: Server, tmp_path: Path
) -> None:
    """Tab reaches it, the space bar presses it, axe finds nothing; a run that was never resumed has none."""
    from selenium.webdriver.common.keys import Keys

    put_attempts(tmp_path, 0, 1)
    with Server(tmp_path) as server:
        for dark in (False, True):
            browser.open(server.url, dark=dark)
            browser.js("document.querySelector('input[name=by]:checked').focus()")
            tools = []
            for _ in range(6):
                browser.driver.switch_to.active_element.send_keys(Keys.TAB)
                tools.append(browser.js("return document.activeElement.closest('#superseded') !== null"))
                if tools[-1]:
                    break
            assert tools[-1]
            before = browser.js("return metrana.drawing")
            browser.driver.switch_to.active_element.send_keys(Keys.SPACE)
            browser.wait_js("metrana.drawing > arguments[0]", "the other points", before)
            browser.wait_drawn()
            assert [FAINT, 1] == [alpha for *_, alpha in drawn(browser)]
            assert [] == find_violations(browser)
    browser.open(f"{cards.url}#run=one-id")
    assert not browser.js(f"return {TOGGLE}.checkVisibility()")


def test_what_is_superseded_is_printed_where_it_is_shown(browser: Browser, tmp_path: Path) -> None:
    """On paper as on the screen: two faint lines below the one that counts, or that one alone."""
    put_attempts(tmp_path, 0, 1, 2)
    opacities = """window.dispatchEvent(new Event('beforeprint'));
        const found = [...document.querySelectorAll('.paper path[fill=none]')].map((one) => Number(one.style.opacity));
        window.dispatchEvent(new Event('afterprint'));
        return found"""
    with Server(tmp_path) as server:
        browser.open(server.url)
        assert [1] == browser.js(opacities)
        choose(browser, f"{TOGGLE}.click()")
        assert [FAINT, FAINT, 1] == browser.js(opacities)


def test_a_band_has_its_superseded_points_too(browser: Browser, tmp_path: Path) -> None:
    """Of more than eight series: a faint band for each attempt, below that of what counts."""
    for number, start in ((0, T0), (1, T0 + 1000)):
        first = head(t=start, pid=42 + number)
        lines = [resumed(first) if number else first, *(declare(n, "loss", policy=str(n)) for n in range(10))]
        for at, step in enumerate(ATTEMPTS[number]):
            lines.append(points(start + 1 + at, step, {n: float(n + number) for n in range(10)}))
        put(tmp_path, *lines, end(start + 100), writer=f"node7-{42 + number}-{number}")
    with Server(tmp_path) as server:
        browser.open(server.url)
        choose(browser, f"{TOGGLE}.click()")
        assert [FAINT, 1] == [alpha for *_, alpha in drawn(browser)]
