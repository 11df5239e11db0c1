"""The private folder that holds a run's lock files on this node: found, entered, left, swept.

Nothing in a folder is deleted but by a process that holds ``present`` exclusively. So as long as one process of the run
lives, a name stands for one and the same file, and two processes never hold "the same" lock on two files.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable

from metrana.system.lock_files import (
    PRESENT,
    PRIVATE,
    CannotClaim,
    base_name,
    close_all,
    delete_if_alone,
    is_key,
    open_folder,
    open_private,
    remove_if_empty,
    unlink,
)
from metrana.system.locks import try_lock

_ENTER_ATTEMPTS, _ENTER_PAUSE_SECS = 400, 0.005
"""A newcomer under whose hands the folder is deleted waits for the end of that, which takes microseconds unless the one
who deletes has to wait for a CPU. Who gave up early would be in another place than the others."""
_SWEPT_AT_ONCE = 1000


class ClaimFolder:
    """This process's presence among those of the run ``key`` on this node, from its making until ``leave()``."""

    def __init__(self, key: str, places: Iterable[tuple[str, str]]) -> None:
        """Enter the first place that serves. Raises CannotClaim with the reasons where none does."""
        if not is_key(key):
            raise CannotClaim(f"{key!r} is no run key")
        self.key = key
        reasons = []
        for mode, place in places:
            try:
                self._place_fd, self._base_fd, self._fd, self._present_fd = _enter(place, key)
            except (OSError, CannotClaim, ImportError) as error:
                reasons.append(f"{place}: {getattr(error, 'strerror', None) or error}")
                continue
            self.mode = mode
            self.path = os.path.join(place, base_name(), key)
            return
        raise CannotClaim("; ".join(reasons) or "no place for lock files")

    @property
    def is_whole(self) -> bool:
        """False when somebody has deleted the folder under the run, as a clean-up of /dev/shm at a logout does."""
        return os.fstat(self._present_fd).st_nlink > 0

    def open_file(self, name: str) -> int:
        """A lock file of the run, made where it isn't there. Raises OSError."""
        return open_private(self._fd, name)

    def delete_file(self, name: str) -> None:
        """Only for a file whose holder can't be ended and is no longer to count. Never raises an Exception."""
        unlink(self._fd, name)

    def leave(self) -> None:
        """Be no longer present; the last one to leave deletes the folder. Never raises an Exception."""
        delete_if_alone(self._base_fd, self._fd, self.key, self._present_fd, try_lock)
        remove_if_empty(self._place_fd, base_name())
        close_all(self._present_fd, self._fd, self._base_fd, self._place_fd)

    def sweep(self) -> None:
        """Delete what the processes of other runs have left that were killed. Never raises an Exception."""
        try:
            keys = [name for name in os.listdir(self._base_fd)[:_SWEPT_AT_ONCE] if is_key(name) and name != self.key]
        except OSError:
            return
        for key in keys:
            try:
                fd = open_folder(self._base_fd, key)
            except (OSError, CannotClaim):
                continue
            try:
                present_fd = open_private(fd, PRESENT)
                try:
                    delete_if_alone(self._base_fd, fd, key, present_fd, try_lock)
                finally:
                    os.close(present_fd)
            except OSError:
                pass  # somebody else sweeps it, too
            finally:
                os.close(fd)


def _make_folder(parent_fd: int, name: str) -> int:
    try:
        os.mkdir(name, PRIVATE, dir_fd=parent_fd)
    except FileExistsError:
        pass
    return open_folder(parent_fd, name)


def _enter(place: str, key: str) -> tuple[int, int, int, int]:
    """The place, the user's own folder in it, the run's in that, and its file ``present``, locked shared.

    Raises OSError, CannotClaim.
    """
    for _ in range(_ENTER_ATTEMPTS):
        fds = [os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
        try:
            fds.append(_make_folder(fds[0], base_name()))
            fds.append(_make_folder(fds[1], key))
            fds.append(open_private(fds[2], PRESENT))
            # Held exclusively for a moment by one who deletes; what was opened then is no longer in the folder.
            if try_lock(fds[3], is_shared=True) and os.fstat(fds[3]).st_nlink > 0:
                return fds[0], fds[1], fds[2], fds[3]
        except FileNotFoundError:
            pass  # a folder was deleted since
        except BaseException:  # whatever it was: what has been made and opened so far is given back
            if len(fds) > 2:
                remove_if_empty(fds[1], key)
            if len(fds) > 1:
                remove_if_empty(fds[0], base_name())
            close_all(*fds)
            raise
        close_all(*fds)
        time.sleep(_ENTER_PAUSE_SECS)
    raise CannotClaim(f"{key} is deleted again and again")
