"""A real headless Chromium with the page in it: what a user does there, and what's then drawn."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.scripts import wait_until

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)
LAPTOP = (1366, 768)
PHONE = (390, 844)


def missing_browser() -> str:
    """Why there's no browser to test with, or nothing."""
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "selenium isn't installed: pip install selenium"
    for command in ("chromium", "chromedriver"):
        if shutil.which(command) is None:
            return f"no {command} here (on Debian: apt-get install chromium chromium-driver)"
    return ""


class Browser:
    """Chromium with one page."""

    def __init__(self, folder: Path) -> None:
        from selenium import webdriver
        from selenium.webdriver.chrome.options import Options
        from selenium.webdriver.chrome.service import Service

        options = Options()
        options.binary_location = str(shutil.which("chromium"))
        for flag in (*FLAGS, f"--user-data-dir={folder}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver: Any = webdriver.Chrome(options=options, service=Service(str(shutil.which("chromedriver"))))
        self.driver.set_script_timeout(30)
        self.driver.set_page_load_timeout(30)

    def close(self) -> None:
        self.driver.quit()

    def open(self, url: str, size: tuple[int, int] = LAPTOP, *, dark: bool = False) -> None:
        """A page, and wait until its charts are drawn."""
        self.driver.get("about:blank")  # a change of the fragment alone wouldn't load it again
        self.take_logs()
        width, height = size
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == PHONE}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        self.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "UTC"})
        self.driver.get(url)
        self.wait_drawn()

    def js(self, script: str, *arguments: object) -> Any:
        return self.driver.execute_script(script, *arguments)

    def wait_drawn(self) -> None:
        wait_until(lambda: self.js("return document.body.dataset.state") == "drawn", "the charts to be drawn")

    def wait_js(self, condition: str, what: str, *arguments: object) -> None:
        wait_until(lambda: self.js(f"return Boolean({condition})", *arguments), what)

    def click(self, selector: str) -> None:
        self.driver.find_element("css selector", selector).click()

    def type(self, selector: str, text: str) -> None:
        self.driver.find_element("css selector", selector).send_keys(text)

    def text(self, selector: str = "body") -> str:
        return str(self.js("return document.querySelector(arguments[0])?.innerText ?? ''", selector))

    def card(self, metric: str) -> Any:
        """A metric's card, scrolled into view and drawn."""
        card = self.js("return metrana.charts.get(arguments[0])?.element", metric)
        assert card is not None, f"no chart of {metric}"
        self.js("arguments[0].scrollIntoView({block: 'center'})", card)
        self.wait_drawn()
        return card

    def lines(self, metric: str) -> list[dict[str, Any]]:
        """The lines of a chart as they're drawn: x, mean, low and high, title and colour."""
        script = """return metrana.charts.get(arguments[0]).lines.map((line) => ({
            x: [...line.x], mean: [...line.mean], low: [...line.low], high: [...line.high],
            title: line.title, color: line.color, dash: line.dash, band: line.isBand}))"""
        found: list[dict[str, Any]] = self.js(script, metric)
        return found

    def ranges(self) -> dict[str, list[float]]:
        """What each figure shows of its x axis, by metric."""
        found: dict[str, list[float]] = self.js(
            "return Object.fromEntries([...metrana.charts].map(([name, {plot}]) => [name, [plot.x.start, plot.x.end]]))"
        )
        return found

    def y_range(self, metric: str) -> list[float]:
        found: list[float] = self.js(
            "const {plot} = metrana.charts.get(arguments[0]); return [plot.y.start, plot.y.end]", metric
        )
        return found

    def drag(self, metric: str, start: float, end: float) -> None:
        """Drag over a chart from one share of its width to another, and wait for what that draws."""
        from selenium.webdriver.common.action_chains import ActionChains

        self.card(metric)
        overlay = self.js("return metrana.charts.get(arguments[0]).overlay", metric)
        frame = self.js("return metrana.charts.get(arguments[0]).plot.frame", metric)
        width = self.js("return arguments[0].clientWidth", overlay)
        at = [frame["left"] + share * frame["width"] - width / 2 for share in (start, end)]
        before = self.js("return metrana.drawing")
        chain = ActionChains(self.driver).move_to_element_with_offset(overlay, round(at[0]), 0).click_and_hold()
        chain.move_to_element_with_offset(overlay, round(at[1]), 0).release().perform()
        self.wait_js("metrana.drawing > arguments[0]", "the zoom", before)
        self.wait_drawn()

    def hover(self, metric: str, share: float) -> None:
        from selenium.webdriver.common.action_chains import ActionChains

        self.card(metric)
        overlay = self.js("return metrana.charts.get(arguments[0]).overlay", metric)
        frame = self.js("return metrana.charts.get(arguments[0]).plot.frame", metric)
        offset = frame["left"] + share * frame["width"] - self.js("return arguments[0].clientWidth", overlay) / 2
        ActionChains(self.driver).move_to_element_with_offset(overlay, round(offset), 0).perform()

    def shown_colors(self, metric: str) -> dict[tuple[int, ...], int]:
        """The colours on the screen within a chart's card, and how many pixels have each."""
        from PIL import Image

        image = Image.open(io.BytesIO(self.card(metric).screenshot_as_png)).convert("RGB")
        return {color: count for count, color in image.getcolors(1 << 20) or []}

    def take_logs(self) -> tuple[list[str], list[str], list[dict[str, Any]]]:
        """What the page complained of, the addresses it asked, and its questions for points; since the last look."""
        complaints = [
            entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")
        ]
        asked, questions = [], []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                request = message["params"]["request"]
                asked.append(request["url"])
                if request["url"].endswith("/api/points") and "postData" in request:
                    questions.append(json.loads(request["postData"]))
        return complaints, asked, questions


def skip_without_browser() -> None:
    missing = missing_browser()
    if missing:
        pytest.skip(missing)
