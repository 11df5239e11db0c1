"""A real kernel cgroup: limits are found and usage is charted against them."""

from __future__ import annotations

import csv
import json
import os
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import pytest

import metrana
from metrana.system.host import Host
from metrana.system.sources.cgroup import Cgroup
from tests.scripts import DEADLINE_SECS, Script

pytestmark = pytest.mark.once

LIMIT_BYTES = 256 << 20
QUOTA_CORES = 0.5

LAUNCHER = 'while [ "$1" != -- ]; do echo $$ > "$1" || exit 99; shift; done; shift; exec "$@"'
"""Joins the cgroups whose cgroup.procs files it's given, then becomes the command after ``--``."""

SCRIPT = """
import json, sys, time
from metrana.system.collectors.cpu import CpuCollector
from metrana.system.collectors.memory import MemoryCollector
from metrana.system.health import Health
from metrana.system.host import Host

usage_file, stat_file, inactive_key, limit_bytes, quota_cores = sys.argv[1:]
eaten = bytearray(b"x") * (150 << 20)
host, health = Host(), Health(print)
cpu, memory = CpuCollector(host, health), MemoryCollector(host, health)
cpu.collect(), memory.collect()
start_secs, start_used_secs = time.monotonic(), time.process_time()
while time.monotonic() - start_secs < 6.0:
    pass
used_secs, passed_secs = time.process_time() - start_used_secs, time.monotonic() - start_secs
(cpu_sample,) = cpu.collect()
memory_sample = memory.collect()[1]
inactive = dict(line.split() for line in open(stat_file))[inactive_key]
print(json.dumps({
    "memory": memory_sample.value,
    "memory_expected": 100.0 * (int(open(usage_file).read()) - int(inactive)) / int(limit_bytes),
    "cpu": cpu_sample.value,
    "cpu_expected": min(100.0, 100.0 * used_secs / (passed_secs * float(quota_cores))),
    "attributes": {**cpu.attributes(), **memory.attributes()},
}))
"""


def find_v1() -> dict[Path, dict[str, str]] | str:
    """The folders to make on v1 with what to write in each, or the reason why not."""
    levels = Cgroup(Host()).levels()
    controllers = (levels.memory, levels.cpu, levels.cpuacct)
    if any(controller.version != 1 or not controller.levels for controller in controllers):
        return "the memory, cpu and cpuacct controllers aren't all on v1"
    name = f"metrana-test-{uuid.uuid4().hex}"
    memory, cpu, cpuacct = (Path(controller.levels[0].folder, name) for controller in controllers)
    files: dict[Path, dict[str, str]] = {memory: {"memory.limit_in_bytes": str(LIMIT_BYTES)}, cpuacct: {}}
    # With the largest weight the busy loop gets its half core however busy the machine is.
    files[cpu] = {
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_quota_us": str(int(QUOTA_CORES * 100_000)),
        "cpu.shares": "262144",
    }
    return files


def find_v2() -> dict[Path, dict[str, str]] | str:
    """The same on v2: below the outermost level that hands both controllers on."""
    for level in reversed(Cgroup(Host()).levels().unified):
        try:
            handed_on = Path(level.folder, "cgroup.subtree_control").read_text().split()
        except OSError:
            continue
        if {"memory", "cpu"} <= set(handed_on):
            settings = {"memory.max": str(LIMIT_BYTES), "cpu.max": f"{int(QUOTA_CORES * 100_000)} 100000"}
            return {Path(level.folder, f"metrana-test-{uuid.uuid4().hex}"): {**settings, "cpu.weight": "10000"}}
    return "no v2 cgroup hands on the memory and cpu controllers"


@contextmanager
def limited_cgroup() -> Iterator[list[Path]]:
    """A cgroup of 256 MiB and half a core as its folders, the memory controller's first; removed afterwards."""
    if os.geteuid() != 0:
        pytest.skip("only root may make a cgroup")
    found = find_v1()
    version = 1
    if isinstance(found, str):
        reason, version, found = found, 2, find_v2()
        if isinstance(found, str):
            pytest.skip(f"{reason}, and {found}")
    made: list[Path] = []
    try:
        try:
            for folder, settings in found.items():
                folder.mkdir()
                made.append(folder)
                for name, value in settings.items():
                    (folder / name).write_text(value)
        except OSError as error:
            pytest.skip(f"the cgroup v{version} can't be made here: {error}")
        yield made
    finally:
        for folder in made:
            remove(folder)


def remove(folder: Path) -> None:
    """Remove a cgroup whose processes have ended; the kernel may need a moment to see that."""
    deadline = time.monotonic() + DEADLINE_SECS
    while True:
        try:
            return folder.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def run_in(folders: list[Path], *command: str, environ: Mapping[str, str] = MappingProxyType({})) -> str:
    """Run a command in a cgroup and return what it prints."""
    procs = [str(folder / "cgroup.procs") for folder in folders]
    package = str(Path(metrana.__file__).parents[1])
    with subprocess.Popen(
        ["/bin/sh", "-c", LAUNCHER, "sh", *procs, "--", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environ, "PYTHONPATH": package},
    ) as process:
        try:
            output, errors = process.communicate(timeout=DEADLINE_SECS)
        finally:
            process.kill()
    assert 0 == process.returncode, errors
    return output


def test_limits_of_a_real_cgroup() -> None:
    """A process held to 256 MiB and half a core by the kernel is charted against just that."""
    with limited_cgroup() as folders:
        memory = folders[0]
        is_v1 = (memory / "memory.usage_in_bytes").exists()
        output = run_in(
            folders,
            sys.executable,
            "-c",
            SCRIPT,
            str(memory / ("memory.usage_in_bytes" if is_v1 else "memory.current")),
            str(memory / "memory.stat"),
            "total_inactive_file" if is_v1 else "inactive_file",
            str(LIMIT_BYTES),
            str(QUOTA_CORES),
        )
    found = json.loads(output)
    assert {"system/cpu/limit_cores": QUOTA_CORES, "system/memory/limit_bytes": LIMIT_BYTES} == found["attributes"]
    assert found["memory_expected"] == pytest.approx(found["memory"], abs=3.0)
    assert found["cpu_expected"] == pytest.approx(found["cpu"], abs=3.0)
    # 150 of 256 MiB and more; a whole half core. Against the host both would be far lower.
    assert 55.0 < found["memory"] <= 100.0
    assert 60.0 < found["cpu"] <= 100.0


RUN_SCRIPT = """
import json, os, sys, time
import metrana

usage_file, stat_file, inactive_key, limit_bytes = sys.argv[1:]
eaten = bytearray(b"x") * (150 << 20)
run = metrana.init(run_name="limited", system_metrics_interval_secs=1)
while time.process_time() < 4.0:
    pass
# Let go of the child's share, then read what it will read at its last tick.
inactive = dict(line.split() for line in open(stat_file))[inactive_key]
expected = 100.0 * (int(open(usage_file).read()) - int(inactive)) / int(limit_bytes)
metrana.close()
print(json.dumps({"id": run.id, "memory_expected": expected}))
"""


def test_a_run_in_a_real_cgroup_is_charted_against_its_limits(tmp_path: Path) -> None:
    """A script that eats memory and CPU under the kernel's limits finds both right in its exported run."""
    with limited_cgroup() as folders:
        memory = folders[0]
        is_v1 = (memory / "memory.usage_in_bytes").exists()
        usage = memory / ("memory.usage_in_bytes" if is_v1 else "memory.current")
        inactive_key = "total_inactive_file" if is_v1 else "inactive_file"
        script = Script(tmp_path, RUN_SCRIPT)
        command = [sys.executable, str(script.path), str(usage), str(memory / "memory.stat"), inactive_key]
        output = run_in(folders, *command, str(LIMIT_BYTES), environ=script.environment())
    told = json.loads(output)
    script.run(sys.executable, "-m", "metrana", "export", told["id"], "--output", "run.csv")
    with (tmp_path / "run.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    cpu = [float(row["value"]) for row in rows if row["name"] == "system/cpu/utilization"]
    used = [float(row["value"]) for row in rows if row["name"] == "system/memory/utilization"]
    # The script's start and end lie in the first and the last two ticks.
    assert len(cpu) >= 5
    assert pytest.approx(100.0, abs=3.0) == statistics.median(cpu[1:-2])
    assert pytest.approx(told["memory_expected"], abs=3.0) == used[-1]
    attributes = script.stored().attributes
    assert (QUOTA_CORES, LIMIT_BYTES) == (
        attributes["system/cpu/limit_cores"],
        attributes["system/memory/limit_bytes"],
    )
