"""What sampling once a second takes from a training process that's otherwise idle, and from the machine."""

from __future__ import annotations

import os
import time

from benchmarks.peers.processes import TOKEN, cpu_secs, find_processes, rss_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from benchmarks.peers.adapters import Adapter

INTERVAL_SECS = 1.0
SETTLE_SECS = 4.5  # the start is over, and the first samples are taken
WINDOW_SECS = 12.0


def measure(adapter: Adapter, folder: str, size: float) -> dict[str, float]:
    token = os.environ[TOKEN]
    before = rss_bytes()
    adapter.load()
    adapter.open(folder, INTERVAL_SECS)
    adapter.log("loss", 1.0)
    time.sleep(SETTLE_SECS * max(size, 0.4))
    grown = rss_bytes() - before
    window_secs = max(2.0, WINDOW_SECS * size)
    started = time.time()
    others, own = others_secs(token), time.process_time()
    time.sleep(window_secs)
    own = time.process_time() - own
    others = others_secs(token) - others
    ended = time.time()
    time.sleep(INTERVAL_SECS)  # what was sampled last gets to the disk
    adapter.close()
    series = adapter.read_system(folder)
    samples = window_secs / INTERVAL_SECS
    values = sum(started <= at < ended for times in series.values() for at in times)
    if not values:
        raise RuntimeError(f"no sample within {window_secs:.0f} s")
    return {
        "rss_mb": grown / 1e6,
        "own_ms": own / samples * 1e3,
        "all_ms": (own + others) / samples * 1e3,
        "values": values / samples,
    }


def others_secs(token: str) -> float:
    """CPU time of the tool's other processes."""
    return sum(cpu_secs(pid) for pid in find_processes(token))
