"""What metrana costs the training process: import, init(), memory, log(), one second's sampling."""

from __future__ import annotations

from benchmarks.measure import report, run_many

IMPORT = """
start = time.perf_counter()
import metrana
secs = time.perf_counter() - start
heavy = [name for name in ("psutil", "pynvml", "numpy", "portalocker") if name in sys.modules]
assert not heavy, heavy
tell(import_ms=secs * 1e3)
"""

INIT = """
before = rss_bytes()
import metrana
start = time.perf_counter()
run = metrana.init(dir=sys.argv[1], run_name="first")
first = time.perf_counter() - start
metrana.log("loss", 1.0)
time.sleep(1.0)
grown = rss_bytes() - before
metrana.close()
later = []
for index in range(10):
    start = time.perf_counter()
    metrana.init(dir=sys.argv[1], run_name=f"later{index}")
    later.append(time.perf_counter() - start)
    metrana.close()
tell(first_ms=first * 1e3, later_ms=sorted(later)[5] * 1e3, grown_mb=grown / 1e6)
"""

LOG = """
import metrana
run = metrana.init(dir=sys.argv[1], run_name="log", capture_system_metrics=False)
log, values = metrana.log, [float(i) for i in range(1_000_000)]
log("loss", 0.0)
start = time.perf_counter()
for value in values:
    log("loss", value)
secs = time.perf_counter() - start
metrana.close()
start = time.perf_counter()
from metrana.store.reader import open_run
points = len(open_run(sys.argv[1], run.id).series["loss", ()].values)
assert points == 1_000_001, points
tell(log_us=secs)
"""

SAMPLING = """
import threading
import metrana
run = metrana.init(dir=sys.argv[1], run_name="tick", system_metrics_interval_secs=1.0)
def child_secs():
    tasks = [entry for entry in os.listdir("/proc") if entry.isdigit()]
    for pid in tasks:
        try:
            with open(f"/proc/{pid}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
            if int(fields[1]) == os.getpid():
                with open(f"/proc/{pid}/schedstat") as file:
                    total = 0
                for task in os.listdir(f"/proc/{pid}/task"):
                    with open(f"/proc/{pid}/task/{task}/schedstat") as file:
                        total += int(file.read().split()[0])
                return total / 1e9
        except (OSError, ValueError, IndexError):
            pass
time.sleep(4.5)  # past the start: the attributes are written, and the first samples taken
child = child_secs()
parent = time.process_time()
time.sleep(12)
parent, child = time.process_time() - parent, child_secs() - child
metrana.close()
tell(parent_ms=parent * 1e3 / 12, child_ms=child * 1e3 / 12)
"""

GRID = """
import ctypes
import metrana
run = metrana.init(dir=sys.argv[1], run_name="grid", system_metrics_interval_secs=1.0)
time.sleep(2)
for _ in range(2):
    ctypes.PyDLL(None).sleep(5)  # keeps the interpreter's lock
metrana.close()
from metrana.store.reader import open_run
series = open_run(sys.argv[1], run.id).series
(times,) = [s.timestamps for (name, _), s in series.items() if name.endswith("total_bytes")]
late = [(t - times[0]) - round(t - times[0]) for t in times[:-1]]
tell(off_ms=max(map(abs, late)) * 1e3, ticks=len(times))
"""


def main() -> None:
    run_many(IMPORT, 2)  # the first one compiles
    report("import metrana, over a bare interpreter", run_many(IMPORT, 20)["import_ms"], "ms", 40)
    figures = run_many(INIT, 10)
    report("first init()", figures["first_ms"], "ms", 20)
    report("later init()", figures["later_ms"], "ms", 5)
    report("growth of the training process", figures["grown_mb"], "MB", 8)
    report("log(), over a million calls, store and all", run_many(LOG, 3)["log_us"], "us", 2.5)
    figures = run_many(SAMPLING, 3)
    report("one second's sampling, training process", figures["parent_ms"], "ms", 0.2)
    report("one second's sampling, child", figures["child_ms"], "ms", 1.5)
    report("furthest tick off its grid, the interpreter held", run_many(GRID, 3)["off_ms"], "ms", 20)


if __name__ == "__main__":
    main()
