"""Reading a run back: its series merged over writers and segments, its attributes, and what couldn't be read."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from metrana.model import Labels
from metrana.store.attempts import find_limits, is_superseded_at_all, number_attempts
from metrana.store.catalog import find_run, list_segments, reread_run
from metrana.store.layout import FORMAT_VERSION, decode_value
from metrana.store.lines import (
    INT64_MAX,
    INT64_MIN,
    parse_attributes,
    parse_columns,
    parse_declaration,
    parse_end,
    parse_head,
    parse_line,
    parse_step,
    parse_time,
    parse_version,
    read_lines,
)
from metrana.store.run_info import RunInfo
from metrana.system.host import Host

SeriesKey = tuple[str, Labels]
"""What identifies a series: its metric's name and its whole label set."""

_Appends = tuple[Callable[[float], None], Callable[[int], None], Callable[[float], None]]


@dataclass(frozen=True)
class Series:
    """The points of one series in columns of equal length, ordered by time.

    Where several attempts have logged into it, they're ordered by attempt and then by time: a clock may be behind
    another. Timestamps are in seconds since the epoch (``array('d')``), steps ``array('q')``, values ``array('d')``.
    """

    name: str
    labels: Labels
    timestamps: array[float]
    steps: array[int]
    values: array[float]


@dataclass(frozen=True)
class StoredRun:
    """A run as read from the store.

    ``series`` are ordered by name and labels, and hold what counts; ``everything`` has also what a later attempt has
    logged again. ``skipped_lines`` counts the lines that hold anything unreadable (their
    good points are taken); ``unreadable`` holds the paths that couldn't be read; ``newest_version`` is the newest
    version of the format that a segment claims.
    """

    info: RunInfo
    series: dict[SeriesKey, Series]
    everything: dict[SeriesKey, Series]
    attributes: dict[str, Any]
    skipped_lines: int
    unreadable: tuple[str, ...]
    newest_version: int = FORMAT_VERSION


def open_run(store_dir: str, run: str, host: Host | None = None) -> StoredRun:
    """The run with that id, or the newest with that name. Raises RunNotFoundError, StoreError."""
    return read_run(find_run(store_dir, run, host))


def read_run(info: RunInfo) -> StoredRun:
    """All of a run. Never raises for what stands in its files."""
    reading = _Reading()
    unreadable = dict.fromkeys(info.unreadable)
    folders = list_segments(info, unreadable)
    known = {writer.folder for writer in info.writers if writer.has_head}
    if not {folder for folder, segments in folders if segments} <= known:
        info = replace(info, writers=reread_run(info).writers)  # somebody has begun to write since
    attempts = number_attempts(info.writers)
    for folder, segments in folders:
        for path in segments:
            try:
                with open(path, "rb") as file:
                    reading.read_segment(read_lines(file))
            except OSError:
                unreadable[path] = None
        reading.end_writer(attempts.get(folder, 0))
    found = {key: reading.series[key] for key in sorted(reading.series) if reading.series[key].values}
    chosen = {key: _choose(each, reading.stretches[key]) for key, each in found.items()}
    series = {key: counting for key, (counting, _) in chosen.items()}
    everything = {key: whole for key, (_, whole) in chosen.items()}
    attributes = {key: value for key, (_, value) in sorted(reading.attributes.items())}
    return StoredRun(
        info, series, everything, attributes, reading.skipped_lines, tuple(unreadable), reading.newest_version
    )


def keep_newest(attributes: dict[str, tuple[float, Any]], name: str, timestamp: float, value: Any) -> None:
    """Take an attribute in: the later one of a name wins; of two at one time, the one read later."""
    if name not in attributes or attributes[name][0] <= timestamp:
        attributes[name] = (timestamp, value)


def last_steps(run: StoredRun) -> dict[SeriesKey, int]:
    """The highest step of each series: where a resumed run goes on."""
    return {key: max(series.steps) for key, series in run.series.items()}


class _Reading:
    """What has been gathered from the segments read so far."""

    def __init__(self) -> None:
        self.series: dict[SeriesKey, Series] = {}
        self.attributes: dict[str, tuple[float, Any]] = {}
        self.stretches: dict[SeriesKey, list[tuple[int, int]]] = {}  # attempt, and up to where its points stand
        self.skipped_lines = 0
        self.newest_version = FORMAT_VERSION

    def end_writer(self, attempt: int) -> None:
        """What has been read since the last call was of a writer of that attempt."""
        for key, series in self.series.items():
            stretches = self.stretches.setdefault(key, [])
            if len(series.values) > (stretches[-1][1] if stretches else 0):
                stretches.append((attempt, len(series.values)))

    def read_segment(self, lines: Iterable[bytes]) -> None:
        """Take in the lines of one segment. Raises OSError as the file does; what came before it is kept."""
        declared: dict[int, _Appends] = {}
        by_number: dict[int, Series] = {}
        parse, add_points = parse_line, _add_points
        for line in lines:
            try:
                record = parse(line)
                if "i" in record:
                    if not add_points(record, declared):
                        self.skipped_lines += 1
                elif "c" in record:
                    _add_columns(by_number, *parse_columns(record))
                else:
                    self._add_other(record, declared, by_number)
            except ValueError:
                # A writer that was cut short begins its next write with a newline: empty lines are no damage.
                self.skipped_lines += not line.isspace()

    def _add_other(self, record: dict[str, Any], declared: dict[int, _Appends], by_number: dict[int, Series]) -> None:
        if "d" in record:
            number, name, labels = parse_declaration(record)
            series = self.series.get((name, labels))
            if series is None:
                series = self.series[name, labels] = Series(name, labels, array("d"), array("q"), array("d"))
            by_number[number] = series
            declared[number] = (series.timestamps.append, series.steps.append, series.values.append)
        elif "a" in record:
            attributes, timestamp = parse_attributes(record)
            for name, value in attributes.items():
                keep_newest(self.attributes, name, timestamp, value)
        elif "e" in record:
            parse_end(record)
        else:
            self.newest_version = max(self.newest_version, parse_version(record))
            parse_head(record)


def _add_points(record: dict[str, Any], declared: dict[int, _Appends]) -> bool:
    """Append the points of a line to their series; False where some couldn't be. Raises ValueError for a bad line."""
    get = record.get
    numbers, values, timestamp, step = get("i"), get("v"), get("t"), get("s")
    if type(numbers) is not list or type(values) is not list or len(numbers) != len(values):
        raise ValueError("not points")
    # The usual types are told here, without a call: this runs once per line of millions.
    if type(timestamp) is not float or timestamp - timestamp != 0.0:
        timestamp = parse_time(timestamp)
    if type(step) is not int or not INT64_MIN <= step <= INT64_MAX:
        step = parse_step(step)
    whole = True
    for number, value in zip(numbers, values):  # noqa: B905 - the lengths were compared above
        # True and 1.0 are equal to 1, so a look-up alone would find series 1 for them.
        appends = declared.get(number) if type(number) is int else None
        if appends is None:
            whole = False
            continue
        try:
            decoded = value if type(value) is float else decode_value(value)
        except (ValueError, OverflowError):
            whole = False
            continue
        append_timestamp, append_step, append_value = appends
        append_timestamp(timestamp)
        append_step(step)
        append_value(decoded)
    return whole


def _add_columns(
    by_number: dict[int, Series], number: int, timestamps: array[float], steps: array[int], values: array[float]
) -> None:
    series = by_number.get(number)
    if series is None:
        raise ValueError("a series that isn't declared")
    series.timestamps.extend(timestamps)
    series.steps.extend(steps)
    series.values.extend(values)


def _choose(series: Series, stretches: list[tuple[int, int]]) -> tuple[Series, Series]:
    """What counts of a series, and all of it, both in order."""
    if not is_superseded_at_all(series.name) or len({attempt for attempt, _ in stretches}) < 2:
        whole = _order(series)
        return whole, whole
    indices: dict[int, list[int]] = {}
    first = 0
    for attempt, end in stretches:
        indices.setdefault(attempt, []).extend(range(first, end))
        first = end
    steps = series.steps
    limits = find_limits({attempt: min(map(steps.__getitem__, own)) for attempt, own in indices.items()})
    whole_order: list[int] = []
    order: list[int] = []
    for attempt in sorted(indices):
        own = sorted(indices[attempt], key=series.timestamps.__getitem__)
        limit = limits[attempt]
        whole_order += own
        order += own if limit is None else [index for index in own if steps[index] < limit]
    return _take(series, order), _take(series, whole_order)


def _order(series: Series) -> Series:
    """The series by time; points of equal time stay in the order they were read in."""
    timestamps = series.timestamps
    if all(earlier <= later for earlier, later in zip(timestamps, memoryview(timestamps)[1:])):  # noqa: B905
        return series
    return _take(series, sorted(range(len(timestamps)), key=timestamps.__getitem__))


def _take(series: Series, order: list[int]) -> Series:
    return Series(
        series.name,
        series.labels,
        array("d", [series.timestamps[index] for index in order]),
        array("q", [series.steps[index] for index in order]),
        array("d", [series.values[index] for index in order]),
    )
