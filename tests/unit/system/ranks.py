"""Several processes of a run played in one: a lock belongs to the open file, so each has files of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from metrana.system.claims import Claims
from metrana.system.devices import Device, Hint, resolve

T = TypeVar("T")

KEY = "0123456789abcdef"
GRACE_SECS, HANDOVER_SECS = 45.0, 2.0


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Node:
    """A machine: two folders for lock files, a clock, cards, and processes that come and go."""

    def __init__(self, folder: Path, cards: int = 0) -> None:
        self.folder = folder
        self.shm, self.tmp = folder / "shm", folder / "tmp"
        self.shm.mkdir()
        self.tmp.mkdir()
        self.clock = Clock()
        self.devices = [Device(index, f"GPU-{index:08x}-1111-2222") for index in range(cards)]
        self.count = 0

    @property
    def run_folder(self) -> Path:
        return self.shm / f"metrana-{os.geteuid()}" / KEY

    @property
    def places(self) -> list[tuple[str, str]]:
        return [("shm", str(self.shm)), ("tmp", str(self.tmp))]

    def start(self, key: str = KEY, grace_secs: float = GRACE_SECS, abandoned: Sequence[int] = ()) -> Process:
        self.count += 1
        owner = {"pid": 100 + self.count, "child": 200 + self.count, "rank": self.count - 1, "host": "node7"}
        return Process(self, key, owner, grace_secs, abandoned)


class Process:
    """One process of the run. ``die()`` closes its files, as the kernel does for a process that's killed."""

    def __init__(
        self, node: Node, key: str, owner: Mapping[str, object], grace_secs: float, abandoned: Sequence[int]
    ) -> None:
        self.node = node
        self.owner = owner
        self._fds: set[int] = set()
        self.claims = self._do(
            lambda: Claims(key, node.places, owner, node.clock, grace_secs, HANDOVER_SECS, abandoned)
        )

    def tick(self, is_last: bool = False) -> bool:
        """Whether it reports the node."""
        self._do(lambda: self.claims.tick(is_last))
        return self.claims.holds_node

    def cards(
        self,
        environ: Mapping[str, str] | None = None,
        hint: Hint | None = None,
        devices: Sequence[Device] | None = None,
    ) -> dict[int, str]:
        """The cards that it reports with their labels; ``environ`` says which it drives."""
        found = self.node.devices if devices is None else devices
        resolution = resolve(environ or {}, found, hint)
        return self._do(lambda: self.claims.choose(resolution, found))

    def release(self) -> None:
        self._do(self.claims.release)

    def leave(self) -> None:
        self._do(self.claims.leave)

    def die(self) -> None:
        fds, self._fds = self._fds, set()
        for fd in fds:
            os.close(fd)

    def _do(self, call: Callable[[], T]) -> T:
        before = self._open_files()
        result = call()
        after = self._open_files()
        self._fds = (self._fds & after) | (after - before)
        return result

    def _open_files(self) -> set[int]:
        found = set()
        for name in os.listdir("/proc/self/fd"):
            try:
                if os.readlink(f"/proc/self/fd/{name}").startswith(str(self.node.folder)):
                    found.add(int(name))
            except OSError:
                continue  # that of the listing itself
        return found
