"""Where a run's lock files lie, and how they're opened and deleted; who locks them is elsewhere.

::

    /dev/shm/metrana-<uid>/<run key>/present   held shared by each process of the run; whoever holds it alone may delete
                                    node       the claim on the node
                                    gpu-…      the claim on a card
"""

from __future__ import annotations

import os
import stat

from metrana.imports import StdlibFirst

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PRESENT = "present"
SHM, TMP = "shm", "tmp"
PRIVATE = 0o700
_KEY_CHARACTERS = frozenset("0123456789abcdef")
_TEMP_VARIABLES = ("TMPDIR", "TEMP", "TMP")


class CannotClaim(Exception):
    """There's no folder for locks; the message says why."""


def lock_places(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Where lock files may lie, best first: (arbitration mode, folder)."""
    temp = next((environ[name] for name in _TEMP_VARIABLES if environ.get(name)), "/tmp")
    return [(SHM, "/dev/shm"), (TMP, temp)]


def is_key(text: str) -> bool:
    """Whether a text is a run's id: what stands for any names in the names of files."""
    return len(text) == 16 and set(text) <= _KEY_CHARACTERS


def base_name() -> str:
    """The user's own folder in a place."""
    return f"metrana-{os.geteuid()}"


def open_folder(parent_fd: int, name: str) -> int:
    """A folder that nobody but this user can reach into. Raises OSError (a link, a file), CannotClaim."""
    fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent_fd)
    try:
        status = os.fstat(fd)
        if status.st_uid != os.geteuid():
            raise CannotClaim(f"{name} belongs to user {status.st_uid}")
        if stat.S_IMODE(status.st_mode) != PRIVATE:
            os.fchmod(fd, PRIVATE)
        return fd
    except BaseException:
        os.close(fd)
        raise


def open_private(folder_fd: int, name: str) -> int:
    # O_NONBLOCK: what stands there may be a pipe.
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    fd = os.open(name, flags, 0o600, dir_fd=folder_fd)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(f"{name} is no file")
    return fd


def close_all(*fds: int) -> None:
    for fd in fds:
        os.close(fd)


def delete_if_alone(base_fd: int, fd: int, key: str, present_fd: int, try_lock: Callable[[int], bool]) -> None:
    """Delete a run's folder if no process is present. Never raises an Exception."""
    try:
        if not try_lock(present_fd) or os.fstat(present_fd).st_nlink == 0:
            return
        for name in os.listdir(fd):
            if name != PRESENT:
                unlink(fd, name)
        unlink(fd, PRESENT)  # last: until then a newcomer waits for it
        remove_if_empty(base_fd, key)
    except OSError:
        pass  # the place has become unwritable


def remove_if_empty(parent_fd: int, name: str) -> None:
    try:
        os.rmdir(name, dir_fd=parent_fd)
    except OSError:
        pass  # a newcomer has made it anew, or other runs are there


def unlink(folder_fd: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=folder_fd)
    except OSError:
        pass  # gone already, or a folder that isn't ours


def clear(key: str, mode: str, environ: Mapping[str, str]) -> None:
    """Delete what a run has left in the place of that mode, if no process is present. Never raises an Exception.

    For a training process whose child was killed: it has no portalocker, which the child needs a megabyte for.
    """
    with StdlibFirst():
        import fcntl

    def try_lock(fd: int) -> bool:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True

    places = [place for known, place in lock_places(environ) if known == mode]
    for place in places if is_key(key) else ():
        fds: list[int] = []
        try:
            fds.append(os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            fds.append(open_folder(fds[0], base_name()))
            fds.append(open_folder(fds[1], key))
            fds.append(open_private(fds[2], PRESENT))
            delete_if_alone(fds[1], fds[2], key, fds[3], try_lock)
            remove_if_empty(fds[0], base_name())
        except (OSError, CannotClaim):
            pass  # nothing is left there
        finally:
            close_all(*fds)
