"""The index on disk: a manifest, and files of columns that are mapped into memory and never changed.

::

    <run folder>/.index/manifest.json       what has been read, and where each piece of a series stands
    <run folder>/.index/<token>.columns     a head with the token, then arrays of 8-byte numbers

A manifest is replaced as a whole, and names the files that belong to it by their tokens and sizes: one that was torn,
copied in part or made by another version is noticed, and the index is made anew from the lines.
"""

from __future__ import annotations

import mmap
import os
import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np

from metrana.store.index.pieces import BLOCK_POINTS, Blocks, Piece

FOLDER = ".index"
SUFFIX = ".columns"
_MAGIC = b"metrana1"
_HEAD_BYTES = 64

# What a piece knows of its points, in the order of its fields.
_KNOWN: dict[str, type] = {
    "has_ordered_steps": bool,
    **dict.fromkeys(("first_time", "last_time"), float),
    **dict.fromkeys(("first_step", "last_step", "lowest_step", "highest_step"), int),
    **dict.fromkeys(("last_value", "low", "high"), float),
    "finite": int,
}

PieceRow = list[Any]
"""A piece without its points, as it stands in JSON: offsets in a file and what the piece knows of itself."""


class ColumnsWriter:
    """A new file of columns in a folder. Raises OSError."""

    def __init__(self, folder: str) -> None:
        self.token = secrets.token_hex(16)
        self.path = os.path.join(folder, self.token + SUFFIX)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        self._file = os.fdopen(os.open(self.path, flags, 0o644), "wb")
        self._file.write((_MAGIC + self.token.encode("ascii")).ljust(_HEAD_BYTES, b"\0"))
        self.size = _HEAD_BYTES

    def write(self, pieces: Sequence[Piece]) -> list[PieceRow]:
        """Append pieces. Columns that several of them share are written once."""
        offsets: dict[int, int] = {}
        return [self._write_piece(piece, offsets) for piece in pieces]

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def _write_piece(self, piece: Piece, offsets: dict[int, int]) -> PieceRow:
        columns = [self._write_array(array, offsets) for array in (piece.times, piece.steps, piece.values)]
        blocks = piece.blocks
        if blocks is None:
            columns.append(-1)
        else:
            # One behind the other: the first one's place tells the others'.
            arrays = (blocks.low, blocks.high, blocks.total, blocks.finite)
            columns.append([self._write_array(array, offsets) for array in arrays][0])
        return [len(piece), *columns, *(getattr(piece, name) for name in _KNOWN)]

    def _write_array(self, array: np.ndarray[Any, Any], offsets: dict[int, int]) -> int:
        offset = offsets.get(id(array))
        if offset is None:
            offset = offsets[id(array)] = self.size
            self.size += self._file.write(np.ascontiguousarray(array).data)
        return offset


class ColumnsFile:
    """A file of columns, mapped into memory. Raises OSError, ValueError where it isn't what the token says."""

    def __init__(self, path: str, token: str, size: int) -> None:
        self.path, self.token, self.size = path, token, size
        self.is_synced = False
        with open(path, "rb") as file:
            head = file.read(_HEAD_BYTES)
            if head.rstrip(b"\0") != _MAGIC + token.encode("ascii") or os.fstat(file.fileno()).st_size < size:
                raise ValueError("not the file of columns that was written")
            self._map = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)

    def sync(self) -> None:
        """Have the kernel put it on the disk: a manifest must not outlive what it names. Raises OSError."""
        if not self.is_synced:
            fd = os.open(self.path, os.O_RDONLY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
            self.is_synced = True

    def read(self, row: PieceRow) -> Piece:
        """The piece that a row of ``ColumnsWriter.write`` describes. Raises ValueError."""
        count, times, steps, values, blocks, *known = row
        if list(map(type, known)) != list(_KNOWN.values()) or count < 1:
            raise ValueError("not a piece")
        return Piece(
            self._array(times, count, np.float64),
            self._array(steps, count, np.int64),
            self._array(values, count, np.float64),
            None if blocks < 0 else self._blocks(blocks, count),
            **dict(zip(_KNOWN, known, strict=True)),
        )

    def _blocks(self, offset: int, points: int) -> Blocks:
        count = -(-points // BLOCK_POINTS)
        low, high, total = (self._array(offset + 8 * count * index, count, np.float64) for index in range(3))
        return Blocks(low, high, total, self._array(offset + 24 * count, count, np.int64))

    def _array(self, offset: int, count: int, dtype: Any) -> Any:
        if offset < _HEAD_BYTES or offset + 8 * count > self.size:
            raise ValueError("a column outside of its file")
        return np.frombuffer(self._map, dtype, count, offset)
