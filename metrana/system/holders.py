"""Who holds which claim now, as the lock files say. They're only looked at, never locked, made or changed."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, NamedTuple

from metrana.system.claim import read_owner
from metrana.system.claims import GPU_PREFIX, NODE
from metrana.system.lock_files import base_name, is_key, lock_places

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metrana.system.host import Host

_LISTED = 1000  # entries of a folder; more is no listing


class Holder(NamedTuple):
    """Who holds a claim. ``is_alive`` is None where the host at hand doesn't know: the file is another one's."""

    mode: str
    run_id: str
    file: str
    pid: int
    rank: int | None
    host: str
    is_alive: bool | None


def list_holders(host: Host) -> list[Holder]:
    """The claims of this user's runs on the node and its cards, by place, run and file. Never raises an Exception.

    What was given back, or never taken, isn't there. The one of a process that's gone is, until somebody takes it over.
    """
    holders: list[Holder] = []
    for mode, place in lock_places(host.environ):
        base = os.path.join(host.path(place), base_name())
        for run_id in _list_folder(base):
            for name in _list_folder(os.path.join(base, run_id)) if is_key(run_id) else ():
                if name == NODE or name.startswith(GPU_PREFIX):
                    holders += _read_holder(host, mode, base, run_id, name)
    return holders


def _list_folder(path: str) -> list[str]:
    try:
        fd = _open_own(path, os.O_DIRECTORY)
    except OSError:
        return []
    try:
        return sorted(os.listdir(fd)[:_LISTED])
    except OSError:
        return []
    finally:
        os.close(fd)


def _read_holder(host: Host, mode: str, base: str, run_id: str, name: str) -> Iterator[Holder]:
    try:
        fd = _open_own(os.path.join(base, run_id, name))
    except OSError:
        return
    try:
        owner = read_owner(fd)
    finally:
        os.close(fd)
    pid, child, rank = (_find_int(owner.get(key)) for key in ("pid", "child", "rank"))
    if pid is None:
        return
    where = str(owner.get("host", ""))
    is_alive = _is_alive(host, pid, child) if where == host.hostname else None
    yield Holder(mode, run_id, name, pid, rank, where, is_alive)


def _open_own(path: str, flags: int = 0) -> int:
    """A file or folder of this user's, no link and no pipe. Raises OSError."""
    fd = os.open(path, flags | os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    status = os.fstat(fd)
    if status.st_uid != os.geteuid() or not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        os.close(fd)
        raise PermissionError(f"{path} isn't this user's")
    return fd


def _is_alive(host: Host, pid: int, child: int | None) -> bool:
    """Whether the process that holds the lock, the training process's child, lives: proc(5), fields 3 and 4."""
    try:
        state, parent = host.read_bytes(f"/proc/{child}/stat").rpartition(b")")[2].split()[:2]
        return state not in (b"Z", b"X") and int(parent) == pid
    except (OSError, ValueError):
        return False


def _find_int(found: object) -> int | None:
    return found if isinstance(found, int) and not isinstance(found, bool) else None
