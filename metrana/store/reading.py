"""A run to read from, as columns where NumPy is installed, else as plain arrays: both offer the same."""

from __future__ import annotations

import math
import os
from array import array
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

from metrana.errors import SeriesNotFoundError
from metrana.extras import has_package
from metrana.model import Labels
from metrana.store.catalog import list_segments, reread_run
from metrana.store.naming import matches
from metrana.store.problems import describe_problems
from metrana.store.reader import Series, SeriesKey, StoredRun, read_run
from metrana.store.run_info import RunInfo
from metrana.store.series import SeriesInfo


class Points(Protocol):
    """Points of a series as columns of equal length; times in seconds since the epoch.

    They're ordered by time; where several attempts have logged into the series, by attempt and then by time.
    """

    @property
    def times(self) -> Any: ...
    @property
    def steps(self) -> Any: ...
    @property
    def values(self) -> Any: ...


class Reading(Protocol):
    """What a run can be asked for. See RunIndex, which is the fast one."""

    info: RunInfo

    @property
    def series(self) -> tuple[SeriesInfo, ...]: ...
    @property
    def attributes(self) -> dict[str, Any]: ...
    @property
    def skipped_lines(self) -> int: ...
    @property
    def unreadable(self) -> tuple[str, ...]: ...
    @property
    def newest_version(self) -> int: ...
    @property
    def everything(self) -> Reading: ...
    def refresh(self) -> bool: ...
    def read(self, series: SeriesInfo, start: float | None = None, end: float | None = None) -> Points: ...


@dataclass(frozen=True)
class PlainPoints:
    """Points in ``array``s, ordered as ``Points`` are."""

    times: Sequence[float]
    steps: Sequence[int]
    values: Sequence[float]


class PlainReading:
    """A run read whole, into plain arrays: for where NumPy isn't installed.

    With ``superseded`` also what a later attempt has logged again.
    """

    def __init__(self, info: RunInfo, superseded: bool = False) -> None:
        self.info = info
        self._superseded = superseded
        self._sizes: dict[str, int] | None = None
        self._run: StoredRun
        self._by_key: dict[SeriesKey, Series]
        self.refresh()

    def refresh(self) -> bool:
        """Read the run again where something was appended; whether that was so."""
        paths = [path for _, segments in list_segments(self.info, {}) for path in segments]
        sizes = {path: os.stat(path).st_size for path in paths if os.path.exists(path)}
        if sizes == self._sizes:
            return False
        info = self.info
        if self._sizes is not None and any(writer.attempt is None for writer in info.writers):
            info = replace(info, writers=reread_run(info).writers)  # whose attempts hang on when others ended
        self._sizes = sizes
        self._take(read_run(info))
        return True

    def _take(self, run: StoredRun) -> None:
        self._run = run
        self._by_key = run.everything if self._superseded else run.series
        self.series = tuple(
            _describe(series.name, series.labels, series.timestamps, series.steps, series.values)
            for series in self._by_key.values()
        )

    @property
    def everything(self) -> PlainReading:
        """The run with what later attempts have superseded, as it was read last."""
        if self._superseded:
            return self
        whole = copy(self)
        whole._superseded = True
        whole._take(self._run)
        return whole

    @property
    def attributes(self) -> dict[str, Any]:
        return self._run.attributes

    @property
    def skipped_lines(self) -> int:
        return self._run.skipped_lines

    @property
    def unreadable(self) -> tuple[str, ...]:
        return self._run.unreadable

    @property
    def newest_version(self) -> int:
        return self._run.newest_version

    def read(self, series: SeriesInfo, start: float | None = None, end: float | None = None) -> PlainPoints:
        """The points of a series from ``start`` to ``end``, both included, in seconds since the epoch."""
        whole = self._by_key[series.name, series.labels]
        times = whole.timestamps
        if start is None and end is None:
            return PlainPoints(times, whole.steps, whole.values)
        low, high = -math.inf if start is None else start, math.inf if end is None else end
        chosen = [index for index, at in enumerate(times) if low <= at <= high]
        return PlainPoints(
            array("d", map(times.__getitem__, chosen)),
            array("q", map(whole.steps.__getitem__, chosen)),
            array("d", map(whole.values.__getitem__, chosen)),
        )


def open_reading(info: RunInfo, *, superseded: bool = False) -> Reading:
    """A run to read from; with ``superseded`` also what a later attempt has logged again.

    Never raises for what stands in its files.
    """
    if not has_package("numpy"):
        return PlainReading(info, superseded)
    from metrana.store.index import RunIndex

    index = RunIndex.open(info)
    return cast(Reading, index.everything if superseded else index)


def select_series(reading: Reading, patterns: Sequence[str], labels: Mapping[str, str]) -> list[SeriesInfo]:
    """The series whose metric has one of the names or matches one of the patterns, with labels that match too.

    All where there are none. Raises SeriesNotFoundError where a pattern or the labels match nothing.
    """
    chosen = reading.series
    if patterns:
        names = {series.name for series in chosen}
        found: set[str] = set()
        for pattern in patterns:
            matched = {name for name in names if matches(name, pattern)}
            if not matched:
                raise SeriesNotFoundError(
                    f"run {reading.info.run_name!r} has no series {pattern!r}: 'metrana show RUN' shows all"
                    + _find_excuse(reading)
                )
            found |= matched
        chosen = tuple(series for series in chosen if series.name in found)
    for key, pattern in labels.items():
        chosen = tuple(series for series in chosen if matches(dict(series.labels).get(key), pattern))
        if not chosen:
            raise SeriesNotFoundError(
                f"run {reading.info.run_name!r} has no such series with label {key}={pattern}{_find_excuse(reading)}"
            )
    return list(chosen)


def _find_excuse(reading: Reading) -> str:
    """What of the run couldn't be read: the series may be there."""
    return "".join(
        f"; {problem}"
        for problem in describe_problems(reading.skipped_lines, reading.unreadable, reading.newest_version)
    )


def _describe(
    name: str, labels: Labels, times: Sequence[float], steps: Sequence[int], values: Sequence[float]
) -> SeriesInfo:
    finite = [value for value in values if math.isfinite(value)]
    # The newest attempt's clock may be behind.
    return SeriesInfo(
        name,
        labels,
        count=len(values),
        first_time=min(times),
        last_time=max(times),
        first_step=steps[0],
        last_step=steps[-1],
        lowest_step=min(steps),
        highest_step=max(steps),
        last_value=values[-1],
        low=min(finite, default=math.nan),
        high=max(finite, default=math.nan),
        finite=len(finite),
    )
