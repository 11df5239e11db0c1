"""Parsers of what the kernel says about a process's cgroups and where they're mounted. Pure, and they never raise.

proc(5), https://docs.kernel.org/admin-guide/cgroup-v2.html#namespace, https://docs.kernel.org/admin-guide/cgroup-v1/
"""

from __future__ import annotations

import os
from typing import NamedTuple, TypeAlias

PATH_LIMIT_BYTES = 4096

Names: TypeAlias = tuple[str, ...]
"""A path as the names between its slashes. Leading ``..`` lead out of the cgroup namespace's root."""


class Membership(NamedTuple):
    """A process's path in each hierarchy: by v1 controller, and in the v2 hierarchy."""

    v1: dict[bytes, Names]
    v2: Names | None


class Mount(NamedTuple):
    """A cgroup mount. ``root`` is the hierarchy's folder that stands at ``point``; v2 has no ``controllers``."""

    version: int
    root: Names
    point: str
    controllers: frozenset[bytes]


def parse_membership(data: bytes) -> Membership:
    """Parse ``/proc/<pid>/cgroup``; lines that make no sense are skipped."""
    v1: dict[bytes, Names] = {}
    v2: Names | None = None
    for line in data.split(b"\n"):
        # A path may hold colons: containerd joins slice, prefix and name with them.
        fields = line.split(b":", 2)
        if len(fields) != 3 or not fields[0].isdigit():
            continue
        hierarchy, controllers, path = fields
        names = _split_path(path)
        if names is None:
            continue
        if hierarchy == b"0":
            if not controllers and v2 is None:
                v2 = names
        elif controllers:
            for controller in controllers.split(b","):
                v1.setdefault(controller, names)
    return Membership(v1, v2)


def parse_mounts(data: bytes) -> tuple[Mount, ...]:
    """The cgroup mounts in ``/proc/<pid>/mountinfo``; a mount that another one covers is left out."""
    mounts: dict[bytes, Mount] = {}
    for line in data.split(b"\n"):
        left, dash, right = line.partition(b" - ")
        if not dash or not right.startswith(b"cgroup"):
            continue
        fields = left.split(b" ")
        # The last field may hold raw spaces (drive letters of WSL2), the one before it may be empty.
        kind, _, rest = right.partition(b" ")
        if len(fields) < 6 or kind not in (b"cgroup", b"cgroup2"):
            continue
        root, point = _split_path(_unescape(fields[3])), _unescape(fields[4])
        if root is None or not point.startswith(b"/") or b"\0" in point:
            continue
        version = 2 if kind == b"cgroup2" else 1
        options = rest.partition(b" ")[2].split(b",") if version == 1 else ()
        # The later of two mounts at one point is the one that's seen; it must also take the later place.
        mounts.pop(point, None)
        mounts[point] = Mount(version, root, os.fsdecode(point).rstrip("/"), frozenset(options))
    return tuple(mounts.values())


def find_below(path: Names, root: Names) -> Names | None:
    """The part of a path below a mount's root, or None where the path doesn't lie below it."""
    below = path[len(root) :]
    return None if path[: len(root)] != root or ".." in below else below


def is_nameless_ancestor(root: Names, path: Names) -> bool:
    """Whether a mount's root lies above a path by levels whose names the cgroup namespace hides."""
    ups = next((i for i, name in enumerate(path) if name != ".."), len(path))
    return len(root) > ups and all(name == ".." for name in root)


def _split_path(path: bytes) -> Names | None:
    if not path.startswith(b"/") or len(path) > PATH_LIMIT_BYTES or b"\0" in path:
        return None
    return tuple(name for name in os.fsdecode(path).split("/") if name)


def _unescape(field: bytes) -> bytes:
    if b"\\" not in field:
        return field
    for code, char in ((b"\\040", b" "), (b"\\011", b"\t"), (b"\\012", b"\n"), (b"\\134", b"\\")):
        field = field.replace(code, char)
    return field
