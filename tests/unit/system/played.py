"""Machines to play back: a Host on a tree of tests/data or on a test's own folder, with a clock of its own."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from metrana.system.health import Health
from metrana.system.host import READ_LIMIT_BYTES, Host
from tests.trees import DATA, SUFFIX, unpacked

CASES = sorted(path.stem for path in (DATA / "cgroup").glob(f"*{SUFFIX}"))

STAT = "cpu  400 0 0 3600 0 0 0 0 0 0\n" + "".join(f"cpu{cpu} 100 0 0 900 0 0 0 0 0 0\n" for cpu in range(4))
MEMINFO = "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 600 kB\n"
V2_MOUNT = "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"


class PlayedHost(Host):
    """A played machine. ``inject`` makes reads of a path fail, ``now`` is the clock, ``cpus`` the affinity."""

    def __init__(self, root: Path, inject: dict[str, str] | None = None, cpus: frozenset[int] | None = None) -> None:
        self.now = 1000.0
        self.inject = inject or {}
        self.cpus = cpus
        super().__init__(root=str(root), environ={}, hostname="node7", monotonic=lambda: self.now)

    def read_bytes(self, path: str, limit: int = READ_LIMIT_BYTES, in_parts: bool = False) -> bytes:
        name = self.inject.get(path.lstrip("/"))
        if name is not None:
            code = getattr(errno, name.rpartition(":")[2])
            raise OSError(code, os.strerror(code), path)
        return super().read_bytes(path, limit, in_parts)

    def affinity(self, enough: int = 1) -> frozenset[int] | None:
        return self.cpus

    def move_on(self, secs: float, root: Path | None = None) -> None:
        """Let time pass, and the machine become another one."""
        self.now += secs
        if root is not None:
            self.root = str(root)


def build_tree(root: Path, files: Mapping[str, str]) -> Path:
    """Write files below a folder, by path from there; /proc/stat (4 CPUs) and /proc/meminfo are there anyway."""
    for path, content in {"proc/stat": STAT, "proc/meminfo": MEMINFO, **files}.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    return root


def case_folder(name: str) -> Path:
    """The machine of a case of tests/data/cgroup."""
    return unpacked(f"cgroup/{name}")


def load_case(name: str) -> tuple[PlayedHost, dict[str, Any]]:
    """A case of tests/data/cgroup and what's expected of it."""
    folder = case_folder(name)
    expected: dict[str, Any] = json.loads((folder / "expected.json").read_text())
    return PlayedHost(folder, expected.get("inject")), expected


def build_health() -> Health:
    """A health that fails a test which it warns in."""

    def warn(text: str) -> None:
        raise AssertionError(text)

    return Health(warn)
