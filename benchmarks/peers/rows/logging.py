"""How long log() keeps the training, called without a pause."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.peers.adapters import Adapter

SECS = 2.0
CALLS = 100_000
TURN = 50  # calls between two looks at the clock


def measure(adapter: Adapter, folder: str, size: float) -> dict[str, float]:
    adapter.load()
    adapter.open(folder, None)
    ten = {f"metric{index}": 0.5 + index for index in range(10)}
    adapter.log("loss", 0.1)
    adapter.log_many(ten)
    log, log_many = adapter.log, adapter.log_many
    figures = {
        "one_us": time_calls(lambda value: log("loss", value), size),
        "ten_us": time_calls(lambda value: log_many({**ten, "metric0": value}), size),
    }
    adapter.close()
    return figures


def time_calls(call: Callable[[float], None], size: float) -> float:
    """Microseconds of one call, of up to CALLS."""
    calls, limit, end = 0, CALLS * size, time.perf_counter() + SECS * size
    start = now = time.perf_counter()
    while calls < limit and now < end:
        for index in range(TURN):
            call(index * 0.37)
        calls += TURN
        now = time.perf_counter()
    return (now - start) / calls * 1e6
