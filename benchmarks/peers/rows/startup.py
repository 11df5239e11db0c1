"""Import, first init, close, and a second init in the same folder."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from benchmarks.peers.adapters import Adapter

POINTS = 1000


def measure(adapter: Adapter, folder: str, size: float) -> dict[str, float]:
    start = time.perf_counter()
    adapter.load()
    loaded = time.perf_counter()
    adapter.open(folder, 1.0)
    opened = time.perf_counter()
    for index in range(POINTS):
        adapter.log("loss", float(index))
    time.sleep(0.5)  # a training goes on; the child of whatever has one is there
    closing = time.perf_counter()
    adapter.close()
    closed = time.perf_counter()
    adapter.open(folder, 1.0)
    later = time.perf_counter()
    adapter.close()
    return {
        "import_ms": (loaded - start) * 1e3,
        "first_ms": (opened - loaded) * 1e3,
        "close_ms": (closed - closing) * 1e3,
        "later_ms": (later - closed) * 1e3,
    }
