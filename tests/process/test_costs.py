"""What the sampling child holds, and that it never grows: whatever its parent does."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.fake_driver import FakeDriver, run_python
from tests.scripts import DEADLINE_SECS, Script, children_of, is_alive, read_line, wait_until

MIB = 1024 * 1024
PSS_LIMIT_BYTES, PSS_LIMIT_WITH_GPU_BYTES = 14 * MIB, 18 * MIB

WAITING = """
import os, pathlib, sys, time
import metrana
def ticks():
    metrana.flush()
    text = "".join(path.read_text() for path in pathlib.Path(os.environ["METRANA_DIR"]).rglob("*.jsonl"))
    return sum(1 for line in text.splitlines() if line.startswith('{{"t"'))
big = bytearray({size})
for start in range(0, len(big), 4096): big[start] = 1
run = metrana.init(run_name="costs", system_metrics_interval_secs=1)
while ticks() < 3: time.sleep(0.05)
print("sampled", flush=True)
sys.stdin.read()
"""


def pss_bytes(pid: int) -> int:
    """Proportional set size: what a process alone holds, and its share of what it shares (proc_pid_smaps(5))."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def measure_child(script: Script, environ: dict[str, str]) -> int:
    process = script.start(environ=environ, stdin=subprocess.PIPE)
    try:
        assert "sampled\n" == read_line(process)
        (child,) = children_of(process.pid)
        return pss_bytes(child)
    finally:
        process.communicate(timeout=DEADLINE_SECS)


@pytest.mark.skipif(not os.path.exists("/proc/self/smaps_rollup"), reason="the kernel tells no PSS")
def test_the_child_knows_nothing_of_the_trainings_memory(tmp_path: Path) -> None:
    """A gigabyte before init(): the child holds less than 14 MiB all the same."""
    script = Script(tmp_path, WAITING.format(size=1024 * MIB))
    assert measure_child(script, {}) < PSS_LIMIT_BYTES


@pytest.mark.skipif(not os.path.exists("/proc/self/smaps_rollup"), reason="the kernel tells no PSS")
def test_the_child_stays_small_with_gpus(tmp_path: Path) -> None:
    """Less than 18 MiB with eight cards."""
    driver = FakeDriver(tmp_path)
    driver.script({"system": {"count": 8}})
    own = driver.environment()
    script = Script(tmp_path, WAITING.format(size=1))
    environ = {name: own[name] for name in ("LD_LIBRARY_PATH", "FAKE_NVML_CONFIG")}
    assert measure_child(script, environ) < PSS_LIMIT_WITH_GPU_BYTES


@pytest.mark.parametrize("ticks", [1000, pytest.param(10_000, marks=pytest.mark.once)])
def test_many_ticks_leave_nothing_behind(tmp_path: Path, ticks: int) -> None:
    """The sampler's memory grows by less than a megabyte."""
    code = f"""
import json, os
from metrana.system.claims import Claims
from metrana.system.host import Host
from metrana.system.sampler import Sampler

def rss():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

host = Host()
claims = Claims("0123456789abcdef", [("tmp", {str(tmp_path)!r})], {{"pid": 1}}, host.monotonic, 0.0, 0.0)
sampler = Sampler(host, 1.0, lambda batch: None, lambda attributes: None, print, claims=claims)
for _ in range(1000):
    sampler.tick()
before = rss()
for _ in range({ticks}):
    sampler.tick()
print(json.dumps(rss() - before))
"""
    driver = FakeDriver(tmp_path)
    driver.script({"system": {"count": 2}})
    assert run_python(code, driver.environment({"FAKE_NVML_CACHE": "1"})) < MIB


def test_a_stalled_parent_costs_batches_and_no_memory(tmp_path: Path) -> None:
    """It's stopped for as long as it takes to lose some: the child stays small, and goes on when the parent does."""
    code = """
    import time
    from metrana.system import SystemMonitor
    taken, facts = [], {}
    monitor = SystemMonitor(taken.append, facts.update, interval_secs=0.01)
    monitor.start()
    while len(taken) < 10: time.sleep(0.01)
    print("begun", flush=True)
    while not any(b.step > a.step + 1 for a, b in zip(taken, taken[1:])): time.sleep(0.1)
    seen = len(taken)
    while len(taken) < seen + 100: time.sleep(0.01)
    monitor.stop()
    assert facts["system/capture_dropped_batches"] > 0
    print("over", flush=True)
    """
    script = Script(tmp_path, code)
    process = script.start()
    try:
        assert "begun\n" == read_line(process)
        (child,) = children_of(process.pid)
        before = pss_bytes(child)
        os.kill(process.pid, signal.SIGSTOP)
        # The pipe holds some hundred batches and the child 64 more: what it reads after that, it drops.
        ticks = _reads(child)
        wait_until(lambda: _reads(child) > ticks + 9000, "the child to read on")
        assert pss_bytes(child) - before < 2 * MIB
        os.kill(process.pid, signal.SIGCONT)
        out, err = process.communicate(timeout=DEADLINE_SECS)
    finally:
        process.kill()
        process.wait()
    assert (0, "over\n") == (process.returncode, out)
    assert "in time: some are lost" in err
    assert 1 == len(err.splitlines())
    wait_until(lambda: not is_alive(child), "the child's end")


def _reads(pid: int) -> int:
    """How often a process has read something: a child that samples does so a few times a tick (proc_pid_io(5))."""
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("syscr:"))


MOMENTS = 50
AT_ONCE = 10


def test_an_interrupt_at_any_moment_of_the_first_second(tmp_path: Path) -> None:
    """Ctrl-C reaches the whole group: no traceback of metrana's, no orphan, and no lock file is left."""
    code = """
    import time
    import metrana
    metrana.init(run_name="interrupted", system_metrics_interval_secs=1)
    while True: metrana.log("loss", 1.0); time.sleep(0.01); print("step", flush=True)
    """
    scripts: list[Script] = []
    children: set[int] = set()
    for first in range(0, MOMENTS, AT_ONCE):
        started = []
        try:
            for number in range(first, first + AT_ONCE):
                folder = tmp_path / str(number)
                folder.mkdir()
                scripts.append(Script(folder, code))
                started.append(_start_in_group(scripts[-1]))
            for number, process in enumerate(started):
                # From before metrana is imported to well after the first samples.
                try:
                    process.wait(timeout=0.02 + 0.01 * number)
                except subprocess.TimeoutExpired:
                    children.update(children_of(process.pid))
                    os.killpg(process.pid, signal.SIGINT)
            for script, process in zip(scripts[first:], started, strict=True):
                err = _interrupt_until_over(script, process)
                assert "Traceback" not in err or "KeyboardInterrupt" in err
                assert [] == _tracebacks_of_metrana(script, err)
                assert "metrana-sampler" not in err
                assert process.returncode in (-signal.SIGINT, 1)
        finally:
            for process in started:
                process.kill()
                process.wait()
    wait_until(lambda: not any(is_alive(pid) for pid in children), "the children's end")
    assert any(script.infos() for script in scripts)
    wait_until(lambda: not any(script.lock_files() for script in scripts), "the end of the lock files")


def _start_in_group(script: Script) -> subprocess.Popen[str]:
    with (script.folder / "out").open("wb") as out, (script.folder / "err").open("wb") as err:
        return script.start(stdout=out, stderr=err, start_new_session=True)


def _interrupt_until_over(script: Script, process: subprocess.Popen[str]) -> str:
    """Wait for the end of a script that was interrupted once, and return what it said on standard error.

    An interrupt that falls into a callback of the interpreter's own, such as that of an import's lock, is reported as
    ignored, and the script goes on: whoever sits there presses Ctrl-C again.
    """
    steps_at_interrupt, is_ignored = _steps(script), False

    def is_over_or_goes_on() -> bool:
        return process.poll() is not None or _steps(script) >= steps_at_interrupt + 5

    while process.poll() is None:
        wait_until(is_over_or_goes_on, "the script's end")
        if process.poll() is None:
            is_ignored = True
            os.killpg(process.pid, signal.SIGINT)
            steps_at_interrupt = _steps(script)
    said = (script.folder / "err").read_text()
    assert not is_ignored or "Exception ignored" in said
    return said


def _tracebacks_of_metrana(script: Script, err: str) -> list[str]:
    """Those of its threads, of its child and of its exit handlers: they pass through it, or come out of a command line.

    The script's own begins in the script, wherever the interrupt fell. How it ends is the interpreter's matter: one
    that falls into a class being made has a note after it, or, before Python 3.12, a RuntimeError around it.
    """
    found = []
    for traceback in err.split("Traceback (most recent call last):\n")[1:]:
        first, *rest = re.findall(r'^ *File "(.+?)", line', traceback, re.MULTILINE)
        is_of_metrana = any(f"{os.sep}metrana{os.sep}" in file for file in [first, *rest])
        if first == "<string>" or (is_of_metrana and first != str(script.path)):
            found.append(traceback)
    return found


def _steps(script: Script) -> int:
    return (script.folder / "out").read_bytes().count(b"\n")
