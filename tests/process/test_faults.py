"""A driver that crashes, exits or hangs: the training doesn't notice, the other charts go on, and the run says why."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from metrana.store.reader import StoredRun
from tests.fake_driver import FakeDriver
from tests.scripts import DEADLINE_SECS, Script, is_alive, wait_until

INTERVAL_SECS = 3  # long beside what a start of Python takes on a busy machine
TICKS = 11
INTERVALS_WITHOUT_A_POINT = 3
ALWAYS_THERE = (
    "system/cpu/utilization",
    "system/memory/used_bytes",
    "system/disk/free_bytes",
    "system/process/rss_bytes",
    "system/process/cpu_utilization",
)
# A call that everything begins with, one that's asked of each card, and one in the middle of the readings.
FIRST, LATER = "nvmlInitWithFlags", "nvmlDeviceGetPowerUsage"
CRASHES = ("segv", "abort", "exit 1")
HANGS = ("hang", "block", "dstate", "undead 20")
CRASHED, HUNG = "driver crashed twice, GPU sampling off", "the driver hasn't answered for"

BODY = f"""
import os, pathlib, sys, time
import metrana
def is_told():
    texts = [path.read_text() for path in pathlib.Path(os.environ["METRANA_DIR"]).rglob("*.jsonl")]
    return any(sys.argv[2] in text for text in texts)
run = metrana.init(run_name="faults", system_metrics_interval_secs={INTERVAL_SECS})
end = time.monotonic() + int(sys.argv[1]) * {INTERVAL_SECS}
while time.monotonic() < end or not is_told():
    metrana.log("loss", 1.0)
    time.sleep(0.1)
print("done")
sys.exit(3)
"""


@dataclass
class Case:
    """One training with a faulty driver, while it runs and when it's over."""

    script: Script
    process: subprocess.Popen[str]
    out: str = ""
    err: str = ""

    def finish(self) -> None:
        try:
            self.out, self.err = self.process.communicate(timeout=DEADLINE_SECS)
        finally:
            self.process.kill()
            self.process.wait()


def start(folder: Path, call: str, action: str, told: str, ticks: int = TICKS) -> Case:
    folder.mkdir()
    driver = FakeDriver(folder)
    cards = {f"gpu{index}": {"uuid": f"GPU-{index}"} for index in range(2)}
    driver.script({"system": {"count": 2}, **cards, "calls": {call: action}})
    script = Script(folder, BODY)
    own = driver.environment()
    names = ("LD_LIBRARY_PATH", "FAKE_NVML_CONFIG", "FAKE_NVML_LOG")
    # The calls are counted over all children, so that one that works at first doesn't work again after a restart.
    environ = {**{name: own[name] for name in names}, "FAKE_NVML_STATE": str(folder)}
    return Case(script, script.start(sys.executable, str(script.path), str(ticks), told, environ=environ))


ROWS = [
    *((FIRST, action, expected) for actions, expected in ((CRASHES, CRASHED), (HANGS, HUNG)) for action in actions),
    *(
        (LATER, f"after 6 {action}", expected)
        for actions, expected in ((CRASHES, CRASHED), (HANGS, HUNG))
        for action in actions
    ),
]


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, str], Case]]:
    """All of them at once: they wait most of the time."""
    folder = tmp_path_factory.mktemp("faults")
    started: dict[tuple[str, str], Case] = {}
    try:
        for index, (call, action, expected) in enumerate(ROWS):
            # What the driver keeps waiting is told when the run closes.
            told = expected if expected == CRASHED else ""
            started[call, action] = start(folder / str(index), call, action, told)
        for case in started.values():
            case.finish()
        yield started
    finally:
        for case in started.values():
            case.process.kill()
            case.process.wait()


def widest_gap(run: StoredRun, name: str) -> float:
    """Seconds between two neighbouring points of the one series of that name."""
    (series,) = [series for (own, _), series in run.series.items() if own == name]
    times = list(series.timestamps)
    assert len(times) >= TICKS / 2
    return max(later - earlier for earlier, later in zip(times, times[1:]))  # noqa: B905


@pytest.mark.xdist_group("faults")  # whose trainings run at the same time, once
@pytest.mark.parametrize(("call", "action", "expected"), ROWS)
def test_a_faulty_driver_costs_the_gpu_charts_alone(
    cases: dict[tuple[str, str], Case], call: str, action: str, expected: str
) -> None:
    """Exit code and output are the script's, no other chart has a gap, one warning, and the attribute says why."""
    case = cases[call, action]
    assert (3, "done\n") == (case.process.returncode, case.out), case.err
    assert 1 == len(case.err.splitlines()), case.err
    run = case.script.stored()
    assert "closed" == run.info.status
    assert str(run.attributes["system/capture/gpu"]).startswith(expected)
    gaps = {name: widest_gap(run, name) for name in ALWAYS_THERE}
    # Counted in ticks: on a busy machine each comes some milliseconds late.
    assert round(max(gaps.values()) / INTERVAL_SECS) <= INTERVALS_WITHOUT_A_POINT, gaps
    assert ("system/capture_replaced" in run.attributes) == (expected == CRASHED)
    gpu_points = [len(series.values) for (name, _), series in run.series.items() if name.startswith("system/gpu/")]
    assert (12 if call == LATER else 0) == len(gpu_points)


def test_one_crash_is_a_gap_of_a_tick(tmp_path: Path) -> None:
    """A child that's lost once is replaced at once: steps and grid go on, the GPUs too, and nobody is warned."""
    driver = FakeDriver(tmp_path)
    driver.script({"system": {"count": 1}, "gpu0": {"uuid": "GPU-0"}, "calls": {LATER: "ok"}})
    body = """
    import os, pathlib, psutil, signal, time
    import metrana
    run = metrana.init(run_name="one", system_metrics_interval_secs=2)
    def child():
        return [child.pid for child in psutil.Process().children()]
    def ticks():
        metrana.flush()
        text = "".join(path.read_text() for path in pathlib.Path(os.environ["METRANA_DIR"]).rglob("*.jsonl"))
        return sum(1 for line in text.splitlines() if line.startswith('{"t"'))
    def wait_for(more):
        wanted = ticks() + more
        while ticks() < wanted: time.sleep(0.05)
    wait_for(4)
    first = child()
    os.kill(first[0], signal.SIGSEGV)
    while child() in ([], first): time.sleep(0.05)
    wait_for(4)
    """
    script = Script(tmp_path, body)
    own = driver.environment()
    script.run(environ={name: own[name] for name in ("LD_LIBRARY_PATH", "FAKE_NVML_CONFIG")})
    run = script.stored()
    # It may have been reading something at that moment; then that's told as well.
    assert str(run.attributes["system/capture_replaced"]).startswith("1 times, last: SIGSEGV")
    assert "ok" == run.attributes["system/capture/gpu"]
    for series in run.series.values():
        assert list(series.steps) == sorted(set(series.steps))
        assert len(series.timestamps) == len(set(series.timestamps))
    (memory,) = [series for (name, _), series in run.series.items() if name == "system/memory/used_bytes"]
    before, after = memory.timestamps[1:4], memory.timestamps[-3:-1]
    # On a busy machine a tick may come late; not all of them as late as another grid would make them.
    assert min(abs((b - a + 1.0) % 2.0 - 1.0) for a in before for b in after) < 0.2, "another grid"


def test_a_child_that_outlives_its_end_is_left_alone(tmp_path: Path) -> None:
    """A process stuck in a driver can't be killed: the training ends all the same, and so does it when it's let go."""
    case = start(tmp_path / "case", FIRST, "undead 20", "", ticks=3)
    case.finish()
    assert 3 == case.process.returncode
    left = {int(line.split()[1]) for line in (tmp_path / "case" / "driver.log").read_text().splitlines()}
    wait_until(lambda: not any(is_alive(pid) for pid in left), "the end of what was stuck")
