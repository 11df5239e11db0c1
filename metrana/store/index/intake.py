"""From lines to columns: one writer's segments, read on from where they were left, many lines at a time."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np

from metrana.store.index.groups import Group, Groups
from metrana.store.index.pieces import Piece
from metrana.store.layout import FORMAT_VERSION, decode_value
from metrana.store.lines import (
    LONGEST_LINE_BYTES,
    parse_attributes,
    parse_columns,
    parse_declaration,
    parse_end,
    parse_head,
    parse_line,
    parse_step,
    parse_time,
    parse_version,
)
from metrana.store.reader import SeriesKey, keep_newest

_load: Callable[[bytes], Any]
try:
    from orjson import loads as _load
except ImportError:  # slower, and nothing else: the extra brings it
    _load = parse_line

CHUNK_BYTES = 4 * 1024 * 1024
# Series numbers as only a damaged file has them. 1, 1.0 and true are equal in Python: told here, once for many lines.
_ODD_NUMBERS = re.compile(rb'"(?:i|\\u0069)"\s*:\s*\[[\d\s,]*[^\d\s,\]]')


@dataclass
class SegmentPosition:
    """How far a segment has been read: bytes up to the end of a line, and the series it has declared by number.

    ``is_torn`` says that a piece of a line stands behind that, up to ``seen_bytes``. What an older segment declared is
    None once it isn't kept.
    """

    offset: int = 0
    declared: dict[int, SeriesKey] | None = field(default_factory=dict)
    is_torn: bool = False
    seen_bytes: int = 0


@dataclass
class Harvest:
    """What a reading has brought, beside the points: attributes with their time, and what couldn't be taken."""

    pieces: list[tuple[SeriesKey, Piece]] = field(default_factory=list)
    attributes: dict[str, tuple[float, Any]] = field(default_factory=dict)
    skipped_lines: int = 0
    newest_version: int = FORMAT_VERSION


class Intake:
    """Reads segments of one writer, oldest first; ``finish()`` gives what they held as pieces."""

    def __init__(self) -> None:
        self._groups = Groups()
        self._harvest = Harvest()
        self._declared: dict[int, SeriesKey] = {}
        self._by_numbers: dict[tuple[int, ...], Group] = {}
        self._line = 0

    def read_segment(
        self, file: BinaryIO, position: SegmentPosition, is_over: Callable[[], bool] | None = None
    ) -> bool:
        """Read on from ``position``, which is moved; False where ``is_over`` said stop before the end.

        A last line without its newline is taken where it's whole, else left for the next time. Raises OSError.
        """
        if position.declared is None:
            raise ValueError("a segment whose declarations aren't known")
        self._declared, self._by_numbers = position.declared, {}
        file.seek(position.offset)
        while True:
            data = file.read(CHUNK_BYTES)
            size = data.rfind(b"\n") + 1
            is_whole = size > 0
            if is_whole:
                data = data[:size]
            elif data:
                data, size, is_whole = _read_long_line(file, data)
            if not is_whole:
                position.seen_bytes = position.offset + size
                position.is_torn = not self._take_rest(data)
                if not position.is_torn:
                    position.offset = position.seen_bytes
                return True
            self._take(data.split(b"\n")[:-1], bool(_ODD_NUMBERS.search(data)))
            position.offset += size
            file.seek(position.offset)
            if is_over is not None and is_over():
                return False

    def finish(self) -> Harvest:
        self._harvest.pieces = self._groups.finish()
        return self._harvest

    def _take_rest(self, line: bytes) -> bool:
        """A last line that has no newline yet; False where it isn't whole."""
        if line.isspace() or not line:
            return True
        try:
            parse_line(line)
        except ValueError:
            return False
        self._take([line], True)
        return True

    def _take(self, lines: list[bytes], is_odd: bool) -> None:
        try:
            records = list(map(_load, lines))
        except ValueError:
            records = []
            for line in lines:
                try:
                    records.append(parse_line(line))
                except ValueError:
                    # A writer that was cut short begins its next write with a newline: empty lines are no damage.
                    self._harvest.skipped_lines += bool(line) and not line.isspace()
                    records.append(None)
        self._take_records(records, is_odd)
        self._harvest.skipped_lines += self._groups.flush()

    def _take_records(self, records: list[Any], is_odd: bool) -> None:
        last: list[int] | None = None
        group: Group | None = None
        number = self._line
        self._line += len(records)
        for number, record in enumerate(records, self._line - len(records)):
            if type(record) is not dict:
                self._harvest.skipped_lines += record is not None
                continue
            numbers = record.get("i")
            if numbers is not None and not is_odd:
                if numbers != last:
                    group, last = self._find_group(numbers), numbers
                timestamp, step, values = record.get("t"), record.get("s"), record.get("v")
                if (
                    group is not None
                    and type(values) is list
                    and len(values) == group.width
                    and type(timestamp) is float
                    and timestamp - timestamp == 0.0
                    and type(step) is int
                ):
                    group.add(timestamp, step, values, number)
                    continue
            try:
                if "i" in record:
                    self._take_points(record, number)
                elif "c" in record:
                    self._take_columns(record, number)
                else:
                    self._take_other(record)
                    last = None
            except ValueError:
                self._harvest.skipped_lines += 1

    def _find_group(self, numbers: Any) -> Group | None:
        """The group of points that stand in a line together; None where they have to be looked at one by one."""
        if type(numbers) is not list:
            return None
        key = tuple(numbers)
        try:
            group = self._by_numbers.get(key)
        except TypeError:  # lists or objects among them
            return None
        if group is None:
            if not key or len(set(key)) < len(key) or not all(number in self._declared for number in key):
                return None
            if self._groups.are_many and len(key) > 1:
                return None
            group = self._by_numbers[key] = self._groups.find(tuple(self._declared[number] for number in key))
        return group

    def _take_points(self, record: dict[str, Any], line: int) -> None:
        numbers, values = record.get("i"), record.get("v")
        if type(numbers) is not list or type(values) is not list or len(numbers) != len(values):
            raise ValueError("not points")
        timestamp, step = parse_time(record.get("t")), parse_step(record.get("s"))
        is_whole = True
        for number, value in zip(numbers, values, strict=True):
            key = self._declared.get(number) if type(number) is int else None
            if key is None:
                is_whole = False
                continue
            try:
                self._groups.find((key,)).add(timestamp, step, [decode_value(value)], line)
            except (ValueError, OverflowError):
                is_whole = False
        self._harvest.skipped_lines += not is_whole

    def _take_columns(self, record: dict[str, Any], line: int) -> None:
        number, times, steps, values = parse_columns_fast(record)
        key = self._declared.get(number)
        if key is None:
            raise ValueError("a series that isn't declared")
        if len(times):
            self._groups.find((key,)).add_columns(times, steps, values, line)

    def _take_other(self, record: dict[str, Any]) -> None:
        if "d" in record:
            number, name, labels = parse_declaration(record)
            if self._declared.get(number, (name, labels)) != (name, labels):
                self._by_numbers.clear()
            self._declared[number] = (name, labels)
        elif "a" in record:
            attributes, timestamp = parse_attributes(record)
            for name, value in attributes.items():
                keep_newest(self._harvest.attributes, name, timestamp, value)
        elif "e" in record:
            parse_end(record)
        else:
            self._harvest.newest_version = max(self._harvest.newest_version, parse_version(record))
            parse_head(record)


def _read_long_line(file: BinaryIO, begun: bytes) -> tuple[bytes, int, bool]:
    """A line that's longer than a chunk: its bytes, how many they are, and whether its newline is there.

    Where it's too long for a line it's read over, and something that can't be parsed stands for it. Raises OSError.
    """
    parts, size, end = [begun], len(begun), 0
    while not end and (more := file.read(CHUNK_BYTES)):
        end = more.find(b"\n") + 1
        part = more[:end] if end else more
        size += len(part)
        parts = [*parts, part] if size <= LONGEST_LINE_BYTES else [b"\0", part[-1:]]
    return b"".join(parts), size, end > 0


def parse_columns_fast(record: dict[str, Any]) -> tuple[int, Any, Any, Any]:
    """What ``parse_columns`` gives, as NumPy columns. Raises ValueError."""
    number, times, steps, values = record.get("c"), record.get("u"), record.get("s"), record.get("v")
    if (
        type(number) is int
        and type(times) is list
        and type(steps) is list
        and type(values) is list
        and {int} == set(map(type, times)) == set(map(type, steps))
        and {float} == set(map(type, values))
        and len(times) == len(steps) == len(values)
    ):
        parse_time(record.get("t"))
        try:
            return number, np.array(times, np.float64) / 1e6, np.array(steps, np.int64), np.array(values, np.float64)
        except OverflowError as error:
            raise ValueError("a number out of range") from error
    return _as_numpy(*parse_columns(record))


def _as_numpy(number: int, times: array[float], steps: array[int], values: array[float]) -> tuple[int, Any, Any, Any]:
    return number, np.array(times, np.float64), np.array(steps, np.int64), np.array(values, np.float64)
