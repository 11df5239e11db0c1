"""A million points of a loss: the room they take, and the time it takes to read them in a fresh interpreter."""

from __future__ import annotations

import math
import subprocess
import sys
import time

from benchmarks.peers.adapters import NotOfferedError
from benchmarks.peers.child import parse_figures
from benchmarks.peers.fresh import command_of
from benchmarks.peers.processes import folder_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from benchmarks.peers.adapters import Adapter

POINTS = 1_000_000
CHUNK = 10_000
WRITE_SECS = 30.0  # where it would take longer, the figures are of fewer points
DEADLINE_SECS = 120.0


def measure(adapter: Adapter, folder: str, size: float) -> dict[str, Any]:
    name = type(adapter).__module__.rpartition(".")[2]
    adapter.load()
    adapter.open(folder, None)
    points, limit, end = 0, round(POINTS * size), time.monotonic() + WRITE_SECS * size
    while points < limit and time.monotonic() < end:
        steps = range(points, points + CHUNK)
        adapter.log_series("loss", [2.5 * math.exp(-step / 3e5) + math.sin(step * 0.7) * 0.01 for step in steps])
        points += CHUNK
    adapter.close()
    figures: dict[str, Any] = {"point_bytes": folder_bytes(folder) / points}
    if points < limit:
        figures["points"] = points
    command = command_of(sys.executable, "stored", name, folder, str(size), "read")
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=DEADLINE_SECS, check=True, text=True)
    read: Any = parse_figures(done.stdout)
    if isinstance(read.get("read_secs"), str):
        return {**figures, **read}
    if read["points"] != points:
        raise RuntimeError(f"read {read['points']} of {points} points")
    return {**figures, "read_secs": read["read_secs"] / points * POINTS}


def read(adapter: Adapter, folder: str, size: float) -> dict[str, Any]:
    """Seconds that reading takes, the imports not counted."""
    adapter.load()
    start = time.perf_counter()
    try:
        points = adapter.read(folder, "loss")
    except NotOfferedError as error:
        return {"read_secs": str(error)}
    return {"read_secs": time.perf_counter() - start, "points": points}
