"""A run in words for the page: JSON without NaN, texts for attributes, and why a chart is empty."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from metrana.cli.text import find_unit, format_figure, format_project
from metrana.store.ends import RUNNING
from metrana.store.index import SeriesInfo
from metrana.store.layout import FORMAT_VERSION
from metrana.store.problems import describe_problems
from metrana.store.run_info import RunInfo

_CAPTURE = "system/capture/"
_MOST_PROCESSES = 64
_MOST_PATHS = 20


def describe_info(key: str, info: RunInfo) -> dict[str, Any]:
    """A run for the list. Times in seconds since the epoch, null where they're out of range."""
    writers = info.writers[:_MOST_PROCESSES]
    return {
        "key": key,
        "id": info.id,
        "name": info.run_name,
        "project": format_project(info),
        "status": info.status,
        "live": info.status == RUNNING,
        "started": finite(info.started),
        "last": finite(info.last),
        "hosts": sorted({writer.host for writer in writers}),
        "processes": len(info.writers),
    }


def describe_series(number: int, series: SeriesInfo, superseded: SeriesInfo | None = None) -> dict[str, Any]:
    """A series for the page, and where what later attempts have superseded of it lies.

    ``figure`` is its last value as ``metrana show`` has it, NaN and infinities too.
    """
    return {
        "n": number,
        "name": series.name,
        "labels": dict(series.labels),
        "count": series.count,
        "first": finite(series.first_time),
        "last": finite(series.last_time),
        "steps": [series.lowest_step, series.highest_step],
        "value": finite(series.last_value),
        "figure": format_figure(series.last_value, find_unit(series.name)),
        "finite": series.finite,
        "superseded": superseded and _describe_superseded(superseded),
    }


def _describe_superseded(series: SeriesInfo) -> dict[str, Any]:
    return {
        "count": series.count,
        "first": finite(series.first_time),
        "last": finite(series.last_time),
        "steps": [series.lowest_step, series.highest_step],
    }


def describe_metric(name: str) -> dict[str, str]:
    """Where a metric's chart stands, and the unit of its axis."""
    group = name.split("/")[1] if name.startswith("system/") and name.count("/") >= 2 else "yours"
    return {"group": group, "unit": find_unit(name).strip()}


def describe_attributes(attributes: Mapping[str, Any]) -> dict[str, str]:
    """Each attribute as a text."""
    return {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
        for name, value in attributes.items()
    }


def explain_group(group: str, attributes: Mapping[str, Any], *, is_live: bool) -> str:
    """Why a group of system metrics has no chart, from the run's attributes."""
    reasons = _find_reasons(group, attributes)
    if reasons:
        return reasons[0]
    if attributes.get(_CAPTURE + group) == "ok":
        return "captured, but no point has been written yet" if is_live else "captured, but no point was written"
    if is_live:
        return "nothing yet: no attribute of the run says anything about it so far"
    return "not captured, and no attribute of the run says why: capture was switched off, or ended before it began"


def explain_parts(group: str, attributes: Mapping[str, Any]) -> list[str]:
    """What's missing of a group that has charts: single devices and readings, and the end of all capture."""
    found = []
    for name, reason in attributes.items():
        if name.startswith(f"{_CAPTURE}{group}/") and isinstance(reason, str):
            found.append(f"{name[len(_CAPTURE) :].replace('/', ' ')}: {reason}")
    return found + _find_reasons(group, attributes)


def _find_reasons(group: str, attributes: Mapping[str, Any]) -> list[str]:
    """Why a group isn't charted, or isn't any more: its collector's reason, and that of all capture."""
    told = (attributes.get(name) for name in (_CAPTURE + group, _CAPTURE[:-1]))
    return [reason for reason in told if isinstance(reason, str) and reason != "ok"]


def describe_damage(skipped_lines: int, unreadable: Sequence[str], newest_version: int = FORMAT_VERSION) -> list[str]:
    """What of a run or a store isn't shown, a sentence each; of very many paths only some."""
    told = describe_problems(skipped_lines, unreadable[:_MOST_PATHS], newest_version)
    left = len(unreadable) - _MOST_PATHS
    return [*told, f"and {left} more that can't be read"] if left > 0 else told


def finite(value: float) -> float | None:
    """JSON has no NaN and no infinities."""
    return value if math.isfinite(value) else None
