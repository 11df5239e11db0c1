"""The page in a real browser: what a user clicks, drags and reads there."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.scripts import DEADLINE_SECS, Script, wait_until
from tests.ui.browser import PHONE, Browser
from tests.ui.serving import Server
from tests.ui.stores import HOSTILE, SPIKE, put_damaged, put_hostile
from tests.unit.store.build import T0

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]  # one Chromium for all

GPU = "system/gpu/utilization"
ROUNDING = 1e-6


@pytest.fixture
def cards_page(browser: Browser, cards: Server) -> Browser:
    """The run on 16 cards, freshly opened."""
    browser.open(f"{cards.url}#run=cards-id")
    return browser


def choose(page: Browser, label: str, value: str) -> None:
    """Open a filter and tick one of its values."""
    page.js("document.querySelector(`details[data-label=${arguments[0]}]`).open = true", label)
    script = """return [...document.querySelectorAll(`details[data-label=${arguments[0]}] label`)]
        .find((one) => one.innerText === arguments[1])"""
    before = page.js("return metrana.drawing")
    page.js(script, label, value).click()
    page.wait_js("metrana.drawing > arguments[0]", "the filter", before)
    page.wait_drawn()


def test_the_newest_run_opens_with_a_chart_for_each_metric(browser: Browser, cards: Server) -> None:
    """The newest run stands first and opens by itself: a chart for each metric, in groups, nothing from elsewhere."""
    browser.open(cards.url)
    assert ["cards", "one"] == [
        name.strip()
        for name in browser.js("return [...document.querySelectorAll('#runs .title')].map((one) => one.innerText)")
    ]
    groups = browser.js(
        """return [...document.querySelectorAll('.group')].map((group) => [group.querySelector('h2').innerText,
        [...group.querySelectorAll('.card')].map((card) => card.dataset.metric)])"""
    )
    assert [
        ["Training", ["loss", "lr"]],
        ["GPU", [GPU, "system/gpu/memory_used_bytes"]],
        ["CPU", ["system/cpu/utilization"]],
        ["Memory", ["system/memory/used_bytes"]],
        ["Disk", []],
        ["Process", []],
    ] == groups
    complaints, asked, _ = browser.take_logs()
    assert [] == complaints
    assert {urlsplit(cards.url).netloc} == {urlsplit(url).netloc for url in asked if not url.startswith("data:")}


def test_an_empty_group_says_why(cards_page: Browser) -> None:
    """Where there's no chart, the run's attribute stands; where one reading is missing, that too."""
    assert "the root file system isn't readable" in cards_page.text("[data-group=disk]")
    assert "captured, but no point was written" in cards_page.text("[data-group=process]")
    assert "gpu 3 power_watts: Not Supported" in cards_page.text("[data-group=gpu]")


def test_lines_become_a_band_above_eight(cards_page: Browser) -> None:
    """Sixteen series are a band of min, mean and max; those of one host are eight lines, each of its colour."""
    (band,) = cards_page.lines(GPU)
    assert band["band"] and ["16 series, min – mean – max"] == band["title"]
    assert all(low <= mean <= high for low, mean, high in zip(band["low"], band["mean"], band["high"], strict=True))
    assert any(low < high for low, high in zip(band["low"], band["high"], strict=True))
    choose(cards_page, "host", "node1")
    lines = cards_page.lines(GPU)
    assert [[f"gpu {card}"] for card in range(8)] == [line["title"] for line in lines]
    assert 8 == len({line["color"] for line in lines})
    assert 1 == len(cards_page.lines("system/cpu/utilization"))
    assert 1 == len(cards_page.lines("loss")), "a series without the label stays"
    choose(cards_page, "gpu", "5")
    (line,) = cards_page.lines(GPU)
    assert not line["band"]
    choose(cards_page, "host", "node1")  # off again: both hosts' fifth card
    assert [["host node0"], ["host node1"]] == [line["title"] for line in cards_page.lines(GPU)]


def test_what_is_drawn_is_on_the_screen(cards_page: Browser) -> None:
    """A chart's card shows its line in the line's colour, by day and by night."""
    choose(cards_page, "host", "node0")
    assert cards_page.shown_colors("system/memory/used_bytes")[(0x21, 0x66, 0xD8)] > 300
    scheme = {"name": "prefers-color-scheme", "value": "dark"}
    before = cards_page.js("return metrana.drawing")
    cards_page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    cards_page.wait_js("metrana.drawing > arguments[0]", "the dark page", before)
    colors = cards_page.shown_colors("system/memory/used_bytes")
    assert colors[(0x6E, 0xA8, 0xFE)] > 300
    assert max(colors, key=lambda color: colors[color]) == (0x1B, 0x1F, 0x26)


def test_a_drag_zooms_all_charts(cards_page: Browser) -> None:
    """A drag in one chart zooms every chart, the loss among them, to finer points; a double click shows all again."""
    whole = cards_page.ranges()
    assert 1 == len({tuple(ends) for ends in whole.values()})
    points = len(cards_page.lines("loss")[0]["x"])
    cards_page.drag("system/cpu/utilization", 0.25, 0.5)
    (zoomed,) = {tuple(ends) for ends in cards_page.ranges().values()}
    span = whole["loss"][1] - whole["loss"][0]
    assert zoomed == pytest.approx((T0 + span / 4, T0 + span / 2), abs=span / 50)
    inside = [x for x in cards_page.lines("loss")[0]["x"] if zoomed[0] <= x <= zoomed[1]]
    assert len(inside) > points / 4 * 1.5
    card = cards_page.card("loss")
    before = cards_page.js("return metrana.drawing")
    cards_page.js("arguments[0].querySelector('.overlay').dispatchEvent(new MouseEvent('dblclick'))", card)
    cards_page.wait_js("metrana.drawing > arguments[0]", "all of it", before)
    cards_page.wait_drawn()
    assert whole == cards_page.ranges()


def test_the_cursor_stands_in_all_charts(cards_page: Browser) -> None:
    """Over one chart the cursor stands at the same time in all that are in view, with the values there."""
    last = cards_page.js("return metrana.charts.get('loss').legend.values[0].textContent")
    cards_page.hover("loss", 0.5)
    cards_page.wait_js("!metrana.charts.get('loss').rule.hidden", "the cursor")
    shown = cards_page.js(
        """return [...metrana.charts.values()].filter((chart) => chart.isNear)
        .map((chart) => [chart.cursor, chart.rule.hidden])"""
    )
    assert len(shown) >= 4 and all(one == shown[0] for one in shown)
    assert T0 + 2000 == pytest.approx(shown[0][0], abs=40)
    assert last != cards_page.js("return metrana.charts.get('loss').legend.values[0].textContent")
    assert "2026-01-01 00:33" in cards_page.text("#range")


def test_a_spike_survives_downsampling(browser: Browser, cards: Server) -> None:
    """One point of four thousand that stands out is drawn at its full height in the whole run's chart."""
    browser.open(f"{cards.url}#run=cards-id", PHONE)
    (line,) = browser.lines("loss")
    assert len(line["x"]) < 1000
    assert SPIKE == max(line["high"])
    assert SPIKE == max(
        max(ys) for ys in browser.js("return metrana.charts.get('loss').plot.bandSource.data.ys.map((ys) => [...ys])")
    )
    assert browser.y_range("loss")[1] > SPIKE


def test_axes_suit_their_units(cards_page: Browser) -> None:
    """Percent goes from 0 to 100, bytes are in the unit that fits, from 0."""
    assert [0, 100] == cards_page.y_range(GPU)
    assert [0, 100] == cards_page.y_range("system/cpu/utilization")
    low, high = cards_page.y_range("system/gpu/memory_used_bytes")
    assert 0 == low and 31 < high < 34
    assert "GiB" in cards_page.text("[data-metric='system/memory/used_bytes'] h3")


def test_time_is_absolute_or_elapsed(cards_page: Browser) -> None:
    """Elapsed time counts from the run's start; a zoom stays where it is."""
    cards_page.drag("loss", 0.25, 0.5)
    before = cards_page.ranges()["loss"]
    cards_page.click("input[value=elapsed] + span")
    cards_page.wait_drawn()
    assert [at - T0 for at in before] == pytest.approx(cards_page.ranges()["loss"], abs=ROUNDING)
    assert ["20m", "25m", "30m"] == cards_page.js("return metrana.charts.get('loss').plot.ticks.x")


def test_training_metrics_have_a_step_axis(cards_page: Browser) -> None:
    """Over steps the training's charts share the step axis, and the system's stay on time."""
    cards_page.click("input[value=step] + span")
    cards_page.wait_drawn()
    ranges = cards_page.ranges()
    assert [0, 3999] == ranges["loss"] == ranges["lr"]
    assert ranges[GPU][0] >= T0
    cards_page.drag("loss", 0.5, 0.75)
    zoomed = cards_page.ranges()
    assert zoomed["lr"] == zoomed["loss"] == pytest.approx([2000, 3000], abs=40)
    assert ranges[GPU] == zoomed[GPU]


def test_two_runs_are_overlaid(cards_page: Browser) -> None:
    """A second run is drawn over the first from their beginnings, dashed, and goes again."""
    cards_page.click("#runs li[data-run=one-id] .over")
    cards_page.wait_js("metrana.runs.length === 2", "two runs")
    cards_page.wait_js("metrana.isElapsed && document.body.dataset.state === 'drawn'", "elapsed time")
    first, second = cards_page.lines("loss")
    assert (["cards"], ["one"]) == (first["title"], second["title"])
    assert ("solid", "dashed") == (first["dash"], second["dash"])
    assert first["x"][0] == pytest.approx(0, abs=20) and second["x"][0] == pytest.approx(0, abs=20)
    assert first["color"] != second["color"]
    assert "with=one-id" in cards_page.driver.current_url
    cards_page.click("#runs li[data-run=one-id] .over")
    cards_page.wait_js("metrana.runs.length === 1", "one run")
    cards_page.wait_drawn()
    assert 1 == len(cards_page.lines("loss"))


def test_runs_are_filtered_by_text(cards_page: Browser) -> None:
    """The list shows the runs whose name, project, id or host has all the words."""
    cards_page.type("#search", "node1 car")
    assert "1 of 2 runs" == cards_page.text("#counts")
    assert ["cards-id"] == cards_page.js(
        "return [...document.querySelectorAll('#runs li')].map((one) => one.dataset.run)"
    )


@pytest.mark.parametrize("size", [PHONE, (320, 640), (1366, 768)])
def test_nothing_is_wider_than_the_screen(browser: Browser, cards: Server, size: tuple[int, int]) -> None:
    """On a laptop and on a phone the page scrolls only down, and on a phone the list opens by a button."""
    browser.open(f"{cards.url}#run=cards-id", size)
    assert browser.js("return document.documentElement.scrollWidth") <= size[0]
    if size[0] < 700:
        assert not browser.js("return document.getElementById('runs').checkVisibility()")
        browser.click("#toggle")
        browser.click("#runs li[data-run=one-id] .open")
        browser.wait_js("metrana.runs[0].key === 'one-id'", "the other run")
        browser.wait_drawn()


def test_a_live_run_grows(browser: Browser, tmp_path: Path) -> None:
    """A run that a training process is writing is marked, its new points turn up, and only what's new is fetched.

    At the end all is fetched once more: a point may be late beyond any margin.
    """
    script = Script(
        tmp_path,
        """
        import pathlib, time, metrana
        with metrana.init(run_name="live", system_metrics_interval_secs=1.0):
            for second in range(3600, 0, -1):
                metrana.log("loss", 2.0, timestamp=time.time() - second)
            for step in range(100_000):
                metrana.log("loss", 1.0 / (step + 1))
                if pathlib.Path("stop").exists():
                    metrana.log("loss", 77.0, timestamp=time.time() - 1800)
                    break
                time.sleep(0.02)
        """,
    )
    training = script.start()
    try:
        wait_until(script.infos, "the run")
        with Server(script.store) as server:
            browser.open(server.url)
            assert "live" == browser.text("#head .state").strip("● ")
            browser.wait_js("document.querySelector('#runs i.live')", "the mark")
            browser.wait_js("metrana.charts.get('system/memory/used_bytes')?.lines.length", "the memory's chart")
            # What's drawn while the run is read for the first time is fetched once more.
            browser.wait_js("metrana.runs[0].progress === 1", "all of the run")
            newer = "metrana.charts.get('loss').lines[0].x.at(-1) > arguments[0]"
            browser.wait_js(newer, "newer points", browser.lines("loss")[0]["x"][-1])
            # All is fetched again from time to time: not just now.
            browser.js("for (const one of metrana.charts.get('loss').loaded.values()) one.wholeAt = performance.now()")
            browser.take_logs()
            before = browser.lines("loss")[0]["x"]
            browser.wait_js(newer, "newer points", before[-1] + 3)
            after = browser.lines("loss")[0]["x"]
            assert before[:300] == after[:300]
            assert all(earlier < later for earlier, later in pairwise(after))
            loss = browser.js("return metrana.runs[0].metrics.get('loss').series[0].n")
            # A metric that turns up only now is fetched from the beginning.
            starts = [
                question["start"]
                for question in browser.take_logs()[2]
                if any(loss in chart["series"] for chart in question["charts"])
            ]
            assert starts and all(start > before[-1] - 200 for start in starts)
            (tmp_path / "stop").touch()
            browser.wait_js("document.querySelector('#head .state').textContent === 'closed'", "the end")
            late = "Math.max(...metrana.charts.get('loss').lines[0].high) === 77"
            browser.wait_js(late, "a point that came half an hour late")
            assert [] == browser.take_logs()[0]
    finally:
        (tmp_path / "stop").touch()
        out, err = training.communicate(timeout=DEADLINE_SECS)
    assert (0, "", "") == (training.returncode, out, err)
    assert any(why in browser.text("[data-group=gpu]") for why in ("NVIDIA driver", "nvidia-ml-py"))


def test_hostile_names_are_text(browser: Browser, tmp_path: Path) -> None:
    """Names of HTML, quotes, slashes, 5,000 characters, right-to-left text and newlines are shown, and run nothing."""
    put_hostile(tmp_path)
    with Server(tmp_path) as server:
        for index, name in enumerate(HOSTILE):
            browser.open(f"{server.url}#run=hostile{index}")
            start = name.split("\n")[0].lstrip("\u202e").partition("\u202c")[0][:40].strip()
            assert start in browser.text("#head h2")
            assert start in browser.text("#groups .card h3")
            assert start in browser.text("#attributes") or browser.js(
                "return document.getElementById('attributes').textContent.includes(arguments[0])", start
            )
            assert 2 == len(browser.lines(name))
            assert 0 == browser.js(
                "return document.querySelectorAll('main img, main b b, main script, mjx-container').length"
            )
            browser.hover(name, 0.5)
            assert browser.js("return document.documentElement.scrollWidth") <= 1366
        complaints, asked, _ = browser.take_logs()
        assert [] == complaints
        assert all(url.startswith((server.url, "data:", "about:")) for url in asked)


def test_damage_is_told_and_the_rest_is_shown(browser: Browser, tmp_path: Path) -> None:
    """Broken lines, a newer format, values that aren't numbers, times beyond any calendar: said, and drawn around."""
    put_damaged(tmp_path)
    with Server(tmp_path) as server:
        browser.open(f"{server.url}#run=damaged-id")
        assert "5 lines not readable" in browser.text("#problems")
        assert [*map(float, range(20)), 30.0] == browser.lines("loss")[0]["mean"]
        browser.open(f"{server.url}#run=newer-id")
        assert "newer metrana (format 99" in browser.text("#problems")
        assert 20 == len(browser.lines("loss")[0]["x"])
        browser.open(f"{server.url}#run=nan-id")
        assert "NaN" in browser.text("[data-metric=loss] .note")
        for run in ("noise-id", "far-id"):
            browser.open(f"{server.url}#run={run}")
        assert [] == browser.take_logs()[0]


def test_a_server_that_ends_is_told(browser: Browser, cards_store: Path) -> None:
    """Where the server has gone the page says so and keeps what it has drawn."""
    with Server(cards_store) as server:
        browser.open(server.url)
    browser.wait_js("document.getElementById('problems').innerText.includes(\"doesn't answer\")", "the message")
    assert len(browser.lines("loss")[0]["x"]) > 100
    browser.take_logs()
