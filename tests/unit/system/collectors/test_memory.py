from __future__ import annotations

from pathlib import Path

import pytest

from metrana.errors import ReadFailed
from metrana.system.collectors.memory import USED, UTILIZATION, MemoryCollector
from tests.unit.system.played import CASES, PlayedHost, build_health, load_case


@pytest.mark.parametrize("name", CASES)
def test_case(name: str) -> None:
    """Each machine's working set and how full its limit is are as written down."""
    host, expected = load_case(name)
    collector = MemoryCollector(host, build_health())
    used, utilization = collector.collect()
    assert (USED, UTILIZATION) == (used.metric, utilization.metric)
    assert expected["memory_used_bytes"] == used.value
    assert 100.0 * expected["memory_used_bytes"] / expected["memory_limit_bytes"] == utilization.value
    assert {"system/memory/limit_bytes": expected["memory_limit_bytes"]} == collector.attributes()


def test_machine_without_memory(tmp_path: Path) -> None:
    """Where nothing tells the memory the reading fails."""
    collector = MemoryCollector(PlayedHost(tmp_path), build_health())
    with pytest.raises(ReadFailed):
        collector.collect()
    assert {} == collector.attributes()
