"""One lock file: the lock is the claim, the content says who has it and what a successor goes on from."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Mapping
from typing import Any

from metrana.system.claim_folder import ClaimFolder
from metrana.system.locks import try_lock

OWNER_BYTES = 512
STATE_BYTES = 4096
RELEASED = "released"


class Claim:
    """A claim by its file's name in the run's folder. ``owner`` is what the file says of this process."""

    def __init__(
        self, folder: ClaimFolder, name: str, owner: Mapping[str, object], monotonic: Callable[[], float]
    ) -> None:
        self._folder = folder
        self._name = name
        self._owner = owner
        self._monotonic = monotonic
        self._fd = -1
        self._left: dict[str, Any] = {}
        self.is_held = False

    def take(self, abandoned: Collection[int] = (), only_left: bool = False, left_alone_secs: float = 0.0) -> bool:
        """Take the claim unless another process has it; True when it's this one's.

        ``abandoned`` are children of this process's own that can't be ended and no longer count. ``only_left`` takes no
        claim but one whose holder died. One that was given back in order is ``left_alone_secs``. Raises OSError.
        """
        self.check()
        if self.is_held:
            return True
        if self._fd < 0:
            self._fd = self._folder.open_file(self._name)
        if only_left or left_alone_secs > 0:
            # Empty: made, and not yet locked by the one who drives the card.
            content = read_owner(self._fd)
            if (only_left and "pid" not in content) or self._was_released(content, left_alone_secs):
                return False
        if not try_lock(self._fd):
            if not self._is_abandoned(abandoned):
                return False
            self._folder.delete_file(self._name)
            self._close()
            self._fd = self._folder.open_file(self._name)
            if not try_lock(self._fd):
                return False
        self.is_held = True
        self._left = _read_object(self._fd, STATE_BYTES, OWNER_BYTES)
        self._write(json.dumps(self._owner)[: OWNER_BYTES - 1].ljust(OWNER_BYTES), 0)
        return True

    def check(self) -> None:
        """Lose the claim if its file has been deleted: another one has the name now, or will. Raises OSError."""
        if self._fd >= 0 and os.fstat(self._fd).st_nlink == 0:
            self._close()

    def inherited(self) -> dict[str, Any]:
        """What the holder before has handed down; nothing after the first call."""
        left, self._left = self._left, {}
        return left

    def hand_down(self, state: Mapping[str, Any]) -> None:
        """What a successor goes on from when this process is killed."""
        self._write(json.dumps(state)[: STATE_BYTES - 1].ljust(STATE_BYTES), OWNER_BYTES)

    def release(self) -> None:
        """Give it back in order: nothing is left to be taken over. Never raises an Exception."""
        if self.is_held:
            self._write(json.dumps({RELEASED: self._monotonic()}).ljust(OWNER_BYTES), 0)
        self._close()

    def _close(self) -> None:
        fd, self._fd, self.is_held = self._fd, -1, False
        if fd >= 0:
            os.close(fd)

    def _was_released(self, content: Mapping[str, Any], secs: float) -> bool:
        """Whether the holder gave it back no longer ago. A time yet to come is of another boot, or no time at all."""
        released = content.get(RELEASED)
        now = self._monotonic()
        return isinstance(released, (int, float)) and now - secs < released <= now

    def _is_abandoned(self, abandoned: Collection[int]) -> bool:
        content = read_owner(self._fd) if abandoned else {}
        return any(content == {**self._owner, "child": child} for child in abandoned)

    def _write(self, text: str, offset: int) -> None:
        try:
            os.pwrite(self._fd, text.encode("ascii"), offset)
        except OSError:
            pass  # no space left: the lock holds all the same


def read_owner(fd: int) -> dict[str, Any]:
    """What a lock file says of its holder, nothing where it makes no sense. Never raises an Exception."""
    return _read_object(fd, OWNER_BYTES, 0)


def _read_object(fd: int, size: int, offset: int) -> dict[str, Any]:
    try:
        found = json.loads(os.pread(fd, size, offset) or b"{}")
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
