"""The points of a run as CSV, JSON lines and Parquet, written as they're read: never all of them in memory."""

from __future__ import annotations

import csv
import json
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import repeat
from typing import IO, Any, Literal

from metrana.extras import need
from metrana.store.layout import encode_value
from metrana.store.reading import Reading
from metrana.store.series import SeriesInfo
from metrana.tables import LABELS, format_label_set, has_label_columns, name_label_columns, to_datetimes, to_utf8

COLUMNS = ("name", "labels", "step", "timestamp", "value")
CHUNK_POINTS = 65_536
GROUP_POINTS = 1_048_576  # in a row group of a Parquet file: the default of those who write them
_GROUP_CHUNKS = 65_536  # of series that are short
_ERRORS = "backslashreplace"  # names may hold what UTF-8 has no bytes for


@dataclass(frozen=True)
class Chunk:
    """Some points of a series, in columns; times in seconds since the epoch."""

    series: SeriesInfo
    times: Any
    steps: Any
    values: Any


def read_chunks(
    reading: Reading, series: list[SeriesInfo], start: float | None, end: float | None, advance: Callable[[int], None]
) -> Iterator[Chunk]:
    """The points of series, one after the other. ``advance`` is told how many more have been passed."""
    for each in series:
        points = reading.read(each, start, end)
        count = len(points.values)
        for first in range(0, count, CHUNK_POINTS):
            rows = slice(first, first + CHUNK_POINTS)
            yield Chunk(each, points.times[rows], points.steps[rows], points.values[rows])
            advance(min(CHUNK_POINTS, count - first))
        advance(each.count - count)


def write_csv(chunks: Iterator[Chunk], file: IO[str]) -> None:
    """Rows with the labels as a JSON object; timestamps are seconds since the epoch, floats their ``repr``."""
    csv.writer(file, lineterminator="\n").writerow(COLUMNS)
    for chunk in chunks:
        name = chunk.series.name
        labels = format_label_set(dict(chunk.series.labels))
        # The module may leave a bare carriage return unquoted, and then doesn't read it back.
        quoting: Literal[0, 1] = csv.QUOTE_ALL if "\r" in name else csv.QUOTE_MINIMAL
        columns = chunk.steps.tolist(), chunk.times.tolist(), chunk.values.tolist()
        rows = csv.writer(file, lineterminator="\n", quoting=quoting)
        rows.writerows(zip(repeat(name), repeat(labels), *columns))


def write_jsonl(chunks: Iterator[Chunk], file: IO[str]) -> None:
    """An object a line. NaN and infinities are the texts that the store has for them."""
    for chunk in chunks:
        names = json.dumps({"name": chunk.series.name, "labels": dict(chunk.series.labels)})[:-1]
        rows = zip(chunk.steps.tolist(), chunk.times.tolist(), chunk.values.tolist(), strict=True)
        file.writelines(
            f'{names}, "step": {step}, "timestamp": {timestamp!r}, "value": {encode_value(value)}}}\n'
            for step, timestamp, value in rows
        )


def write_parquet(chunks: Iterator[Chunk], file: IO[bytes], label_keys: list[str]) -> None:
    """Rows with the timestamp as such, in UTC, and a column for each label; one for all, as JSON, where they're many.

    Raises MissingExtraError.
    """
    need_parquet()
    import pyarrow as pa
    import pyarrow.parquet as pq

    is_spread = has_label_columns(label_keys)
    text = pa.dictionary(pa.int32(), pa.string())
    names = ["name", *(name_label_columns(label_keys).values() if is_spread else [LABELS])]
    numbers = [("step", pa.int64()), ("timestamp", pa.timestamp("us", "UTC")), ("value", pa.float64())]
    schema = pa.schema([*((name, text) for name in names), *numbers])
    waiting: list[Chunk] = []
    count = 0
    with pq.ParquetWriter(file, schema) as writer:
        for chunk in chunks:
            waiting.append(chunk)
            count += len(chunk.values)
            if count >= GROUP_POINTS or len(waiting) >= _GROUP_CHUNKS:
                writer.write_table(_join(pa, waiting, schema, label_keys))
                waiting, count = [], 0
        if waiting:
            writer.write_table(_join(pa, waiting, schema, label_keys))


def need_parquet() -> None:
    """Raises MissingExtraError where Parquet can't be written."""
    need("Parquet", "pyarrow", "numpy")


def _join(pa: Any, chunks: list[Chunk], schema: Any, label_keys: list[str]) -> Any:
    import numpy as np

    sizes = [len(chunk.values) for chunk in chunks]
    sets = [dict(chunk.series.labels) for chunk in chunks]
    words: list[list[str | None]] = [[chunk.series.name for chunk in chunks]]
    if has_label_columns(label_keys):
        words += [[labels.get(key) for labels in sets] for key in label_keys]
    else:
        words.append([format_label_set(labels) for labels in sets])
    columns = [_repeat(pa, each, sizes) for each in words]
    times = np.concatenate([np.asarray(chunk.times, np.float64) for chunk in chunks])
    columns.append(pa.array(np.concatenate([np.asarray(chunk.steps, np.int64) for chunk in chunks])))
    columns.append(pa.array(to_datetimes(times)).cast(schema.field("timestamp").type))
    columns.append(pa.array(np.concatenate([np.asarray(chunk.values, np.float64) for chunk in chunks])))
    return pa.table(columns, schema=schema)


def _repeat(pa: Any, words: list[str | None], sizes: list[int]) -> Any:
    """A column in which each word stands as often as its series has points."""
    import numpy as np

    column = pa.array([None if word is None else to_utf8(word) for word in words], pa.string()).dictionary_encode()
    return column.take(pa.array(np.repeat(np.arange(len(words)), sizes)))


@contextmanager
def open_whole(path: str, mode: str) -> Iterator[IO[Any]]:
    """A file for writing, ``mode`` "w" or "wb", that takes its name when it's complete. Raises OSError."""
    options: dict[str, str] = {} if "b" in mode else {"encoding": "utf-8", "errors": _ERRORS, "newline": ""}
    try:
        status = os.stat(path)
    except FileNotFoundError:
        status = None
    if status is not None and not stat.S_ISREG(status.st_mode):
        # A pipe or a device can't be replaced, only written to; a folder says so itself.
        with open(path, mode, **options) as file:  # type: ignore[call-overload]
            yield file
        return
    path = os.path.realpath(path)
    folder, name = os.path.split(path)
    # A name of its own: what a kill has left may carry the same pid, which in a container is often 1.
    part = os.path.join(folder, f".{name[:100]}.{secrets.token_hex(4)}.part")
    try:
        file = open(part, mode.replace("w", "x"), **options)  # type: ignore[call-overload]  # noqa: SIM115
    except OSError as error:
        raise OSError(error.errno, error.strerror, folder) from error  # the user knows of no part
    try:
        with file:
            if status is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(status.st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:  # Ctrl-C too: nothing half-written stays behind
        if os.path.lexists(part):
            os.unlink(part)
        raise
