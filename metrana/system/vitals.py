"""What the sampling child is at, in memory that the training process can read when the child is dead or silent.

A message on the queue wouldn't do: the thread that feeds it may not have sent it when the crash comes. This is a few
bytes of a file without a name (memfd_create(2)), written directly.
"""

from __future__ import annotations

import os
import time

from metrana.descriptors import OwnDescriptor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

LOOP, DEVICES = 0, 1
"""The places that are told apart: the loop of the child, and the thread that reads the driver."""
_PLACES = (LOOP, DEVICES)
_PLACE_BYTES = 64
_NO_FD = -1  # kernels and Pythons without memfd_create: then nothing is known


class Sign:
    """``what`` is being read at a place, "" for nothing; ``until`` is when the next sign is due at the latest."""

    __slots__ = ("what", "until")

    def __init__(self, what: str, until: float) -> None:
        self.what = what
        self.until = until

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sign) and (self.what, self.until) == (other.what, other.until)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Sign({self.what!r}, {self.until!r})"


class Vitals:
    """Written by the child with ``enter`` and ``rest``, read by the parent with ``read``. Times are time.monotonic's,
    which is one clock for all processes of a machine."""

    def __init__(self, fd: int | None = None, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._fd = _make_memory() if fd is None else fd
        self._own = OwnDescriptor(self._fd)
        self._monotonic = monotonic

    def enter(self, place: int, what: str, limit_secs: float) -> None:
        """``what`` is about to be read at a place and should take no longer than that."""
        self._write(place, what, self._monotonic() + limit_secs)

    def rest(self, place: int, until: float = 0.0) -> None:
        """Nothing is being read there; the next sign is due ``until`` then, 0 for whenever."""
        self._write(place, "", until)

    def read(self) -> tuple[Sign, ...]:
        """The sign of each place. Never raises an Exception."""
        signs = []
        fd = self._fd if self._own.is_ours() else _NO_FD
        for place in _PLACES:
            try:
                text = os.pread(fd, _PLACE_BYTES, place * _PLACE_BYTES).decode("ascii", "replace")
                until, _, what = text.strip("\0 ").partition(" ")
                signs.append(Sign(what, float(until or 0.0)))
            except (OSError, ValueError):
                signs.append(Sign("", 0.0))
        return tuple(signs)

    def close(self) -> None:
        self._fd = _NO_FD
        self._own.close()

    def _write(self, place: int, what: str, until: float) -> None:
        if self._fd >= 0:
            text = f"{until:.3f} {what}"[:_PLACE_BYTES].ljust(_PLACE_BYTES)
            os.pwrite(self._fd, text.encode("ascii", "replace"), place * _PLACE_BYTES)

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickled while the child is launched, which passes it the descriptor.
        from multiprocessing import reduction

        return (_receive, (reduction.DupFd(self._fd) if self._fd >= 0 else None,))


def _make_memory() -> int:
    try:
        return os.memfd_create("metrana-vitals", os.MFD_CLOEXEC)
    except (AttributeError, OSError):
        return _NO_FD


def _receive(duplicate: Any) -> Vitals:
    return Vitals(_NO_FD if duplicate is None else duplicate.detach())
