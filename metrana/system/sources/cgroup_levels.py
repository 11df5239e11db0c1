"""Find the folders of a process's cgroup and of its ancestors, hierarchy by hierarchy."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from metrana.system.sources.cgroup_mounts import (
    Mount,
    Names,
    find_below,
    is_nameless_ancestor,
    parse_membership,
    parse_mounts,
)

if TYPE_CHECKING:
    from metrana.system.host import Host

PIDS_LIMIT_BYTES = 1 << 20
FOLDERS_SEARCHED = 2000
_USUAL_PLACE = "/sys/fs/cgroup"


class Level(NamedTuple):
    """One cgroup: its folder, and the names of its path, which find it again in another hierarchy."""

    folder: str
    names: Names


class Controller(NamedTuple):
    """Where one controller is set. ``levels`` go from the process's own cgroup out to the mount point."""

    version: int
    levels: tuple[Level, ...]


class Levels(NamedTuple):
    """The levels of each controller. ``version`` is 1, 2, "hybrid" or None; ``unified`` are those of the v2 mount."""

    version: int | str | None
    memory: Controller
    cpu: Controller
    cpuacct: Controller
    cpuset: Controller
    unified: tuple[Level, ...]


NOWHERE = Controller(0, ())


def find_levels(host: Host, cgroup: bytes, mountinfo: bytes) -> Levels:
    """Resolve the raw ``/proc/<pid>/cgroup`` and ``mountinfo``. Never raises.

    A controller is v1 where a v1 line and a v1 mount name it. That a v2 hierarchy is mounted proves nothing: in hybrid
    setups it's often empty, and sometimes it holds memory alone.
    """
    member, mounts = parse_membership(cgroup), parse_mounts(mountinfo)
    v2_mounts = [mount for mount in mounts if mount.version == 2]
    has_v1 = any(not mount.controllers.isdisjoint(member.v1) for mount in mounts)
    has_v2 = member.v2 is not None and bool(v2_mounts)
    unified = _find_folders(host, member.v2, v2_mounts) if member.v2 is not None else ()

    def find(name: bytes) -> Controller:
        path = member.v1.get(name)
        named = [mount for mount in mounts if name in mount.controllers]
        if path is not None and named:
            return Controller(1, _find_folders(host, path, named))
        return Controller(2, unified) if unified else NOWHERE

    return Levels(
        "hybrid" if has_v1 and has_v2 else 1 if has_v1 else 2 if has_v2 else None,
        find(b"memory"),
        find(b"cpu"),
        find(b"cpuacct"),
        find(b"cpuset"),
        unified,
    )


def _find_folders(host: Host, path: Names, mounts: list[Mount]) -> tuple[Level, ...]:
    """The levels in the mount that shows most of them: one that has the own folder first, then the most ancestors."""
    best: tuple[Level, ...] = ()
    best_rank = (False, 0, False)
    for mount in mounts:
        below = find_below(path, mount.root)
        if below is None and is_nameless_ancestor(mount.root, path):
            below = _search(host, mount.point)
        if below is None:
            continue
        levels = _climb(host, mount, below)
        rank = (len(levels) == len(below) + 1, len(levels), mount.point.startswith(_USUAL_PLACE))
        if levels and rank > best_rank:
            best, best_rank = levels, rank
    if best:
        return best
    # A process that was moved out of what its mounts show: the mount point is the nearest thing to its cgroup.
    for mount in sorted(mounts, key=lambda mount: not mount.point.startswith(_USUAL_PLACE)):
        if find_below(path, mount.root) is None and not is_nameless_ancestor(mount.root, path):
            levels = _climb(host, mount, ())
            if levels:
                return levels
    return ()


def _climb(host: Host, mount: Mount, below: Names) -> tuple[Level, ...]:
    """The levels from the nearest folder that exists up to and including the mount point.

    The own one is missing when it was removed (its path ends in " (deleted)") and in v1 containers that see the path
    of the host; the limit is then at the mount point.
    """
    names = list(below)
    while not host.is_dir(_folder(mount.point, names)):
        if not names:
            return ()
        names.pop()
    return tuple(
        Level(_folder(mount.point, names[:count]), mount.root + tuple(names[:count]))
        for count in range(len(names), -1, -1)
    )


def _folder(point: str, names: list[str]) -> str:
    return "/".join((point, *names)) or "/"


def _search(host: Host, point: str) -> Names | None:
    """The path below a mount point of the folder whose cgroup.procs names the process, within a bounded search."""
    if host.pid <= 0:
        return None  # unknown; the kernel writes 0 for processes of other pid namespaces
    wanted = b"%d" % host.pid
    waiting: deque[Names] = deque([()])
    for _ in range(FOLDERS_SEARCHED):
        if not waiting:
            return None
        names = waiting.popleft()
        folder = _folder(point, list(names))
        try:
            if wanted in host.read_bytes(f"{folder}/cgroup.procs", PIDS_LIMIT_BYTES, in_parts=True).split():
                return names
        except (OSError, ValueError):
            pass  # a folder that can't be read may still have children that can
        try:
            waiting.extend((*names, name) for name in host.list_folders(folder))
        except (OSError, ValueError):
            continue
    return None


def find_quota_counters(levels: Levels, position: int) -> Iterator[str]:
    """The counters to try for a quota: its own level's, then those inside it."""
    for level in levels.cpu.levels[position::-1]:
        if levels.cpu.version == 2:
            yield f"{level.folder}/cpu.stat"
        else:
            yield from find_counters(levels, level)
    # cpuacct may be mounted apart with paths of its own. Its root counts the whole machine.
    if levels.cpuacct.version == 1 and levels.cpuacct.levels and levels.cpuacct.levels[0].names:
        yield f"{levels.cpuacct.levels[0].folder}/cpuacct.usage"


def find_counters(levels: Levels, level: Level) -> Iterator[str]:
    """The counters of the cgroup that has a level's path in the hierarchies that account for CPU time."""
    is_v1 = levels.cpuacct.version == 1
    if is_v1:
        yield from (f"{other.folder}/cpuacct.usage" for other in levels.cpuacct.levels if other.names == level.names)
    # A v2 hierarchy counts at every level, also without controllers.
    if level.names or not is_v1:
        yield from (f"{other.folder}/cpu.stat" for other in levels.unified if other.names == level.names)
