"""One run as a page of text: what it is, figures of each series and a chart of each metric."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, cast

from metrana.cli import text
from metrana.cli.chart import CHART_PACKAGES, Charts
from metrana.extras import describe_install, find_missing
from metrana.store.problems import describe_problems
from metrana.store.reading import Reading, select_series
from metrana.store.run_info import RunInfo
from metrana.store.series import SeriesInfo

if TYPE_CHECKING:
    from metrana.store.index import RunIndex

_CHART_LINES = {True: 12, False: 8}  # of a training metric, of the hardware
_PROCESSES_SHOWN = 8
_SERIES_SHOWN = 16  # of one metric, each with its figures, unless the metric was asked for


def render_run(reading: Reading, patterns: Sequence[str], charts: Charts) -> Iterable[str]:
    """The lines that show a run; where ``charts`` can't draw, the figures only, and what to install.

    Raises SeriesNotFoundError where no series is selected.
    """
    selected = select_series(reading, patterns, {})
    yield from _render_identity(reading.info)
    if reading.attributes and not patterns:
        yield from ("", "attributes")
        shown = sorted(reading.attributes.items(), key=lambda item: (item[0].startswith("system/"), item[0]))
        yield from (
            "  " + line for line in text.format_table([(text.escape_text(k), _format_attribute(v)) for k, v in shown])
        )
    hosts = {dict(series.labels).get("host") for series in reading.series} - {None}
    hidden = ("host",) if len(hosts) < 2 else ()
    for title, group in groupby(sorted(selected, key=_position), key=_title):
        yield from ("", text.escape_text(title))
        for name, several in groupby(group, key=lambda series: series.name):
            yield from _render_metric(reading, name, list(several), hidden, charts, is_asked_for=bool(patterns))
    if not reading.series:
        yield from ("", "no points")
    elif not charts.can_draw:
        yield from ("", f"for charts: {describe_install(*find_missing(*CHART_PACKAGES) or CHART_PACKAGES)}")
    problems = describe_problems(reading.skipped_lines, reading.unreadable, reading.newest_version)
    if problems:
        yield from ("", *map(text.escape_text, problems))


def _render_identity(info: RunInfo) -> Iterable[str]:
    processes = [
        (f"rank {writer.rank}: " if writer.rank is not None else "")
        + f"{text.escape_text(writer.host)} pid {writer.pid}"
        for writer in info.writers[:_PROCESSES_SHOWN]
    ]
    if len(info.writers) > _PROCESSES_SHOWN:
        processes.append(f"{len(info.writers) - _PROCESSES_SHOWN} more")
    yield text.escape_text(info.run_name)
    yield f"  id         {text.escape_text(info.id)}"
    yield f"  project    {text.format_project(info)}"
    yield f"  status     {info.status}"
    yield f"  started    {text.format_time(info.started)}"
    yield f"  last       {text.format_time(info.last)} ({text.format_duration(info.last - info.started)})"
    yield f"  processes  {', '.join(processes)}"
    yield f"  folder     {text.escape_text(info.folder)}"


def _format_attribute(value: object) -> str:
    return text.escape_text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True))


def _title(series: SeriesInfo) -> str:
    if not series.name.startswith("system/"):
        return "training metrics"
    return "/".join(series.name.split("/")[:2])


def _position(series: SeriesInfo) -> tuple[int, str, str, list[tuple[str, bool, int, str]]]:
    """Training metrics first, then the hardware; labels in the order of their numbers, gpu=2 before gpu=10."""
    title = _title(series)
    group = title.partition("system/")[2]
    groups = text.SYSTEM_GROUPS
    rank = -1 if not group else groups.index(group) if group in groups else len(groups)
    # int() would refuse very long ones, and such digits as ² aren't decimal.
    labels = [(k, not _is_small(v), int(v) if _is_small(v) else 0, v) for k, v in series.labels]
    return rank, title, series.name, labels


def _is_small(value: str) -> bool:
    return value.isascii() and value.isdecimal() and len(value) < 10


def _render_metric(
    reading: Reading,
    name: str,
    several: list[SeriesInfo],
    hidden: Sequence[str],
    charts: Charts,
    is_asked_for: bool,
) -> Iterable[str]:
    is_training = not name.startswith("system/")
    unit = text.find_unit(name)
    if charts.is_ascii:
        unit = unit.replace("°", "")
    yield from _render_figures(name, several, hidden, unit, charts, is_asked_for)
    if charts.can_draw:
        ceiling = 100.0 if unit == " %" and not is_training else None
        floor = 0.0 if ceiling is not None else None
        index = cast("RunIndex", reading)  # has_charts() told that NumPy is there
        lines = charts.draw(index, several, _CHART_LINES[is_training], unit, floor, ceiling)
        yield from (f"  {line}" for line in lines)


def _render_figures(
    name: str,
    several: list[SeriesInfo],
    hidden: Sequence[str],
    unit: str,
    charts: Charts,
    is_asked_for: bool,
) -> Iterable[str]:
    shown_name = text.escape_text(name)
    if len(several) == 1:
        labels = text.format_labels(several[0].labels, hidden)
        heads, indent = [f"{shown_name}  {labels}".rstrip()], "  "
    else:
        yield f"  {shown_name}"
        heads, indent = [text.format_labels(series.labels, hidden) or "no labels" for series in several], "    "
    if len(several) > _SERIES_SHOWN and not is_asked_for:
        yield f"{indent}{_describe_many(several, unit)}"
        return
    column = max(text.count_columns(head) for head in heads)
    for number, (head, series) in enumerate(zip(heads, several, strict=True)):
        mark = charts.mark(number, len(several))
        yield f"{indent}{mark}{text.pad(head, column)}  {_describe(series, unit)}"


def _describe_many(several: list[SeriesInfo], unit: str) -> str:
    newest = [series.last_value for series in several]
    newest = [value for value in newest if math.isfinite(value)] or newest  # NaN is neither lower nor higher
    parts = [f"{len(several)} series", f"last {text.format_value(min(newest), unit)}"]
    parts[-1] += f" to {text.format_value(max(newest), unit)}"
    finite = [series for series in several if series.finite]
    if finite:
        parts.append(f"min {text.format_value(min(series.low for series in finite), unit)}")
        parts.append(f"max {text.format_value(max(series.high for series in finite), unit)}")
    return "  ".join([*parts, f"{sum(series.count for series in several)} points"])


def _describe(series: SeriesInfo, unit: str) -> str:
    parts = [f"last {text.format_value(series.last_value, unit)}"]
    if series.finite:
        parts += [f"min {text.format_value(series.low, unit)}", f"max {text.format_value(series.high, unit)}"]
    parts.append("1 point" if series.count == 1 else f"{series.count} points")
    if series.finite < series.count:
        parts.append(f"{series.count - series.finite} not finite")
    return "  ".join(parts)
