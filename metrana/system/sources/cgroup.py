"""Memory and CPU that a process may use and uses: its cgroup, every ancestor that can be seen, and the host.

https://docs.kernel.org/admin-guide/cgroup-v2.html, https://docs.kernel.org/admin-guide/cgroup-v1/
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from metrana.errors import ReadFailed
from metrana.system.sources.cgroup_levels import (
    Controller,
    Level,
    Levels,
    find_counters,
    find_levels,
    find_quota_counters,
)
from metrana.system.sources.procfs import Memory, Procfs
from metrana.system.sources.pseudofiles import (
    divide_quota,
    parse_cpu_max,
    parse_cpus,
    parse_limit,
    parse_number,
    parse_value,
)

if TYPE_CHECKING:
    from metrana.system.host import Host

HOST = "host"
QUOTA = "quota"
CPUSET = "cpuset"
AFFINITY = "affinity"
SAME_TICK_SECS = 0.05
MOUNTS_SECS = 30.0  # the kernel writes the whole list anew for each reader, and it hardly ever changes
_STAT = "/proc/stat"
_MOUNTINFO_LIMIT_BYTES = 1 << 20
_USAGE_FILES = {1: "memory.usage_in_bytes", 2: "memory.current"}
# On v1 the usage counts the children, so what's taken off must count them too.
_INACTIVE_KEYS = {1: (b"total_inactive_file ", b"inactive_file "), 2: (b"inactive_file ",)}


class MemoryReading(NamedTuple):
    """The tightest memory limit and the working set at its level, in bytes; None where even the host says nothing.

    ``limit_from`` is the level's folder, or "host". The working set is the usage without inactive file pages, as the
    kubelet counts it; of the host it's MemTotal - MemAvailable.
    """

    limit_bytes: int | None
    limit_from: str
    used_bytes: int | None


class CpuReading(NamedTuple):
    """The tightest CPU limit in cores, and the CPU seconds used under it since some fixed time.

    ``limit_cores`` is None where the host is the limit. ``limit_from`` is the level's folder, "affinity" or "host";
    ``kind`` is "quota", "cpuset", "affinity" or "host". ``used_secs`` is None where no counter could be read, else
    ``counter`` names the file. ``passed_secs`` is the CPU time that passed, idle or not, on the very CPUs counted;
    None where ``counter`` is a cgroup's and only the clock tells.
    """

    limit_cores: float | None
    limit_from: str
    kind: str
    used_secs: float | None
    passed_secs: float | None
    counter: str


class Cgroup:
    """The limits and the usage of ``host``'s process. Everything is read anew each time, and nothing in it raises.

    A file that's hidden, vanished or nonsense means that its level sets no limit; the others count.
    """

    def __init__(self, host: Host, procfs: Procfs | None = None) -> None:
        self._host = host
        self._procfs = Procfs(host) if procfs is None else procfs
        self._levels: Levels | None = None
        self._membership = b""
        self._mounts = b""
        self._looked_secs = 0.0
        self._mounts_due_secs = 0.0

    @classmethod
    def of(cls, host: Host) -> Cgroup:
        """The one that all of a host's collectors share: a tick looks once for where the process is."""
        shared = host.sources.get(cls)
        if not isinstance(shared, cls):
            shared = host.sources[cls] = cls(host)
        return shared

    def levels(self) -> Levels:
        """Where the process is now: a move is followed at the next tick, a new mount within half a minute."""
        now = self._host.monotonic()
        if self._levels is None or not 0 <= now - self._looked_secs < SAME_TICK_SECS:
            self._looked_secs = now
            own = self._host.proc_self
            membership = self._read(f"{own}/cgroup", in_parts=True)
            if self._levels is None or membership != self._membership or now >= self._mounts_due_secs:
                mounts = self._read(f"{own}/mountinfo", _MOUNTINFO_LIMIT_BYTES, in_parts=True)
                self._mounts_due_secs = now + MOUNTS_SECS
                if self._levels is None or (membership, mounts) != (self._membership, self._mounts):
                    self._levels = find_levels(self._host, membership, mounts)
                    self._membership, self._mounts = membership, mounts
        return self._levels

    def memory(self) -> MemoryReading:
        """The tightest limit of all levels and the host; of equal ones the outermost cgroup's."""
        controller = self.levels().memory
        try:
            host: Memory | None = self._procfs.memory()
        except ReadFailed:
            host = None
        for limit, position in self._find_memory_limits(controller, None if host is None else host.total_bytes):
            # Where the level shows its limit but hides its usage, the next one inside answers. Where none does, nothing
            # can be measured against that limit: the next tightest counts.
            for level in controller.levels[position::-1]:
                used = self._read_working_set(controller.version, level.folder)
                if used is not None:
                    return MemoryReading(limit, controller.levels[position].folder, used)
        if host is None:
            return MemoryReading(None, HOST, None)
        return MemoryReading(host.total_bytes, HOST, host.total_bytes - host.available_bytes)

    def cpu(self) -> CpuReading:
        """The smallest of quota, cpuset, affinity and the host's cores; of equal ones the quota, then the cpuset."""
        levels = self.levels()
        host_cores = self.host_cores()
        cpus, cpuset_level = self._find_allowed_cpus(levels.cpuset, host_cores)
        cores = host_cores if cpus is None else len(cpus)
        quota, position = self._find_quota(levels.cpu)
        limit = None if cpus is None else float(len(cpus))
        files: Iterator[str] = iter(())
        if quota is not None and (cores is None or quota <= cores):
            limit, kind, where = quota, QUOTA, levels.cpu.levels[position].folder
            files = find_quota_counters(levels, position)
        elif cpus is None:
            kind = where = HOST
        elif cpuset_level is None:
            kind = where = AFFINITY
        else:
            kind, where = CPUSET, cpuset_level.folder
            files = find_counters(levels, cpuset_level)
        for file in files:
            used = self._read_cpu_secs(file)
            if used is not None:
                return CpuReading(limit, where, kind, used, None, file)
        busy, passed = self._read_host_cpu_secs(cpus)
        return CpuReading(limit, where, kind, busy, None if kind == QUOTA else passed, _STAT)

    def host_cores(self) -> int | None:
        """How many CPUs the host has online; None where it doesn't say."""
        try:
            return self._procfs.cpu_count()
        except ReadFailed:
            return None

    def memory_limits(self) -> list[tuple[str, int | None]]:
        """Each level's folder and memory limit in bytes, the own one first."""
        version, levels = self.levels().memory
        return [(level.folder, self._read_memory_limit(version, level.folder)) for level in levels]

    def cpu_quotas(self) -> list[tuple[str, float | None]]:
        """Each level's folder and CPU quota in cores, the own one first."""
        version, levels = self.levels().cpu
        return [(level.folder, self._read_quota(version, level.folder)) for level in levels]

    def _find_memory_limits(self, controller: Controller, most_bytes: int | None) -> list[tuple[int, int]]:
        """Each limit up to ``most_bytes`` and its level's position: the tightest first, of equal ones the outermost."""
        version, levels = controller
        limits: list[tuple[int, int]] = []
        hidden_position: int | None = None
        for position, (folder, _) in enumerate(levels):
            limit = self._read_memory_limit(version, folder)
            if limit is None:
                hidden_position = position
                continue
            if most_bytes is not None and limit > most_bytes:
                continue
            # A v1 ancestor without use_hierarchy isn't charged for its children.
            if version == 1 and position and parse_number(self._read(f"{folder}/memory.use_hierarchy")) == 0:
                continue
            limits.append((limit, position))
        limits.sort(key=lambda found: (found[0], -found[1]))
        if version == 1 and levels:
            # The kernel's own answer, which knows of ancestors that the mount hides. The limit is then at a level that
            # doesn't show it, or above the outermost one.
            stat = self._read(f"{levels[0].folder}/memory.stat")
            hierarchical = parse_value(stat, b"hierarchical_memory_limit ") or None
            if hierarchical is not None and most_bytes is not None and hierarchical > most_bytes:
                hierarchical = None
            if hierarchical is not None and (not limits or hierarchical < limits[0][0]):
                limits.insert(0, (hierarchical, len(levels) - 1 if hidden_position is None else hidden_position))
        return limits

    def _read_memory_limit(self, version: int, folder: str) -> int | None:
        # memory.high, the soft limit and the limits with swap aren't asked: a process isn't killed for passing them.
        return parse_limit(self._read(f"{folder}/memory.max" if version == 2 else f"{folder}/memory.limit_in_bytes"))

    def _read_working_set(self, version: int, folder: str) -> int | None:
        usage = parse_number(self._read(f"{folder}/{_USAGE_FILES[version]}"))
        if usage is None:
            return None
        stat = self._read(f"{folder}/memory.stat")
        for key in _INACTIVE_KEYS[version]:
            inactive = parse_value(stat, key)
            if inactive is not None:
                # The two files aren't read in one moment, so the difference may be negative.
                return max(0, usage - inactive)
        return usage

    def _find_quota(self, controller: Controller) -> tuple[float | None, int]:
        """The tightest quota in cores and the position of its level."""
        best: float | None = None
        best_position = 0
        for position, (folder, _) in enumerate(controller.levels):
            quota = self._read_quota(controller.version, folder)
            if quota is not None and (best is None or quota <= best):
                best, best_position = quota, position
        return best, best_position

    def _read_quota(self, version: int, folder: str) -> float | None:
        if version == 2:
            return parse_cpu_max(self._read(f"{folder}/cpu.max"))
        quota = parse_number(self._read(f"{folder}/cpu.cfs_quota_us"))
        return divide_quota(quota, parse_number(self._read(f"{folder}/cpu.cfs_period_us"))) if quota else None

    def _find_allowed_cpus(
        self, cpuset: Controller, host_cores: int | None
    ) -> tuple[frozenset[int] | None, Level | None]:
        """The CPUs that the process is bound to and the level that says so, no level where it's the affinity."""
        cpus: frozenset[int] | None = None
        narrowing: Level | None = None
        for level in cpuset.levels:
            found = self._read_cpuset(cpuset.version, level.folder)
            if found is None:
                continue
            if cpus is None and (host_cores is None or len(found) < host_cores):
                cpus = found
            elif found != cpus:
                break
            narrowing = level
        enough = len(cpus) if cpus is not None else host_cores
        try:
            affinity = self._host.affinity(enough or 1)
        except OSError:
            affinity = None
        if affinity and (enough is None or len(affinity) < enough):
            return affinity, None
        return cpus, narrowing

    def _read_cpuset(self, version: int, folder: str) -> frozenset[int] | None:
        if version == 2:
            return parse_cpus(self._read(f"{folder}/cpuset.cpus.effective"))
        cpus = parse_cpus(self._read(f"{folder}/cpuset.effective_cpus"))
        return parse_cpus(self._read(f"{folder}/cpuset.cpus")) if cpus is None else cpus

    def _read_cpu_secs(self, file: str) -> float | None:
        data = self._read(file)
        if file.endswith("/cpu.stat"):
            usecs = parse_value(data, b"usage_usec ")
            return None if usecs is None else usecs / 1e6
        nsecs = parse_number(data)
        return None if nsecs is None else nsecs / 1e9

    def _read_host_cpu_secs(self, cpus: frozenset[int] | None) -> tuple[float | None, float | None]:
        """Busy and passed seconds of some of the host's CPUs, or of all."""
        try:
            if cpus is None:
                return self._procfs.cpu_times()
            by_cpu = self._procfs.cpu_times_by_cpu()
        except ReadFailed:
            return None, None
        # lxcfs counts the CPUs of a container from 0, its cpuset doesn't.
        times = [by_cpu[cpu] for cpu in cpus if cpu in by_cpu] or list(by_cpu.values())
        return sum(busy for busy, _ in times), sum(passed for _, passed in times)

    def _read(self, path: str, limit_bytes: int = 1 << 16, in_parts: bool = False) -> bytes:
        try:
            return self._host.read_bytes(path, limit_bytes, in_parts)
        except (OSError, ValueError):
            return b""
