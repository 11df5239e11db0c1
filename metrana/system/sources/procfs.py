"""The machine and one process as procfs shows them; the only importer of psutil.

proc(5), https://docs.kernel.org/filesystems/proc.html, https://psutil.readthedocs.io
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

import psutil

from metrana.errors import ReadFailed, Unavailable
from metrana.system.sources.pseudofiles import parse_cpus, parse_kilobytes, parse_number

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from metrana.system.host import Host

    T = TypeVar("T")

STAT_LIMIT_BYTES = 1 << 20
"""With a thousand CPUs /proc/stat passes 64 KiB, and a line cut short would be a wrong number."""

CPU_COUNT_SECS = 30.0
_IDLE_FIELDS = (3, 4)
_COUNTED_FIELDS = 8


class Memory(NamedTuple):
    """Memory of the machine in bytes; available is the kernel's estimate of what can be had without swapping."""

    total_bytes: int
    available_bytes: int


class CpuTimes(NamedTuple):
    """CPU seconds since boot: those spent on work, and all."""

    busy_secs: float
    total_secs: float


class Disk(NamedTuple):
    """A file system in bytes. ``available_bytes`` is what a user may still write: less than what's free."""

    total_bytes: int
    used_bytes: int
    available_bytes: int


class Procfs:
    """What procfs says about a host. It raises ReadFailed where it says nothing usable."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._process: psutil.Process | None = None
        self._cpu_count = 0
        self._cpu_count_due_secs = 0.0

    def memory(self) -> Memory:
        """Raises ReadFailed."""
        data = self._read("/proc/meminfo")
        total = parse_kilobytes(data, b"MemTotal:")
        if not total:
            raise ReadFailed("/proc/meminfo has no MemTotal")
        available = parse_kilobytes(data, b"MemAvailable:")
        if available is None:
            # Kernels before 3.14, and some sandboxes.
            parts = (parse_kilobytes(data, key) for key in (b"MemFree:", b"Buffers:", b"Cached:"))
            available = sum(part or 0 for part in parts)
        return Memory(total, min(available, total))

    def cpu_count(self) -> int:
        """How many CPUs are online; one that's switched is seen within half a minute. Raises ReadFailed."""
        now = self._host.monotonic()
        if not self._cpu_count or now >= self._cpu_count_due_secs:
            self._cpu_count = self._count_cpus()
            self._cpu_count_due_secs = now + CPU_COUNT_SECS
        return self._cpu_count

    def _count_cpus(self) -> int:
        try:
            # /proc/stat would do, but the kernel adds up every interrupt for it: a millisecond on a large machine.
            cpus = parse_cpus(self._host.read_bytes("/sys/devices/system/cpu/online"))
        except (OSError, ValueError):
            cpus = None
        return len(cpus if cpus else self.cpu_times_by_cpu())

    def cpu_times(self) -> CpuTimes:
        """All CPUs together. Raises ReadFailed."""
        data = self._read("/proc/stat")
        # Its line is the first one, and the others are as many as there are CPUs.
        times = parse_cpu_times(data.partition(b"\n")[0]).get(None) or parse_cpu_times(data).get(None)
        if times is None:
            raise ReadFailed("/proc/stat has no cpu line")
        return times

    def cpu_times_by_cpu(self) -> dict[int, CpuTimes]:
        """By CPU number, which psutil loses. Raises ReadFailed."""
        times = parse_cpu_times(self._read("/proc/stat"))
        by_cpu = {cpu: found for cpu, found in times.items() if cpu is not None}
        if not by_cpu:
            raise ReadFailed("/proc/stat names no CPU")
        return by_cpu

    def disk(self) -> Disk:
        """The root file system. Raises ReadFailed."""
        usage = _translate(lambda: psutil.disk_usage(self._host.path("/")))
        return Disk(usage.total, usage.used, usage.free)

    def process_rss_bytes(self) -> int:
        """Resident memory of the training process. Raises Unavailable when it's gone or hidden, ReadFailed."""
        process = self._process or self._open_process()
        return int(_translate(process.memory_info).rss)

    def process_cpu_secs(self) -> float:
        """CPU time of the training process, user and system, without its children. Raises as process_rss_bytes."""
        process = self._process or self._open_process()
        times = _translate(process.cpu_times)
        return float(times.user + times.system)

    def _open_process(self) -> psutil.Process:
        # psutil knows one procfs at a time and a process remembers the one that it was opened in.
        psutil.PROCFS_PATH = self._host.path("/proc")
        self._process = _translate(lambda: psutil.Process(self._host.pid))
        return self._process

    def _read(self, path: str) -> bytes:
        try:
            return self._host.read_bytes(path, STAT_LIMIT_BYTES)
        except (OSError, ValueError) as error:
            raise ReadFailed(f"{path} can't be read: {error}") from error


def parse_cpu_times(data: bytes) -> dict[int | None, CpuTimes]:
    """The cpu lines of /proc/stat by CPU number, all together under None.

    Guest time isn't added: the kernel counts it in user time already.
    """
    ticks_per_sec = os.sysconf("SC_CLK_TCK")
    found: dict[int | None, CpuTimes] = {}
    for line in data.split(b"\n"):
        if not line.startswith(b"cpu"):
            if found:
                break
            continue
        name, *fields = line.split()
        cpu = parse_number(name[3:])
        ticks = [parse_number(field) for field in fields[:_COUNTED_FIELDS]]
        if (cpu is None and name != b"cpu") or len(ticks) < _IDLE_FIELDS[0] + 1 or None in ticks:
            continue
        total = sum(tick for tick in ticks if tick is not None)
        idle = sum(ticks[field] or 0 for field in _IDLE_FIELDS if field < len(ticks))
        found[cpu] = CpuTimes((total - idle) / ticks_per_sec, total / ticks_per_sec)
    return found


def _translate(call: Callable[[], T]) -> T:
    try:
        return call()
    except psutil.NoSuchProcess as error:
        raise Unavailable("the training process is gone") from error
    except psutil.AccessDenied as error:
        raise Unavailable("the training process is hidden from its own child") from error
    # psutil passes on what parsing a file that makes no sense raises.
    except (psutil.Error, OSError, ValueError, IndexError, KeyError) as error:
        raise ReadFailed(f"{type(error).__name__}: {error}") from error
