"""Stores as runs leave them, made by hand: cards on several hosts, two runs to compare, hostile names, damage."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path

from tests.unit.store.build import T0, declare, end, head, line, points, put

GIB = 2**30
SPIKE = 977.0
HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "<b>bold</b> & \"quotes\" 'single'",
    "../../etc/passwd",
    "..",
    "$$\\frac{1}{2}$$",
    "line\nbreak\ttab\u0000null",
    "\u202eright to left\u202c שלום",
    "long " + "x" * 4995,
    "{{7*7}} ${7*7} %s %d",
)


def put_cards(
    store: Path,
    run: str = "cards",
    *,
    hosts: int = 2,
    cards: int = 8,
    ticks: int = 400,
    start: float = T0,
    loss: int = 4000,
) -> None:
    """A training on ``hosts`` × ``cards`` GPUs that ticks every 10 s, with one spike of the loss in one point."""
    for host in range(hosts):
        name = f"node{host}"
        numbers = {}
        declarations = []

        def number(
            metric: str, numbers: dict[object, int] = numbers, lines: list[bytes] = declarations, **labels: str
        ) -> int:
            key = (metric, *labels.items())
            if key not in numbers:
                numbers[key] = len(numbers)
                lines.append(declare(numbers[key], metric, **labels))
            return numbers[key]

        rows = []
        for tick in range(ticks):
            t, values = start + tick * 10, {}
            busy = 50 + 45 * math.sin(tick / 40)
            for card in range(cards):
                labels = {"gpu": str(card), "host": name}
                values[number("system/gpu/utilization", **labels)] = max(0.0, min(100.0, busy + card))
                values[number("system/gpu/memory_used_bytes", **labels)] = (20 + card + tick / 100) * GIB
            values[number("system/cpu/utilization", host=name)] = busy / 2 + host
            values[number("system/memory/used_bytes", host=name)] = (3 + tick / 200) * GIB
            rows.append(points(t, tick, values))
        if host == 0:
            for step in range(loss):
                t = start + step * ticks * 10 / loss
                value = SPIKE if step == loss // 3 else 2.5 * math.exp(-step / 900) + 0.05 * math.sin(step)
                rows.append(points(t, step, {number("loss"): value, number("lr"): 1e-3 * (1 - step / loss)}))
        attributes = {f"system/capture/{group}": "ok" for group in ("cpu", "memory", "gpu", "process")}
        attributes["system/capture/disk"] = "the root file system isn't readable"
        attributes["system/capture/gpu/3/power_watts"] = "Not Supported"
        attributes["config/lr"] = 0.001  # type: ignore[assignment]
        lines = [head(run, start, host=name, pid=100 + host), *declarations, line(a=attributes, t=start)]
        put(store, *lines, *rows, end(start + ticks * 10), run=run, writer=f"{name}-{100 + host}-1")


def put_hostile(store: Path) -> None:
    """Each hostile name as a run's, a metric's, a label's and an attribute's."""
    for index, name in enumerate(HOSTILE):
        labels = {name: name, "host": name}
        rows = [points(T0 + tick, tick, {0: float(tick), 1: float(tick), 2: 1.0}) for tick in range(30)]
        put(
            store,
            head(name, T0 + index, id=f"hostile{index}"),
            declare(0, name, **labels),
            declare(1, name, **{**labels, "host": "other"}),
            declare(2, f"system/{name}/utilization", **labels),
            line(a={name: name, "system/capture/gpu": name}, t=T0),
            *rows,
            end(T0 + 30),
            run=f"hostile{index}",
            id=f"hostile{index}",
        )


def put_damaged(store: Path) -> None:
    """A run with broken lines and a torn end, one of a newer format, and one of nothing but noise."""
    good = [points(T0 + tick, tick, {0: float(tick)}) for tick in range(20)]
    broken = [b"not json\n", b'{"t":1,"s":', b"\n", b"\xff\xfe\n", b'{"t":"x","s":1,"i":[0],"v":[1]}\n']
    put(
        store,
        head("damaged"),
        declare(0, "loss"),
        *good,
        *broken,
        points(T0 + 30, 30, {0: 30.0}),
        b'{"t":17',
        run="damaged",
    )
    newer = json.loads(head("newer"))
    newer["v"] = 99
    put(store, line(**newer), declare(0, "loss"), *good, line(z="unknown", t=T0), run="newer")
    put(store, head("nan"), declare(0, "loss"), *(points(T0 + tick, tick, {0: "NaN"}) for tick in range(5)), run="nan")
    put(store, b"noise\n" * 10, run="noise")
    far = [points(t, step, {0: value}) for step, (t, value) in enumerate([(T0, 1e308), (T0 + 1, -1e308), (1e300, 5.0)])]
    put(store, head("far"), declare(0, "loss"), *far, run="far")


def put_many(store: Path, count: int) -> None:
    """Many short runs."""
    for index in range(count):
        put_lines(store, f"run{index:05d}", T0 + index)


def put_lines(store: Path, run: str, start: float, lines: Iterable[bytes] = ()) -> None:
    put(store, head(run, start), declare(0, "loss"), points(start, 0, {0: 1.0}), *lines, end(start + 1), run=run)
