from __future__ import annotations

import os
from pathlib import Path

import pytest

from metrana.errors import Unavailable
from metrana.system.collectors.process import CPU_UTILIZATION, RSS, ProcessCollector
from tests.unit.system.played import PlayedHost, build_health, build_tree


def test_rate_of_one_core(tmp_path: Path) -> None:
    """CPU utilization is of one core: eight busy threads read 800 %. It comes with the second reading."""
    fields = "0 -1 4194304 9 5 12 0 {user} {system} 771 33 20 0 96 0 123456 2147 125 18446744073709551615" + " 0" * 27

    def write(user: int, system: int) -> None:
        line = "4242 (python3 (x)) R 1 4242 4242 " + fields.format(user=user, system=system) + "\n"
        build_tree(tmp_path, {"proc/self/stat": line, "proc/4242/stat": line, "proc/4242/statm": "9 7 1 1 0 1 0\n"})

    ticks = os.sysconf("SC_CLK_TCK")
    write(500, 100)
    host = PlayedHost(tmp_path)
    collector = ProcessCollector(host, build_health())
    (rss,) = collector.collect()
    assert (RSS, 7 * os.sysconf("SC_PAGE_SIZE")) == (rss.metric, rss.value)
    write(500 + 70 * ticks, 100 + 10 * ticks)
    host.move_on(10.0)
    _, rate = collector.collect()
    assert CPU_UTILIZATION is rate.metric
    assert pytest.approx(800.0) == rate.value
    host.move_on(10.0)
    assert 0.0 == collector.collect()[1].value
    assert {} == collector.attributes()


def test_process_that_is_gone(tmp_path: Path) -> None:
    """A process that isn't there is dropped at once."""
    with pytest.raises(Unavailable):
        ProcessCollector(PlayedHost(build_tree(tmp_path, {})), build_health()).collect()
