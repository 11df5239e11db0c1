"""Descriptors that are surely still the ones that metrana opened.

A script that makes a daemon of itself closes every number it can (``os.closerange(3, 65536)``), and its own files get
these numbers next. Writing to them or closing them would destroy what is the user's.
"""

from __future__ import annotations

import os


class OwnDescriptor:
    """A descriptor, and the file, pipe or socket it was opened on: while both fit together, it's ours.

    Between the look and what is done then, another thread may close it: microseconds, where it was hours.
    """

    __slots__ = ("_file", "fd")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._file = _read_file(fd)

    def is_ours(self) -> bool:
        return self._file is not None and _read_file(self.fd) == self._file

    def close(self) -> None:
        """Close it if it's ours."""
        if self.is_ours():
            os.close(self.fd)
        self._file = None


def _read_file(fd: int) -> tuple[int, int] | None:
    try:
        status = os.fstat(fd)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def above_standard(fd: int) -> int:
    """The file of ``fd`` under a number above 2; ``fd`` itself is closed then. Raises OSError.

    Where a script runs without a standard output, what its libraries and programs write there goes to whatever has the
    number 1.
    """
    taken = []
    try:
        while fd <= 2:
            taken.append(fd)
            fd = os.dup(fd)
    finally:
        for number in taken:
            os.close(number)
    return fd
