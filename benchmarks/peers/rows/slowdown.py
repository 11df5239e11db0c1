"""How much slower a loop of pure Python gets once the system is sampled each second, and how long it stands still."""

from __future__ import annotations

import threading
import time
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from benchmarks.peers.adapters import Adapter

BEFORE_SECS = 3.0
SETTLE_SECS = 2.0
AFTER_SECS = 6.0
TURN = 20_000


class Loop(NamedTuple):
    """Seconds of a turn, and which part of its time the loop stood still though a processor was to be had."""

    turn_secs: float
    still: float


def measure(adapter: Adapter, folder: str, size: float) -> dict[str, float]:
    adapter.load()
    train(BEFORE_SECS * size)
    before = train(BEFORE_SECS * size)
    adapter.open(folder, 1.0)
    train(SETTLE_SECS * size)
    after = train(AFTER_SECS * size)
    adapter.close()
    return {
        "slower_percent": (after.turn_secs / before.turn_secs - 1) * 100,
        "still_percent": after.still * 100,
    }


def train(secs: float) -> Loop:
    """Run the loop for that time."""
    turns = total = 0
    ran, waited = read_schedule()
    start = now = time.perf_counter()
    while now < start + secs:
        for number in range(TURN):
            total += number * number % 7
        turns += 1
        now = time.perf_counter()
    ran_later, waited_later = read_schedule()
    passed = now - start
    return Loop(passed / turns, max(0.0, passed - (ran_later - ran) - (waited_later - waited)) / passed)


def read_schedule() -> tuple[float, float]:
    """Seconds that this thread ran, and that it waited for a processor. https://docs.kernel.org/scheduler/sched-stats.html"""
    with open(f"/proc/self/task/{threading.get_native_id()}/schedstat") as file:
        ran, waited, _ = file.read().split()
    return int(ran) / 1e9, int(waited) / 1e9
