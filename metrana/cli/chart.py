"""Charts in the terminal, drawn by plotext: lines over the time since the run's start, gaps where nothing stands."""

from __future__ import annotations

import math
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from metrana.cli import text
from metrana.cli.scale import find_exponent, restore, shrink
from metrana.cli.ticks import choose_moments, widen
from metrana.extras import has_package
from metrana.store.series import SeriesInfo

if TYPE_CHECKING:
    from metrana.store.index import Buckets, RunIndex

CHART_PACKAGES = ("plotext", "numpy")
COLORS = ("blue+", "orange+", "green+", "red+", "magenta+", "cyan+", "gray+", "white")
MOST_LINES = len(COLORS)  # in one chart; of more series it's the lowest, the mean and the highest
TICKS = 5
_COLUMNS_A_TICK = 12
_DOTS = 2  # in a braille character, side by side
# A stretch without points is drawn through up to this many times the usual distance of two points.
_BRIDGED_INTERVALS = 3.0
# Further from the run's start than this many times its own length, a series' time is counted from its first point.
_FARTHEST_SPANS = 20.0
_LARGEST_SECS = 1e300  # of a time: the drawing's arithmetic overflows
_SHORTEST_SECS = 1e-9  # of a chart
_LEAST_COLUMNS, _MOST_COLUMNS = 30, 100
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_ASCII = str.maketrans("│┤├┌┐└┘─┬┴┼", "|||++++-+++")


class Charts:
    """Draws charts of ``width`` columns, with color and beyond ASCII where the output can show it.

    ``can_draw`` says whether what it takes is installed.
    """

    def __init__(
        self, width: int, has_color: bool = False, is_ascii: bool = False, can_draw: bool | None = None
    ) -> None:
        self.can_draw = has_charts() if can_draw is None else can_draw
        self.width = width
        self.has_color = has_color
        self.is_ascii = is_ascii

    def mark(self, index: int, of: int) -> str:
        """What stands in front of a series' figures and tells its line; nothing where there's no telling."""
        if not self.can_draw or not self.has_color or not 1 < of <= MOST_LINES:
            return ""
        import plotext

        return str(plotext.colorize("▪" if not self.is_ascii else "*", COLORS[index])) + " "

    def draw(
        self,
        index: RunIndex,
        series: Sequence[SeriesInfo],
        height: int,
        unit: str,
        floor: float | None = None,
        ceiling: float | None = None,
    ) -> list[str]:
        """The lines of a chart of a metric's series, axes and all; none where fewer than two moments hold a number.

        One that says so where the times are too large.

        ``floor`` and ``ceiling`` are values that the scale reaches at least.
        """
        first, last = min(each.first_time for each in series), max(each.last_time for each in series)
        life = index.window
        start, end = max(first, life[0]), min(last, life[1])
        if end < start:  # a recording of another time: charted in its own
            start, end = first, last
        if not start < end or not any(each.finite for each in series):
            return []
        if max(abs(start), abs(end)) >= _LARGEST_SECS:
            return ["no chart: times beyond what it can be drawn with"]
        if end - start < _SHORTEST_SECS:
            return []
        plot = _start_plot(self.width, height)
        dots = max(2, self.width * _DOTS)
        if len(series) <= MOST_LINES:
            lines = [_stroke(index.buckets(each, start, end, dots)) for each in series]
        else:
            band = index.band(series, start, end, dots)
            lines = [_split(band.x, values) for values in (band.low, band.mean, band.high)]
        marker = "." if self.is_ascii else "braille"
        drawn_values = [value for pieces in lines for _, values in pieces for value in values]
        if not drawn_values:
            return ["no chart: no number within the run's time"]
        low, high = min(drawn_values), max(drawn_values)
        low, high = min(low, low if floor is None else floor), max(high, high if ceiling is None else ceiling)
        low, high = widen(low, high, unit)
        exponent = find_exponent(low, high)
        low, high = shrink((low, high), exponent)
        for number, pieces in enumerate(lines):
            for times, values in pieces:
                plot.plot([at - start for at in times], shrink(values, exponent), marker=marker, color=COLORS[number])
        plot.xlim(0.0, end - start)
        plot.ylim(low, high)
        heights = [low + (high - low) * part / (TICKS - 1) for part in range(TICKS)]
        plot.yticks(heights, [_format_height(restore(at, exponent), unit) for at in heights])
        offset = start - index.info.started
        if abs(offset) > _FARTHEST_SPANS * (end - start):
            offset = 0.0
        moments = choose_moments(offset, offset + end - start, min(TICKS, self.width // _COLUMNS_A_TICK))
        plot.xticks([at - offset for at, _ in moments], [label for _, label in moments])
        drawn = str(plot.build())
        if not self.has_color:
            drawn = _ESCAPES.sub("", drawn)
        if self.is_ascii:
            drawn = drawn.translate(_ASCII)
        told = ["points lie outside of the run's time"] if first < life[0] or last > life[1] else []
        return [line.rstrip() for line in drawn.splitlines()] + told


def has_charts() -> bool:
    """Whether what draws charts is installed."""
    return all(map(has_package, CHART_PACKAGES))


def choose_charts(output: TextIO) -> Charts:
    """Charts as wide as the terminal lets them, and as an output can show them (https://no-color.org)."""
    columns = max(_LEAST_COLUMNS, min(_MOST_COLUMNS, shutil.get_terminal_size((80, 24)).columns - 2))
    try:
        "│⣿".encode(output.encoding or "ascii")
        is_ascii = False
    except (UnicodeEncodeError, LookupError):
        is_ascii = True
    has_color = output.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Charts(columns, has_color, is_ascii)


def _start_plot(width: int, height: int) -> Any:
    """plotext keeps one figure for all: emptied here, in the size asked for and not in the terminal's."""
    import plotext

    plotext.clear_figure()
    plotext.theme("clear")
    plotext.limitsize(False, False)
    plotext.plotsize(width, height)
    return plotext


def _stroke(buckets: Buckets) -> list[tuple[list[float], list[float]]]:
    """A series as lines that pass through the lowest and the highest of each bucket."""
    times, values = [], []
    for at, low, high in zip(buckets.x.tolist(), buckets.low.tolist(), buckets.high.tolist(), strict=True):
        times += [at] if low == high else [at, at]
        values += [low] if low == high else [low, high]
    return _split(times, values)


def _split(times: Any, values: Any) -> list[tuple[list[float], list[float]]]:
    """Lines cut where nothing was logged for long, or nothing finite."""
    times, values = list(map(float, times)), list(map(float, values))
    distances = sorted(later - earlier for earlier, later in _pairs(times) if later > earlier)
    longest = distances[len(distances) // 2] * _BRIDGED_INTERVALS if distances else math.inf
    lines: list[tuple[list[float], list[float]]] = []
    before = -math.inf
    for at, value in zip(times, values, strict=True):
        if not math.isfinite(value):
            before = -math.inf
            continue
        if at - before > longest or before == -math.inf:
            lines.append(([], []))
        lines[-1][0].append(at)
        lines[-1][1].append(value)
        before = at
    return lines


def _pairs(times: list[float]) -> Iterator[tuple[float, float]]:
    return zip(times, times[1:], strict=False)


def _format_height(value: float, unit: str) -> str:
    return text.format_value(value, unit) if unit else f"{value:.4g}"
