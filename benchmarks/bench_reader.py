"""What looking at runs costs: a long run opened for the first and the second time, its charts, exports, many runs.

Makes its stores in a temp folder first, which takes a minute and 0.9 GB: ``python -m benchmarks.bench_reader``.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import report, run_many

FIND = """
import resource
from metrana.store.catalog import find_run
from metrana.store.index import RunIndex
info = find_run({store!r}, "day")
"""

FIRST_CHART = """
start = time.perf_counter()
index = RunIndex.open(info, budget_secs=0.2)
while not any(series.name == "loss" for series in index.series):
    index.refresh(budget_secs=0.2)
(loss,) = [series for series in index.series if series.name == "loss"]
index.buckets(loss)
first = time.perf_counter() - start
while index.progress < 1.0:
    index.refresh(budget_secs=0.2)
whole = time.perf_counter() - start
tell(first_secs=first, whole_secs=whole)
"""

FIRST = """
start = time.perf_counter()
index = RunIndex.open(info)
tell(secs=time.perf_counter() - start, points=sum(series.count for series in index.series))
"""

SECOND = """
start = time.perf_counter()
index = RunIndex.open(info)
opened = time.perf_counter() - start
start = time.perf_counter()
index.refresh()
refreshed = time.perf_counter() - start
cards = [series for series in index.series if series.name == "system/gpu/utilization"]
(loss,) = [series for series in index.series if series.name == "loss"]
begin, end = cards[0].first_time, cards[0].last_time
def measure(draw):
    start = time.perf_counter()
    draw()
    return (time.perf_counter() - start) * 1e3
bands = [measure(lambda: index.band(cards, begin, end, 1000)) for _ in range(5)]
zooms = [
    measure(lambda: index.band(cards, begin + length * part, begin + length * (part + 1), 1000))
    for length in (43_200, 3_600, 60)
    for part in range(2)
]
tell(
    open_ms=opened * 1e3,
    refresh_ms=refreshed * 1e3,
    first_band_ms=bands[0],
    band_ms=sorted(bands)[2],
    zoom_ms=max(zooms),
    loss_ms=measure(lambda: index.buckets(loss, begin, end, 1000)),
    peak_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
)
"""

RUNS = """
start = time.perf_counter()
import contextlib, io
from metrana.cli import main
with contextlib.redirect_stdout(io.StringIO()) as out:
    main(["runs", "--dir", {store!r}])
assert out.getvalue().count("\\n") == 10_001
tell(secs=time.perf_counter() - start)
"""

NODES = """
start = time.perf_counter()
from metrana.cli import main
main(["runs", "--dir", {store!r}])
tell(secs=time.perf_counter() - start)
"""

EXPORT = """
start = time.perf_counter()
from metrana.cli import main
main(["export", "day", "loss", "--dir", {store!r}, "--output", sys.argv[1] + "/out.{format}"])
tell(secs=time.perf_counter() - start)
"""


def forget_index(store: Path) -> None:
    for folder in store.rglob(".index"):
        shutil.rmtree(folder)


def run_first(store: Path, snippet: str, runs: int) -> dict[str, list[float]]:
    """A snippet in fresh interpreters, none of which finds an index."""
    figures: dict[str, list[float]] = {}
    for _ in range(runs):
        forget_index(store)
        for name, values in run_many(FIND.format(store=str(store)) + snippet, 1).items():
            figures.setdefault(name, []).extend(values)
    return figures


def measure_day(store: Path) -> None:
    figures = run_first(store, FIRST, 5)
    report(f"first opening of {figures['points'][0] / 1e6:.1f} million points", figures["secs"], "s", 2.5)
    figures = run_first(store, FIRST_CHART, 5)
    report("its first chart", figures["first_secs"], "s", 2.0)
    for form in ("csv", "jsonl", "parquet"):
        snippet = EXPORT.format(store=str(store), format=form)
        report(f"export of a million points as {form}", run_many(snippet, 3)["secs"], "s")


def measure_second(store: Path) -> None:
    figures = run_first(store, FIRST, 2)
    report(f"first opening of {figures['points'][0] / 1e6:.1f} million points", figures["secs"], "s")
    figures = run_many(FIND.format(store=str(store)) + SECOND, 5)
    report("its second opening", figures["open_ms"], "ms", 1000)
    report("a look whether it grew", figures["refresh_ms"], "ms", 20)
    report("a band of 64 series, 5.5 million points, the first", figures["first_band_ms"], "ms", 100)
    report("the same once more", figures["band_ms"], "ms", 100)
    report("the slowest of six zooms", figures["zoom_ms"], "ms", 100)
    report("a million points of one series", figures["loss_ms"], "ms", 100)
    report("most memory that process took", figures["peak_mb"], "MB", 1000)


def measure_runs(store: Path) -> None:
    report("metrana runs over 10,000 runs", run_many(RUNS.format(store=str(store)), 5)["secs"], "s", 2.0)


def measure_nodes(store: Path) -> None:
    snippet = NODES.format(store=str(store))
    report("metrana runs over 8,000 writers, the first time", run_many(snippet, 1)["secs"], "s")
    report("the second time", run_many(snippet, 7)["secs"], "s", 0.5)
    with open(next(store.rglob("*.jsonl")), "a", encoding="ascii") as file:
        file.write("\n")
    report("after one of them grew", run_many(snippet, 1)["secs"], "s", 0.5)


def main() -> None:
    measures = {"day": measure_day, "second": measure_second, "runs": measure_runs, "nodes": measure_nodes}
    for kind, measure in measures.items():
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "benchmarks.make_store", folder + "/store", kind]
            subprocess.run(command, check=True, timeout=600, cwd=Path(__file__).parents[1])
            measure(Path(folder) / "store")


if __name__ == "__main__":
    main()
