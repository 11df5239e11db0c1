"""How late samples come while the training thread keeps the interpreter's lock, as a long C call may."""

from __future__ import annotations

import ctypes
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from benchmarks.peers.adapters import Adapter

INTERVAL_SECS = 1.0
HELD_SECS = 5
MARGIN_SECS = 7.0  # before and after; W&B keeps no samples of a shorter run


def measure(adapter: Adapter, folder: str, size: float) -> dict[str, float]:
    adapter.load()
    adapter.open(folder, INTERVAL_SECS)
    time.sleep(max(1.5, MARGIN_SECS * size))
    ctypes.PyDLL(None).sleep(max(2, round(HELD_SECS * size)))  # PyDLL keeps the lock during the call
    time.sleep(max(1.5, MARGIN_SECS * size))
    adapter.close()
    # Not all tools have a grid, so what's told is how far two samples came apart beyond the interval; the last one may
    # be of the close.
    series = max(adapter.read_system(folder).values(), key=len, default=[])[:-1]
    if len(series) < 2:
        raise RuntimeError("no sample of a run as short as this")
    gaps = [later - earlier for earlier, later in zip(series, series[1:])]  # noqa: B905 - one shorter
    return {"late_ms": (max(gaps) - INTERVAL_SECS) * 1e3}
