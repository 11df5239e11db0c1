"""The picture of the page in README and docs, the same each time: ``python -m tests.ui.picture docs/images/ui.png``."""

from __future__ import annotations

import argparse
import base64
import math
import random
import tempfile
from pathlib import Path

from tests.ui.browser import Browser
from tests.ui.serving import Server
from tests.unit.store.build import declare, end, head, points, put

START = 1767315600.0  # 2026-01-02 01:00 UTC
SECS = 6400
TICK_SECS = 10
CARDS = 8
GIB = 2**30
SHOWN_STORE = "/srv/train/.metrana"
SIZE = (1280, 900)
GPU = {
    "utilization": lambda busy, card, rng: min(100.0, 95 * busy + rng.gauss(0, 2)),
    "memory_used_bytes": lambda busy, card, rng: (62 + 5 * busy + card / 3) * GIB,
    "temperature_celsius": lambda busy, card, rng: 42 + 24 * busy + card / 2 + rng.gauss(0, 0.2),
    "power_watts": lambda busy, card, rng: 110 + 520 * busy + 4 * card + rng.gauss(0, 8),
}
INERTIA = {"memory_used_bytes": 0.03, "temperature_celsius": 0.12}  # how much of the way they go in a tick
OTHERS = {"tokenizer-64k": (-50_000, 900), "sweep lr=1e-3": (-70_000, 2000), "pretrain-7b": (-30_000, 6100)}


def busy_at(secs: float) -> float:
    """How busy the cards are: a checkpoint each quarter of an hour, and a while of slow input."""
    if secs % 900 > 885:
        return 0.03
    return 0.45 if 3000 < secs < 3600 else 1.0


def put_training(store: Path) -> None:
    rng = random.Random(7)
    names = [("loss", {}), ("grad_norm", {})]
    names += [(f"system/gpu/{name}", {"gpu": str(card), "host": "trainer"}) for name in GPU for card in range(CARDS)]
    lines = [head("pretrain-7b", START, id="6c497737a32abb84", project="llm", host="trainer")]
    lines += [declare(number, name, **labels) for number, (name, labels) in enumerate(names)]
    before = dict.fromkeys(GPU, 0.3)
    for secs in range(0, SECS, TICK_SECS):
        for step in range(secs, secs + TICK_SECS):
            spike = 3.0 if step == 4210 else 0.0
            loss = 1.2 + 9 / (1 + step / 300) + rng.gauss(0, 0.03) + spike / 2
            values = {0: loss, 1: 0.6 + 3 * math.exp(-step / 600) + rng.gauss(0, 0.05) + spike}
            lines.append(points(START + step, step, values))
        for name, busy in before.items():
            target = 1.0 if name == "memory_used_bytes" else busy_at(secs)
            before[name] = busy + (target - busy) * INERTIA.get(name, 1.0)
        ticked = [measure(before[name], card, rng) for name, measure in GPU.items() for card in range(CARDS)]
        lines.append(points(START + secs, secs // TICK_SECS, dict(enumerate(ticked, 2))))
    put(store, *lines, end(START + SECS), run="pretrain-7b", id="6c497737a32abb84")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder, "store")
        put_training(store)
        for number, (name, (at, secs)) in enumerate(OTHERS.items()):
            lines = [head(name, START + at, id=f"id{number}", project="llm"), declare(0, "loss")]
            put(store, *lines, points(START + at, 0, {0: 1.0}), end(START + at + secs), run=name, id=f"id{number}")
        browser = Browser(Path(folder, "chromium"))
        try:
            with Server(store) as server:
                browser.open(server.url, SIZE)
                browser.js("document.getElementById('store').textContent = arguments[0]", SHOWN_STORE)
                shot = browser.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
        finally:
            browser.close()
    args.file.write_bytes(base64.b64decode(shot["data"]))


if __name__ == "__main__":
    main()
