"""What the charts draw: a stretch of the time or step axis in buckets, as columns of numbers.

The answer is a line of JSON and behind it, on a multiple of eight bytes, little-endian 64-bit floats. For each chart
the JSON lists its lines, ``[series number or -1, points, has extremes]``; the floats hold for each line its x and mean,
and where a bucket holds more than one value also low and high. What was superseded of a series is one line, too, with a
mean of NaN between two attempts.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np

from metrana.errors import MetranaError
from metrana.store.index import Buckets, SeriesInfo
from metrana.store.index.pieces import Floats
from metrana.ui.shelf import OpenRun

MOST_BUCKETS = 8192
MOST_LINES = 64


class WindowError(MetranaError, ValueError):
    """What the page asked for makes no sense."""


@dataclass(frozen=True)
class ChartRequest:
    """Series by number, each as a line or all as one band: what counts of them, or what later attempts superseded."""

    series: tuple[int, ...]
    is_band: bool
    is_superseded: bool = False


@dataclass(frozen=True)
class WindowRequest:
    """``count`` buckets of equal ``width`` from ``start``, in seconds since the epoch or steps."""

    run: str
    by: Literal["time", "step"]
    start: float
    width: float
    count: int
    charts: tuple[ChartRequest, ...]


def parse_request(body: bytes) -> WindowRequest:
    """The page's question. Raises WindowError."""
    try:
        record = json.loads(body)
        by = record["by"]
        start, width, buckets = float(record["start"]), float(record["width"]), record["count"]
        charts = tuple(_parse_chart(chart) for chart in record["charts"])
        run = record["run"]
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise WindowError("not a question for points") from error
    if by not in ("time", "step") or type(run) is not str:
        raise WindowError("not a question for points")
    if not (math.isfinite(start) and math.isfinite(start + width * 2) and width > 0):
        raise WindowError("the window's ends aren't finite")
    if type(buckets) is not int or not 1 <= buckets <= MOST_BUCKETS:
        raise WindowError(f"count must be from 1 to {MOST_BUCKETS}")
    return WindowRequest(run, by, start, width, buckets, charts)


def _parse_chart(record: Any) -> ChartRequest:
    series, is_band, is_superseded = record["series"], record["band"], record.get("superseded", False)
    if type(series) is not list or not all(type(n) is int for n in series):
        raise ValueError("not a chart")
    if type(is_band) is not bool or type(is_superseded) is not bool:
        raise ValueError("not a chart")
    if not is_band and len(series) > MOST_LINES:
        raise ValueError("too many lines")
    return ChartRequest(tuple(series), is_band, is_superseded)


def read_window(run: OpenRun, request: WindowRequest) -> bytes:
    """The answer to a request. Series that the run doesn't have are left out."""
    head: list[list[list[int]]] = []
    columns: list[bytes] = []
    for chart in request.charts:
        lines: list[list[int]] = []
        known = [run.series[number] for number in chart.series if 0 <= number < len(run.series)]
        numbers = [number for number in chart.series if 0 <= number < len(run.series)]
        if chart.is_band:
            lines.append(_pack(-1, _add_up(run, known, request, chart), columns, has_extremes=True))
        else:
            for number, series in zip(numbers, known, strict=True):
                found = _add_up(run, [series], request, chart)
                lines.append(_pack(number, found, columns, has_extremes=bool(np.any(found.count > 1))))
        head.append(lines)
    text = json.dumps(head, separators=(",", ":")).encode("ascii")
    text += b" " * (-(len(text) + 1) % 8) + b"\n"
    return text + b"".join(columns)


def _add_up(run: OpenRun, series: list[SeriesInfo], request: WindowRequest, chart: ChartRequest) -> Buckets:
    end = request.start + request.width * request.count
    if chart.is_superseded:
        return _join(run.index.superseded_bands(series, request.start, end, request.count, request.by))
    return run.index.band(series, request.start, end, request.count, request.by)


def _join(attempts: list[Buckets]) -> Buckets:
    """One after the other. No line goes through from one to the next: a point without a value stands between them."""
    parts: list[Buckets] = []
    for found in attempts:
        if len(found.x):
            parts += [_break_at(found.x[:1]), found] if parts else [found]
    if not parts:
        return _break_at(np.empty(0))
    return Buckets(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Buckets)))


def _break_at(x: Floats) -> Buckets:
    nothing = np.full(len(x), np.nan)
    return Buckets(x, nothing, nothing, nothing, np.zeros(len(x), dtype=np.int64))


def _pack(number: int, found: Buckets, columns: list[bytes], *, has_extremes: bool) -> list[int]:
    shown = (found.x, found.mean, found.low, found.high) if has_extremes else (found.x, found.mean)
    columns += [np.ascontiguousarray(column, dtype="<f8").tobytes() for column in shown]
    return [number, len(found.x), int(has_extremes)]
