"""``metrana show``: one run in the terminal, a small chart for each series."""

from __future__ import annotations

import argparse
import fnmatch
import json
import math
import shutil
import sys
from array import array
from collections.abc import Iterable, Sequence
from itertools import groupby

from metrana.cli import text
from metrana.cli.chart import choose_levels, draw_chart
from metrana.errors import MetranaError
from metrana.store.catalog import RunInfo
from metrana.store.reader import Series, StoredRun, open_run

NAME = "show"
HELP = "show a run: attributes and a small chart of each series"
NEEDS_STORE = True
_GROUPS = ("gpu", "cpu", "memory", "disk", "process")
_CHART_COLUMNS = (20, 60)
_PROCESSES_SHOWN = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_id", metavar="RUN", help="id or name of a run; of several with one name, the newest")
    parser.add_argument(
        "patterns",
        metavar="NAME",
        nargs="*",
        default=[],
        help="only the series of these metrics: names or patterns ('system/cpu/*')",
    )


def run(args: argparse.Namespace) -> int:
    stored = open_run(args.dir, args.run_id)
    levels = choose_levels(sys.stdout.encoding)
    width = shutil.get_terminal_size((80, 24)).columns
    for line in render_run(stored, args.patterns, width, levels):
        print(line)
    return 0


def render_run(stored: StoredRun, patterns: Sequence[str], width: int, levels: str) -> Iterable[str]:
    """The lines that show a run in a terminal of ``width`` columns. Raises MetranaError where no series is selected."""
    selected = select_series(stored, patterns)
    yield from _render_identity(stored.info)
    if stored.attributes and not patterns:
        yield from ("", "attributes")
        shown = sorted(stored.attributes.items(), key=lambda item: (item[0].startswith("system/"), item[0]))
        yield from (
            "  " + line for line in text.format_table([(text.escape_text(k), _format_attribute(v)) for k, v in shown])
        )
    hosts = {dict(series.labels).get("host") for series in stored.series.values()} - {None}
    hidden = ("host",) if len(hosts) < 2 else ()
    for title, group in groupby(sorted(selected, key=_position), key=_title):
        yield from ("", text.escape_text(title))
        for name, several in groupby(group, key=lambda series: series.name):
            yield from _render_metric(name, list(several), hidden, width, levels)
    if not stored.series:
        yield from ("", "no points")
    if stored.skipped_lines:
        lines = "1 line" if stored.skipped_lines == 1 else f"{stored.skipped_lines} lines"
        yield from ("", f"{lines} not readable as a whole and skipped")
    if stored.unreadable:
        yield from ("", *(f"can't read {text.escape_text(path)}" for path in stored.unreadable))


def select_series(stored: StoredRun, patterns: Sequence[str]) -> list[Series]:
    """The series whose metric has one of the names or matches one of the patterns; all where there are none.

    Raises MetranaError where a pattern matches nothing.
    """
    names = {series.name for series in stored.series.values()}
    chosen: set[str] = set()
    for pattern in patterns:
        found = {name for name in names if name == pattern or fnmatch.fnmatchcase(name, pattern)}
        if not found:
            raise MetranaError(f"run {stored.info.run_name!r} has no series {pattern!r}: 'metrana show RUN' shows all")
        chosen |= found
    return [series for series in stored.series.values() if not patterns or series.name in chosen]


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


def _title(series: Series) -> str:
    if not series.name.startswith("system/"):
        return "training metrics"
    return "/".join(series.name.split("/")[:2])


def _position(series: Series) -> tuple[int, str, str, list[tuple[str, bool, int, str]]]:
    """Training metrics first, then the hardware; labels in the order of their numbers, gpu=2 before gpu=10."""
    title = _title(series)
    group = title.partition("system/")[2]
    rank = -1 if not group else _GROUPS.index(group) if group in _GROUPS else len(_GROUPS)
    # int() would refuse very long ones, and such digits as ² aren't decimal.
    labels = [(k, not _is_small(v), int(v) if _is_small(v) else 0, v) for k, v in series.labels]
    return rank, title, series.name, labels


def _is_small(value: str) -> bool:
    return value.isascii() and value.isdecimal() and len(value) < 10


def _render_metric(name: str, several: list[Series], hidden: Sequence[str], width: int, levels: str) -> Iterable[str]:
    is_training = not name.startswith("system/")
    shown_name = text.escape_text(name)
    if len(several) == 1:
        labels = text.format_labels(several[0].labels, hidden)
        heads, indent = [f"{shown_name}  {labels}".rstrip()], "  "
    else:
        yield f"  {shown_name}"
        heads, indent = [text.format_labels(series.labels, hidden) or "no labels" for series in several], "    "
    unit = text.find_unit(name)
    if levels.isascii():
        unit = unit.replace("°", "")
    ceiling = 100.0 if unit == " %" and not is_training else None
    floor = 0.0 if ceiling is not None else None
    columns = max(_CHART_COLUMNS[0], min(_CHART_COLUMNS[1], width - len(indent) - 2))
    column = max(text.count_columns(head) for head in heads)
    # One time axis for all series of a metric: what happened at once stands in one column.
    span = (min(series.timestamps[0] for series in several), max(series.timestamps[-1] for series in several))
    for head, series in zip(heads, several):  # noqa: B905 - of equal length
        yield f"{indent}{text.pad(head, column)}  {_describe(series.values, unit)}"
        height = 2 if is_training else 1
        chart = draw_chart(
            series.timestamps, series.values, columns, height, levels, span=span, floor=floor, ceiling=ceiling
        )
        yield from (f"{indent}  {line}".rstrip() for line in chart)


def _describe(values: array[float], unit: str) -> str:
    finite = array("d", filter(math.isfinite, values))
    parts = [f"last {text.format_value(values[-1], unit)}"]
    if finite:
        parts += [f"min {text.format_value(min(finite), unit)}", f"max {text.format_value(max(finite), unit)}"]
    parts.append("1 point" if len(values) == 1 else f"{len(values)} points")
    if len(finite) < len(values):
        parts.append(f"{len(values) - len(finite)} not finite")
    return "  ".join(parts)
