from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from metrana.system.collectors.cpu import CpuCollector
from metrana.system.collectors.memory import MemoryCollector
from metrana.system.collectors.process import ProcessCollector
from tests.trees import unpacked
from tests.unit.system.played import PlayedHost, build_health

BIG = unpacked("host_512g")


def test_large_machine(tmp_path: Path) -> None:
    """A host of 512 GiB and 128 CPUs gives the numbers of its fixture, bytes to the byte, in both its ticks."""
    expected = json.loads((BIG / "expected.json").read_text())
    machine = tmp_path / "machine"
    machine.symlink_to(BIG)
    host = PlayedHost(machine)
    memory, cpu, process = (
        collector(host, build_health()) for collector in (MemoryCollector, CpuCollector, ProcessCollector)
    )
    assert {"system/memory/limit_bytes": expected["memory_limit_bytes"]} == memory.attributes()
    assert {"system/cpu/limit_cores": expected["cpu_limit_cores"]} == cpu.attributes()

    def tick() -> list[float]:
        return [sample.value for collector in (memory, cpu, process) for sample in collector.collect()]

    memory_values = list(zip(expected["memory_used_bytes"], expected["memory_utilization"], strict=True))
    rss_bytes = [pages * os.sysconf("SC_PAGE_SIZE") for pages in expected["process_rss_pages"]]
    assert [*memory_values[0], rss_bytes[0]] == tick()
    machine.unlink()
    machine.symlink_to(BIG / "later")
    host.move_on(expected["elapsed_s"])
    assert [
        *memory_values[1],
        pytest.approx(expected["cpu_utilization"]),
        rss_bytes[1],
        pytest.approx(expected["process_cpu_utilization"]),
    ] == tick()
