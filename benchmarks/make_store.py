"""Stores to measure with, the same each time: ``python -m benchmarks.make_store FOLDER day|second|runs|nodes``.

``day``     a day of 8 hosts with 8 cards each, a tick every 10 s, a writer per card; and a million points of loss
``second``  the same with a tick every second: 33 million points
``runs``    10,000 short runs
``nodes``   one run of 1,000 hosts with 8 cards each, a writer per card: 8,000 writers, 0.6 GB
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path

from metrana.model import Labels, labels_of
from metrana.store.encoding import encode_columns, encode_declaration, encode_end, encode_values
from metrana.store.layout import FORMAT_VERSION, SEGMENT_BYTES, run_folder, segment_file, writer_folder

T0 = 1767225600.0
DAY_SECS = 86_400
HOSTS = 8
CARDS = 8
METRICS = (
    "system/gpu/utilization",
    "system/gpu/memory_used_bytes",
    "system/gpu/memory_utilization",
    "system/gpu/temperature_celsius",
    "system/gpu/power_watts",
    "system/gpu/sm_clock_mhz",
)
LOSS_POINTS = 1_000_000
NODES = 1_000
NODE_SECS = 20_400
NAMES = ("default", "default", "bench")


def head(run: str, run_id: str, host: str, pid: int, rank: int, timestamp: float) -> str:
    """The head of a segment, as the writer's."""
    names = dict(zip(("organization", "workspace_name", "project_name"), NAMES, strict=True))
    return json.dumps(
        {
            "v": FORMAT_VERSION,
            "run": {"id": run_id, **names, "run_name": run, "orchestration_id": run_id},
            "writer": {"host": host, "pid": pid, "pid_start": 1, "rank": rank},
            "t": timestamp,
        },
        separators=(",", ":"),
    )


def write_segments(folder: Path, first: str, declarations: list[str], lines: Iterable[str]) -> None:
    """Lines in segments of the size at which the writer begins the next one."""
    folder.mkdir(parents=True)
    lines = iter(lines)
    for number in itertools.count(1):
        size = 0
        with open(folder / segment_file(number), "w", encoding="ascii") as file:
            size += file.write("".join(f"{line}\n" for line in (first, *declarations)))
            for line in lines:
                size += file.write(f"{line}\n")
                if size >= SEGMENT_BYTES:
                    break
            else:
                return


def make_ticks(rng: random.Random, interval_secs: float, start: float, length_secs: float = DAY_SECS) -> Iterator[str]:
    """A card's lines: six values that look like a card's."""
    numbers = ",".join(str(number) for number in range(1, len(METRICS) + 1))
    memory, total = 60.0 * 2**30, 80.0 * 2**30
    for step in range(round(length_secs / interval_secs)):
        busy = rng.random() < 0.97
        utilization = float(rng.randint(85, 100)) if busy else float(rng.randint(0, 30))
        power = round(120.0 + 5.2 * utilization + rng.random() * 20, 3)
        clock = 1980.0 if busy else 345.0
        values = [utilization, memory, memory / total * 100, 40.0 + utilization // 4, power, clock]
        text = encode_values(values)
        yield f'{{"t":{start + step * interval_secs!r},"s":{step},"i":[{numbers}],"v":{text}}}'


def make_loss(rng: random.Random, number: int) -> Iterator[str]:
    """A million points of a loss in columns of a thousand, as a loop without a pause leaves them."""
    loss = 2.5
    for first in range(0, LOSS_POINTS, 1000):
        points = []
        for step in range(first, first + 1000):
            loss = loss * 0.999998 + rng.random() * 1e-6
            points.append((T0 + step * DAY_SECS / LOSS_POINTS, step, "loss", loss))
        yield encode_columns(number, points)


def make_day(store: Path, interval_secs: float) -> None:
    """The run ``day``."""
    run = store / run_folder(*NAMES, "day", "da1")
    for rank in range(HOSTS * CARDS):
        rng = random.Random(rank)
        host, card = f"node{rank // CARDS}", rank % CARDS
        labels: Labels = labels_of({"host": host, "gpu": str(card)})
        declarations = [encode_declaration((name, labels), number) for number, name in enumerate(METRICS, 1)]
        start = T0 + rng.random() * interval_secs
        lines: Iterable[str] = make_ticks(rng, interval_secs, start)
        if rank == 0:
            declarations.append(encode_declaration("loss", len(METRICS) + 1))
            lines = itertools.chain(make_loss(rng, len(METRICS) + 1), lines)
        folder = run / writer_folder(host, 1000 + rank, int(T0 * 1e9))
        first = head("day", "da1", host, 1000 + rank, rank, T0)
        write_segments(folder, first, declarations, itertools.chain(lines, [encode_end("closed", T0 + DAY_SECS)]))


def make_runs(store: Path, count: int = 10_000) -> None:
    """Many runs of one writer and a few points."""
    rng = random.Random(0)
    steps = array("d", (rng.random() for _ in range(20)))
    for index in range(count):
        start = T0 + index * 60.0
        run_id = f"{index:016x}"
        lines = [f'{{"t":{start + step!r},"s":{step},"i":[1],"v":[{value!r}]}}' for step, value in enumerate(steps)]
        write_segments(
            store / run_folder(*NAMES, f"run-{index}", run_id) / writer_folder("node0", 1000, int(start * 1e9)),
            head(f"run-{index}", run_id, "node0", 1000, 0, start),
            [encode_declaration("loss", 1)],
            [*lines, encode_end("closed", start + 20.0)],
        )


def make_nodes(store: Path) -> None:
    """The run ``nodes``: as many writers as a large job has, each closed, with a tick every 30 s of some hours."""
    run = store / run_folder(*NAMES, "nodes", "n0de5")
    numbers = range(1, len(METRICS) + 1)
    for rank in range(NODES * CARDS):
        host, card = f"node{rank // CARDS}", rank % CARDS
        labels: Labels = labels_of({"host": host, "gpu": str(card)})
        declarations = [
            encode_declaration((name, labels), number) for number, name in zip(numbers, METRICS, strict=True)
        ]
        ticks = make_ticks(random.Random(rank), 30.0, T0 + rank * 1e-3, NODE_SECS)
        folder = run / writer_folder(host, 1000 + rank, int(T0 * 1e9))
        first = head("nodes", "n0de5", host, 1000 + rank, rank, T0)
        write_segments(folder, first, declarations, itertools.chain(ticks, [encode_end("closed", T0 + NODE_SECS)]))


STORES = {
    "day": lambda folder: make_day(folder, 10.0),
    "second": lambda folder: make_day(folder, 1.0),
    "runs": make_runs,
    "nodes": make_nodes,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("kind", choices=STORES)
    args = parser.parse_args()
    STORES[args.kind](args.folder)


if __name__ == "__main__":
    main()
