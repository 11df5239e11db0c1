from __future__ import annotations

from pathlib import Path

import pytest

from metrana.errors import ReadFailed
from metrana.system.collectors.cpu import UTILIZATION, CpuCollector
from tests.unit.system.played import CASES, V2_MOUNT, PlayedHost, build_health, build_tree, case_folder, load_case

LATER = [name for name in CASES if (case_folder(name) / "later").is_dir()]
QUOTA = {
    "proc/self/cgroup": "0::/a\n",
    "proc/self/mountinfo": V2_MOUNT,
    "sys/fs/cgroup/a/cpu.max": "200000 100000\n",
    "sys/fs/cgroup/a/cpu.stat": "usage_usec 5000000\n",
}


def use(root: Path, usecs: int) -> None:
    build_tree(root, {"sys/fs/cgroup/a/cpu.stat": f"usage_usec {usecs}\n"})


def values(collector: CpuCollector) -> list[float]:
    return [sample.value for sample in collector.collect()]


@pytest.mark.parametrize("name", LATER)
def test_case(name: str) -> None:
    """Each machine's share of its allowance between two readings is as written down."""
    host, expected = load_case(name)
    collector = CpuCollector(host, build_health())
    assert [] == collector.collect()
    host.move_on(expected["later"]["elapsed_s"], case_folder(name) / "later")
    (sample,) = collector.collect()
    assert UTILIZATION is sample.metric
    assert expected["later"]["cpu_percent"] == pytest.approx(sample.value, abs=0.05)


def test_burst_is_clamped(tmp_path: Path) -> None:
    """More than the allowance reads 100 %, nothing used reads 0 %."""
    host = PlayedHost(build_tree(tmp_path, QUOTA))
    collector = CpuCollector(host, build_health())
    collector.collect()
    use(tmp_path, 5_000_000 + 25_000_000)
    host.move_on(10.0)
    assert [100.0] == values(collector)
    host.move_on(10.0)
    assert [0.0] == values(collector)


def test_changed_level_costs_one_point(tmp_path: Path) -> None:
    """When another level becomes the tightest, its counter isn't compared with the one before."""
    host = PlayedHost(build_tree(tmp_path, QUOTA))
    collector = CpuCollector(host, build_health())
    collector.collect()
    build_tree(tmp_path, {"sys/fs/cgroup/cpu.max": "100000", "sys/fs/cgroup/cpu.stat": "usage_usec 90000000\n"})
    host.move_on(10.0)
    assert [] == values(collector)
    build_tree(tmp_path, {"sys/fs/cgroup/cpu.stat": "usage_usec 95000000\n"})
    host.move_on(10.0)
    assert [pytest.approx(50.0)] == values(collector)


def test_counter_that_goes_backwards_costs_one_point(tmp_path: Path) -> None:
    """A counter that starts anew gives no point, and counts from there."""
    host = PlayedHost(build_tree(tmp_path, QUOTA))
    collector = CpuCollector(host, build_health())
    collector.collect()
    for usecs, expected in ((1_000_000, []), (6_000_000, [pytest.approx(25.0)])):
        use(tmp_path, usecs)
        host.move_on(10.0)
        assert expected == values(collector)


def test_hasty_reading_gives_no_point(tmp_path: Path) -> None:
    """Two readings right after one another give no rate, and lose nothing."""
    host = PlayedHost(build_tree(tmp_path, QUOTA))
    collector = CpuCollector(host, build_health())
    collector.collect()
    host.move_on(0.1)
    assert [] == values(collector)
    use(tmp_path, 10_000_000)
    host.move_on(9.9)
    assert [pytest.approx(25.0)] == values(collector)


def test_resized_quota_counts_at_once(tmp_path: Path) -> None:
    """A quota that's changed while the job runs is the one that the next point is measured against."""
    host = PlayedHost(build_tree(tmp_path, QUOTA))
    collector = CpuCollector(host, build_health())
    collector.collect()
    build_tree(
        tmp_path, {"sys/fs/cgroup/a/cpu.max": "400000 100000\n", "sys/fs/cgroup/a/cpu.stat": "usage_usec 15000000"}
    )
    host.move_on(10.0)
    assert [pytest.approx(25.0)] == values(collector)


def test_machine_without_a_counter(tmp_path: Path) -> None:
    """Where nothing tells the CPU time the reading fails."""
    build_tree(tmp_path, {"proc/stat": ""})
    with pytest.raises(ReadFailed):
        CpuCollector(PlayedHost(tmp_path), build_health()).collect()


def test_limit_is_an_attribute(tmp_path: Path) -> None:
    """The run tells what 100 % stands for: the limit, or the host's cores."""
    host = PlayedHost(build_tree(tmp_path, QUOTA))
    assert {"system/cpu/limit_cores": 2.0} == CpuCollector(host, build_health()).attributes()
    (tmp_path / "sys/fs/cgroup/a/cpu.max").unlink()
    assert {"system/cpu/limit_cores": 4} == CpuCollector(host, build_health()).attributes()
