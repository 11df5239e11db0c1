"""Medians: of a call's CPU time here, and of what a snippet tells in many fresh interpreters."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

ROUNDS = 200
CALLS = 20
PRELUDE = """
import json, os, sys, time
def rss_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
def tell(**figures):
    print(json.dumps(figures))
"""


def cpu_us(call: Callable[[], object], rounds: int = ROUNDS, calls: int = CALLS) -> float:
    """The median CPU time of one call in microseconds, over ``rounds`` of ``calls`` calls each."""
    call()
    times = []
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(calls):
            call()
        times.append((time.process_time() - start) / calls)
    return statistics.median(times) * 1e6


def run_many(snippet: str, runs: int, *flags: str) -> dict[str, list[float]]:
    """The figures that a snippet tells, one list a figure, from ``runs`` fresh interpreters."""
    figures: dict[str, list[float]] = {}
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, *flags, "-c", PRELUDE + snippet, folder],
                check=True,
                capture_output=True,
                text=True,
                timeout=300,
                cwd=folder,
            )
        for name, value in json.loads(done.stdout.splitlines()[-1]).items():
            figures.setdefault(name, []).append(value)
    return figures


def report(title: str, values: list[float], unit: str, limit: float | None = None) -> None:
    """One line: the median, the spread, and the limit that's promised."""
    median = statistics.median(values)
    promise = f"   at most {limit:g} {unit}" if limit is not None else ""
    print(f"{title:<58} {median:9.3f} {unit:<4} (from {min(values):.3f} to {max(values):.3f}){promise}", flush=True)
