from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrana.errors import ReadFailed, Unavailable
from metrana.system.host import Host
from metrana.system.sources.procfs import CpuTimes, Memory, Procfs, parse_cpu_times
from tests.unit.system.played import PlayedHost, build_tree


def test_memory(tmp_path: Path) -> None:
    """Total and available memory are the kernel's, in bytes."""
    assert Memory(1000 * 1024, 600 * 1024) == Procfs(PlayedHost(build_tree(tmp_path, {}))).memory()


def test_memory_without_an_estimate(tmp_path: Path) -> None:
    """Where the kernel has no MemAvailable, what's free, buffered and cached is available."""
    build_tree(tmp_path, {"proc/meminfo": "MemTotal: 100 kB\nMemFree: 10 kB\nBuffers: 2 kB\nCached: 30 kB\n"})
    assert Memory(100 * 1024, 42 * 1024) == Procfs(PlayedHost(tmp_path)).memory()


def test_memory_of_nonsense(tmp_path: Path) -> None:
    """A machine that doesn't tell its memory has a failed reading."""
    build_tree(tmp_path, {"proc/meminfo": "MemTotal: none kB\n"})
    with pytest.raises(ReadFailed, match="MemTotal"):
        Procfs(PlayedHost(tmp_path)).memory()


def test_cpu_times() -> None:
    """Waiting is idle, guests are a part of user time, a stolen second was worked; CPUs keep their numbers."""
    ticks = os.sysconf("SC_CLK_TCK")
    times = parse_cpu_times(b"cpu  30 1 5 50 10 1 2 1 20 0\ncpu0 1 0 0 9\ncpu7 x 0 0 9\ncpu12 3 0 0 7 0\nintr 5\n")
    assert {None: CpuTimes(40 / ticks, 100 / ticks), 0: CpuTimes(1 / ticks, 10 / ticks)} == {
        cpu: times[cpu] for cpu in (None, 0)
    }
    assert {None, 0, 12} == set(times)


def test_cpu_count(tmp_path: Path) -> None:
    """The CPUs that are online count; without sysfs those in /proc/stat do."""
    host = PlayedHost(build_tree(tmp_path, {}))
    assert 4 == Procfs(host).cpu_count()
    build_tree(tmp_path, {"sys/devices/system/cpu/online": "0-1,3\n"})
    assert 3 == Procfs(host).cpu_count()


def test_no_cpu_at_all(tmp_path: Path) -> None:
    """Without a usable /proc/stat the reading fails."""
    procfs = Procfs(PlayedHost(build_tree(tmp_path, {"proc/stat": "nothing"})))
    for read in (procfs.cpu_times, procfs.cpu_times_by_cpu, procfs.cpu_count):
        with pytest.raises(ReadFailed):
            read()


def test_process() -> None:
    """The process is the host's, here this one, with its resident memory and its CPU time so far."""
    procfs = Procfs(Host())
    used = os.times()
    assert procfs.process_rss_bytes() > 1 << 20
    assert used.user + used.system <= procfs.process_cpu_secs() + 0.02


def test_process_that_is_gone(tmp_path: Path) -> None:
    """A process that isn't there won't come back."""
    procfs = Procfs(PlayedHost(build_tree(tmp_path, {"proc/self/stat": "4242 (x) R 1"})))
    with pytest.raises(Unavailable, match="gone"):
        procfs.process_rss_bytes()


def test_process_of_nonsense(tmp_path: Path) -> None:
    """A process whose files make no sense is a failed reading."""
    build_tree(tmp_path, {"proc/self/stat": "4242 (x) R 1", "proc/4242/stat": "4242 (x) R 1", "proc/4242/statm": "a b"})
    with pytest.raises(ReadFailed):
        Procfs(PlayedHost(tmp_path)).process_rss_bytes()


@given(st.binary(max_size=300))
def test_no_bytes_raise(data: bytes) -> None:
    """Whatever /proc/stat holds, its parser answers."""
    parse_cpu_times(b"cpu" + data)
