"""Reading runs from Python: ``metrana.open_run()`` and ``metrana.runs()``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from metrana import tables
from metrana.guesses import guesses_arguments
from metrana.settings import resolve_store
from metrana.store.catalog import find_run, find_runs
from metrana.store.moments import parse_moment
from metrana.store.naming import select_runs
from metrana.store.problems import describe_problems
from metrana.store.reading import Reading, open_reading, select_series
from metrana.store.run_info import RunInfo
from metrana.store.series import SeriesInfo
from metrana.tables import SeriesPoints

if TYPE_CHECKING:
    from datetime import datetime

    import pandas
    import polars


@guesses_arguments
def open_run(run: str | None = None, *, dir: object = None) -> RunData:
    """A run to read: by its id or a unique beginning of it, or by its name, ``project/name`` and so on.

    Of several with one name it's the newest; the newest of all without a name. ``dir`` is the store's folder, by
    default METRANA_DIR or ``./.metrana``. Raises RunNotFoundError, SettingError, StoreError.
    """
    return RunData(find_run(resolve_store(os.environ, dir), run))


@guesses_arguments
def runs(
    *,
    dir: object = None,
    name: str | None = None,
    project: str | None = None,
    status: str | None = None,
    limit: int | None = None,
) -> list[RunData]:
    """The runs of a store, newest first, without having read their points.

    ``name`` and ``project`` are names or patterns (``"pretrain-*"``, ``"llm/*"``), ``status`` is as ``metrana runs``
    has it, or a beginning (``"ended"``); of those at most ``limit``. Raises SettingError for another status or no such
    limit, StoreError.
    """
    found = find_runs(resolve_store(os.environ, dir))
    return [RunData(info) for info in select_runs(found, name, project, status, limit)]


class RunData:
    """A run to read. Its points are read when they're first asked for, and again with ``refresh()``.

    Times are in seconds since the epoch.
    """

    def __init__(self, info: RunInfo) -> None:
        self.info = info
        self._reading: Reading | None = None

    @property
    def id(self) -> str:
        return self.info.id

    @property
    def name(self) -> str:
        return self.info.run_name

    @property
    def project(self) -> str:
        return self.info.project_name

    @property
    def status(self) -> str:
        """``running``, ``closed``, ``ended without a close`` or ``unknown``, when the run was looked up."""
        return self.info.status

    @property
    def started(self) -> float:
        return self.info.started

    @property
    def last(self) -> float:
        """When a process of the run last wrote, as known when the run was looked up; whatever its points' times say."""
        return self.info.last

    @property
    def attributes(self) -> dict[str, Any]:
        """The run's attributes by name: what was given to ``log_attributes()``, and what metrana found."""
        return self._open().attributes

    @property
    def config(self) -> dict[str, Any]:
        """The ``config`` that ``init()`` was given, inner names joined with a slash."""
        return {name[7:]: value for name, value in self.attributes.items() if name.startswith("config/")}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the metrics that hold points."""
        return tuple(dict.fromkeys(series.name for series in self._open().series))

    @property
    def problems(self) -> list[str]:
        """What of the run couldn't be read, a sentence each; empty where all could."""
        reading = self._open()
        return describe_problems(reading.skipped_lines, reading.unreadable, reading.newest_version)

    def series(
        self,
        *patterns: str,
        labels: Mapping[str, object] | None = None,
        since: float | str | datetime | None = None,
        until: float | str | datetime | None = None,
        superseded: bool = False,
        **label: object,
    ) -> Selection:
        """The series of these metrics, names or patterns (``"system/gpu/*"``), and labels (``gpu="0"``); else all.

        Labels whose keys are no identifiers go into ``labels``; a value may be a pattern too. ``since`` and ``until``
        bound the time: a number, a datetime, ISO text, or a span as ``metrana export --since`` takes it.
        ``superseded`` gives also the points that a training resumed from a checkpoint has logged again. Raises
        SeriesNotFoundError where a pattern or label matches nothing.
        """
        reading = self._open().everything if superseded else self._open()
        wanted = {key: str(value) for key, value in {**(labels or {}), **label}.items()}
        chosen = select_series(reading, patterns, wanted)
        last = max((series.last_time for series in chosen), default=self.last)
        bounds = [None if at is None else parse_moment(at, self.started, last) for at in (since, until)]
        return Selection(reading, chosen, *bounds)

    def refresh(self) -> bool:
        """Take in what a running run has logged since; whether that's anything."""
        if self._reading is None:
            self._open()
            return True
        return self._reading.refresh()

    def _open(self) -> Reading:
        if self._reading is None:
            self._reading = open_reading(self.info)
        return self._reading

    def __repr__(self) -> str:
        return f"<RunData {self.name!r} {self.id} {self.status}>"


class Selection(Sequence[SeriesPoints]):
    """Some series of a run, within some time: a sequence of SeriesPoints, each read when it's asked for."""

    def __init__(
        self, reading: Reading, series: Sequence[SeriesInfo], start: float | None = None, end: float | None = None
    ) -> None:
        self._reading = reading
        self._series = tuple(series)
        self._start, self._end = start, end

    def __len__(self) -> int:
        return len(self._series)

    @overload
    def __getitem__(self, index: int) -> SeriesPoints: ...
    @overload
    def __getitem__(self, index: slice) -> Selection: ...
    def __getitem__(self, index: int | slice) -> SeriesPoints | Selection:
        if isinstance(index, slice):
            return Selection(self._reading, self._series[index], self._start, self._end)
        return self._read(self._series[index])

    def __iter__(self) -> Iterator[SeriesPoints]:
        return map(self._read, self._series)

    def to_lists(self) -> list[SeriesPoints]:
        """Each series with its times, steps and values as plain lists."""
        return [
            SeriesPoints(each.name, each.labels, list(each.times), list(each.steps), list(each.values))
            if not hasattr(each.values, "tolist")
            else SeriesPoints(each.name, each.labels, each.times.tolist(), each.steps.tolist(), each.values.tolist())
            for each in self
        ]

    def to_numpy(self) -> list[SeriesPoints]:
        """Each series with its times, steps and values as NumPy arrays, which aren't to be written to."""
        return tables.to_numpy(list(self))

    @guesses_arguments
    def to_pandas(
        self, *, wide: bool = False, on: Literal["time", "step"] = "time", every_secs: float | None = None
    ) -> pandas.DataFrame:
        """A pandas frame: a row a point, in columns name, one for each label, step, timestamp (UTC) and value.

        With more than 32 keys of labels it's one column ``labels`` for all of them, each set as a JSON object.
        ``wide`` gives a row for each time (or step), and a column for each series, NaN where it has no point.
        ``every_secs`` makes that the means over stretches of so many seconds: series that were logged at different
        times, such as a loss and a utilization, then stand in one row.
        """
        return tables.to_pandas(list(self), wide or every_secs is not None, on, every_secs)

    @guesses_arguments
    def to_polars(
        self, *, wide: bool = False, on: Literal["time", "step"] = "time", every_secs: float | None = None
    ) -> polars.DataFrame:
        """A polars frame, as ``to_pandas()``; the time or step of a wide one is its first column."""
        return tables.to_polars(list(self), wide or every_secs is not None, on, every_secs)

    def _read(self, series: SeriesInfo) -> SeriesPoints:
        points = self._reading.read(series, self._start, self._end)
        return SeriesPoints(series.name, dict(series.labels), points.times, points.steps, points.values)

    def __repr__(self) -> str:
        return f"<Selection of {len(self)} series>"
