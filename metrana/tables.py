"""Series as tables: long, a row a point, and wide, a column a series; for pandas and polars."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

from metrana.errors import SettingError
from metrana.extras import need

if TYPE_CHECKING:
    import numpy
    import pandas
    import polars

COLUMNS = ("name", "step", "timestamp", "value")
"""The columns of a long table, besides one for each label."""
LABELS = "labels"
"""The column of whole label sets, as JSON objects, where there are too many keys for a column each."""
MOST_LABEL_COLUMNS = 32
_SHORTEST_SECS = 1e-6


@dataclass(frozen=True)
class SeriesPoints:
    """A series with its points by time, in columns of equal length; ``times`` in seconds since the epoch."""

    name: str
    labels: dict[str, str]
    times: Any
    steps: Any
    values: Any

    def __len__(self) -> int:
        return len(self.values)


def name_label_columns(keys: Sequence[str]) -> dict[str, str]:
    """The column of each label: its key, behind as many ``label_`` as it takes to be the only one of that name."""
    names: dict[str, str] = {}
    taken = {*COLUMNS, *map(to_utf8, keys)}
    for key in keys:
        name = to_utf8(key)
        if name in COLUMNS or name in names.values():
            while name in taken:
                name = f"label_{name}"
        taken.add(name)
        names[key] = name
    return names


def has_label_columns(keys: Sequence[str]) -> bool:
    """Whether each label has a column of its own: with as many keys as series, points times keys fit nowhere."""
    return len(keys) <= MOST_LABEL_COLUMNS


def format_label_set(labels: Mapping[str, str]) -> str:
    """A label set as a JSON object, its keys in order."""
    return json.dumps(dict(labels), sort_keys=True, ensure_ascii=False)


def to_utf8(text: str) -> str:
    """A text without what UTF-8 has no bytes for: that as its escape. Names and labels may hold any text."""
    return text.encode("utf-8", "backslashreplace").decode()


def to_numpy(series: Sequence[SeriesPoints]) -> list[SeriesPoints]:
    """The series in NumPy arrays. Raises MissingExtraError."""
    need("to_numpy()", "numpy")
    import numpy as np

    return [
        SeriesPoints(
            each.name,
            each.labels,
            np.asarray(each.times, np.float64),
            np.asarray(each.steps, np.int64),
            np.asarray(each.values, np.float64),
        )
        for each in series
    ]


def to_pandas(series: Sequence[SeriesPoints], wide: bool, on: str, every_secs: float | None) -> pandas.DataFrame:
    """A pandas frame. Raises MissingExtraError."""
    need("to_pandas()", "pandas", "numpy")
    import pandas as pd

    series = to_numpy(series)
    if wide:
        axis, filled = widen(series, on, every_secs)
        columns = {name: values for name, (values, _) in filled.items()}
        if on == "step":
            return pd.DataFrame(columns, index=pd.Index(axis, name="step"))
        return pd.DataFrame(columns, index=pd.DatetimeIndex(to_datetimes(axis), tz="UTC", name="timestamp"))
    texts, numbers = lengthen(series)
    frame = {name: pd.Categorical.from_codes(codes, categories) for name, (codes, categories) in texts.items()}
    moments = pd.Series(to_datetimes(numbers["timestamp"])).dt.tz_localize("UTC")
    return pd.DataFrame({**frame, "step": numbers["step"], "timestamp": moments, "value": numbers["value"]})


def to_polars(series: Sequence[SeriesPoints], wide: bool, on: str, every_secs: float | None) -> polars.DataFrame:
    """A polars frame. Raises MissingExtraError."""
    need("to_polars()", "polars", "numpy")
    import polars as pl

    series = to_numpy(series)
    if wide:
        axis, columns = widen(series, on, every_secs)
        first = pl.Series("step", axis) if on == "step" else _polars_times(to_datetimes(axis))
        others = [pl.Series(name, values).scatter((~has).nonzero()[0], None) for name, (values, has) in columns.items()]
        return pl.DataFrame([first, *others])
    texts, numbers = lengthen(series)
    built = []
    for name, (codes, categories) in texts.items():
        # The last one stands for a label that a series doesn't carry: -1.
        words = pl.Series(name, [*categories, None], dtype=pl.String).cast(pl.Categorical)
        built.append(words.gather(pl.Series(codes).cast(pl.Int64)))
    moments = _polars_times(to_datetimes(numbers["timestamp"]))
    return pl.DataFrame([*built, pl.Series("step", numbers["step"]), moments, pl.Series("value", numbers["value"])])


def lengthen(
    series: Sequence[SeriesPoints],
) -> tuple[dict[str, tuple[numpy.ndarray[Any, Any], list[str]]], dict[str, numpy.ndarray[Any, Any]]]:
    """A row a point: text columns as codes and their categories (-1 for none), and number columns."""
    import numpy as np

    sizes = [len(each) for each in series]
    texts: dict[str, tuple[numpy.ndarray[Any, Any], list[str]]] = {}
    keys = sorted({key for each in series for key in each.labels})
    columns: dict[str, list[str | None]] = {"name": [each.name for each in series]}
    if has_label_columns(keys):
        columns.update(
            {column: [each.labels.get(key) for each in series] for key, column in name_label_columns(keys).items()}
        )
    else:
        columns[LABELS] = [format_label_set(each.labels) for each in series]
    for column, texts_or_none in columns.items():
        words = [None if word is None else to_utf8(word) for word in texts_or_none]
        categories = sorted({word for word in words if word is not None})
        numbers = {word: number for number, word in enumerate(categories)}
        # No wider than pandas keeps them: there are as many as points.
        kind = next(kind for kind in (np.int8, np.int16, np.int32, np.int64) if len(numbers) <= np.iinfo(kind).max)
        codes = np.array([-1 if word is None else numbers[word] for word in words], kind)
        texts[column] = np.repeat(codes, sizes), categories
    empty = np.empty(0)
    return texts, {
        "step": np.concatenate([each.steps for each in series] or [empty.astype(np.int64)]),
        "timestamp": np.concatenate([each.times for each in series] or [empty]),
        "value": np.concatenate([each.values for each in series] or [empty]),
    }


def widen(
    series: Sequence[SeriesPoints], on: str, every_secs: float | None
) -> tuple[numpy.ndarray[Any, Any], dict[str, tuple[numpy.ndarray[Any, Any], numpy.ndarray[Any, Any]]]]:
    """A row a time or step, ascending, and a column a series: its values, NaN where it has no point, and where it has.

    Of several points at one time the later logged stands; ``every_secs`` has the mean of each stretch of time instead,
    which is named by its beginning. Raises SettingError.
    """
    import numpy as np

    if on not in ("time", "step"):
        raise SettingError(f"on={on!r} is no axis: 'time' or 'step'")
    if every_secs is not None and (on == "step" or not _is_span(every_secs)):
        raise SettingError(f"every_secs={every_secs!r}: give a number of seconds, for on='time' only")
    axes = [each.steps if on == "step" else each.times for each in series]
    if every_secs is not None:
        axes = [np.floor(times / every_secs) * every_secs for times in axes]
    axis = np.unique(np.concatenate(axes)) if axes else np.empty(0)
    columns = {}
    for name, each, own in zip(
        name_columns(series, "step" if on == "step" else "timestamp"), series, axes, strict=True
    ):
        places = np.searchsorted(axis, own)
        counts = np.bincount(places, minlength=len(axis))
        if every_secs is None:
            column = np.full(len(axis), np.nan)
            column[places] = each.values
        else:
            with np.errstate(invalid="ignore", divide="ignore"):
                column = np.bincount(places, weights=each.values, minlength=len(axis)) / counts
        columns[name] = column, counts > 0
    return axis, columns


def _is_span(secs: object) -> bool:
    return isinstance(secs, Real) and not isinstance(secs, bool) and _SHORTEST_SECS <= float(secs) < float("inf")


def name_columns(series: Sequence[SeriesPoints], axis: str) -> list[str]:
    """A name for each series: the metric's, with the labels in braces by which its series differ.

    Never that of the axis, nor one twice: the later ones are numbered.
    """
    sizes = Counter(each.name for each in series)
    carried = Counter((each.name, key, value) for each in series for key, value in each.labels.items())
    names = []
    for each in series:
        # A label that all of them carry with one value tells none from another.
        telling = [key for key in sorted(each.labels) if carried[each.name, key, each.labels[key]] < sizes[each.name]]
        text = ",".join(f"{key}={each.labels[key]}" for key in telling)
        names.append(to_utf8(f"{each.name}{{{text}}}" if text else each.name))
    first = dict.fromkeys(names)  # what needs no number keeps its name
    taken = {axis}
    for place, name in enumerate(names):
        number = 1
        while names[place] in taken:
            number += 1
            numbered = f"{name} ({number})"
            if numbered not in first:
                names[place] = numbered
        taken.add(names[place])
    return names


def to_datetimes(times: numpy.ndarray[Any, Any]) -> numpy.ndarray[Any, Any]:
    """Seconds since the epoch as datetime64 to the microsecond; not-a-time where no calendar of pandas reaches."""
    import numpy as np

    good = np.abs(times) < 9e9  # nanoseconds in 64 bits end in the year 2262
    micros = np.rint(np.where(good, times, 0.0) * 1e6).astype("int64").astype("datetime64[us]")
    micros[~good] = np.datetime64("NaT", "us")
    return micros


def _polars_times(moments: numpy.ndarray[Any, Any]) -> polars.Series:
    import polars as pl

    return pl.Series("timestamp", moments).dt.replace_time_zone("UTC")
