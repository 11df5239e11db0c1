from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from metrana.errors import ReadFailed
from metrana.system.collectors.disk import FREE, TOTAL, UTILIZATION, DiskCollector
from metrana.system.host import Host
from tests.scripts import DEADLINE_SECS
from tests.unit.system.played import PlayedHost, build_health


def test_disk(tmp_path: Path) -> None:
    """Size, what a user may write, and used / (used + available) of the file system that holds the root."""
    before = os.statvfs(tmp_path)
    total, free, utilization = DiskCollector(PlayedHost(tmp_path), build_health()).collect()
    after = os.statvfs(tmp_path)
    assert (TOTAL, FREE, UTILIZATION) == (total.metric, free.metric, utilization.metric)
    assert before.f_blocks * before.f_frsize == total.value
    # Others write to the disk meanwhile.
    slack = 1 << 28
    assert abs(free.value - after.f_bavail * after.f_frsize) < slack
    used = after.f_blocks - after.f_bfree
    assert 100.0 * used / (used + after.f_bavail) == pytest.approx(utilization.value, abs=0.5)


@pytest.mark.skipif(shutil.which("df") is None, reason="there's no df here")
def test_utilization_is_what_df_prints() -> None:
    """Rounded up as df rounds, the root's utilization is df's Use%."""
    command = ["df", "-P", "/"]
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=DEADLINE_SECS).stdout
    utilization = DiskCollector(Host(), build_health()).collect()[2]
    assert int(output.splitlines()[1].split()[4].rstrip("%")) == pytest.approx(utilization.value, abs=1.1)


def test_root_that_is_gone(tmp_path: Path) -> None:
    """A root that can't be read is a failed reading."""
    with pytest.raises(ReadFailed):
        DiskCollector(PlayedHost(tmp_path / "gone"), build_health()).collect()
