"""What agreeing on who reports what costs a tick: sixty-four ranks with a folder of lock files and eight cards.

Prints medians of CPU time, for the node's reporter, for a rank that drives a card, and for one that reports nothing.
Each rank has files of its own, so in one process they stand for sixty-four.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import CALLS, ROUNDS, cpu_us
from metrana.system.claims import Claims
from metrana.system.devices import Device, resolve

RANKS = 64
CARDS = 8


def main() -> None:
    devices = [Device(index, f"GPU-{index:08x}-1111-2222-3333-444444444444") for index in range(CARDS)]
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        ranks = []
        for rank in range(RANKS):
            owner = {"pid": 1000 + rank, "child": 2000 + rank, "rank": rank, "host": "node7"}
            ranks.append(Claims("0123456789abcdef", [("shm", folder)], owner, time.monotonic, 0.0, 2.0))
        resolutions = [resolve({"LOCAL_RANK": str(rank)} if rank < CARDS else {}, devices) for rank in range(RANKS)]

        def tick(rank: int) -> None:
            ranks[rank].tick(False)
            ranks[rank].choose(resolutions[rank], devices)

        for rank in range(RANKS):
            ranks[rank].choose(resolutions[rank], devices)
        for rank in range(RANKS):
            tick(rank)
        reporter = next(rank for rank in range(RANKS) if ranks[rank].holds_node)
        rows = (
            ("node's reporter", reporter),
            ("rank that reports a card", (reporter + 1) % CARDS),
            ("rank that reports nothing", RANKS - 1),
        )
        state = {"cpu": [time.monotonic(), [12345.678, 123456.78], ["quota", "/sys/fs/cgroup", "cpu.stat", False]]}
        for name, rank in rows:
            print(f"claims of a tick, {name:<25} {cpu_us(lambda rank=rank: tick(rank)):7.1f} us")  # type: ignore[misc]
        print(f"{'handing down the CPU counters':<43} {cpu_us(lambda: ranks[reporter].hand_down(state)):7.1f} us")
        for claims in ranks:
            claims.release()
    print(f"{RANKS} ranks, {CARDS} cards, {os.cpu_count()} CPUs, Python {sys.version.split()[0]}, ", end="")
    print(f"medians of {ROUNDS} x {CALLS}")


if __name__ == "__main__":
    main()
