from __future__ import annotations

import io
from pathlib import Path

import pytest

from metrana.cli.chart import Charts, choose_charts, find_window, has_charts
from metrana.store.catalog import find_run
from metrana.store.series import SeriesInfo
from tests.unit.store.build import T0, declare, end, head, points, put

if not has_charts():
    pytest.skip("plotext or NumPy isn't installed", allow_module_level=True)

from metrana.store.index import RunIndex

BRAILLE = {chr(code) for code in range(0x2801, 0x2900)}


def put_series(store: Path, *series: dict[int, object], name: str = "x") -> RunIndex:
    """A run with series of one metric, each a dict of seconds and values."""
    lines = [declare(number, name, gpu=str(number)) for number in range(len(series))]
    lines += [
        points(T0 + second, second, {number: value})
        for number, one in enumerate(series)
        for second, value in one.items()
    ]
    put(store, head(), *lines)
    return RunIndex.open(find_run(str(store), "train"))


def draw(index: RunIndex, charts: Charts, floor: float | None = None, ceiling: float | None = None) -> list[str]:
    return charts.draw(index, index.series, 9, "", floor, ceiling)


def inside(lines: list[str]) -> list[str]:
    """The drawn part of each row, from the top."""
    return [line.partition("┤")[2] or line.partition("│")[2] for line in lines if "┤" in line or line.count("│") == 2]


def test_a_rising_series_rises(tmp_path: Path) -> None:
    """The line goes from the lower left to the upper right."""
    rows = inside(draw(put_series(tmp_path, {t: float(t) for t in range(50)}), Charts(60)))
    first = [min((column for column, mark in enumerate(row) if mark in BRAILLE), default=-1) for row in rows]
    assert sorted(first, reverse=True) == first
    assert -1 not in first


def test_one_spike_among_a_million_points_is_drawn(tmp_path: Path) -> None:
    """However many points a column stands for, its highest is seen."""
    values: dict[int, object] = dict.fromkeys(range(20_000), 1.0)
    values[12_345] = 100.0
    rows = inside(draw(put_series(tmp_path, values), Charts(60)))
    assert any(mark in BRAILLE for mark in rows[0])


def test_the_scale_reaches_floor_and_ceiling(tmp_path: Path) -> None:
    """A percentage is drawn from 0 to 100."""
    lines = draw(put_series(tmp_path, {0: 40.0, 9: 60.0}), Charts(60), 0.0, 100.0)
    assert "100┤" in lines[1]
    assert any("  0┤" in line for line in lines)


def test_time_is_counted_from_the_runs_start(tmp_path: Path) -> None:
    """The axis begins where the series does."""
    assert ["30s", "40s"] == draw(put_series(tmp_path, {30: 1.0, 40: 2.0}), Charts(60))[-1].split()[::4]


def test_a_long_stretch_without_points_is_a_gap(tmp_path: Path) -> None:
    """Nothing is drawn where nothing was logged."""
    values: dict[int, object] = dict.fromkeys([*range(40), *range(160, 200)], 1.0)
    (row,) = [row for row in inside(draw(put_series(tmp_path, values), Charts(80))) if set(row) & BRAILLE]
    marks = "".join("x" if mark in BRAILLE else " " for mark in row.rstrip("│"))
    assert 2 == len(marks.split())


def test_what_is_not_finite_is_a_gap(tmp_path: Path) -> None:
    """NaN and infinities don't stretch the scale."""
    lines = draw(put_series(tmp_path, {0: 1.0, 1: 2.0, 2: "Infinity", 3: "NaN", 4: 1.0, 5: 2.0}), Charts(60))
    assert "2┤" in lines[1]


@pytest.mark.parametrize("values", [{0: 1.0}, {0: "NaN", 1: "NaN"}], ids=["one point", "nothing finite"])
def test_what_has_no_chart_has_none(values: dict[int, object], tmp_path: Path) -> None:
    """One moment, nothing finite: the figures have to do."""
    assert [] == draw(put_series(tmp_path, values), Charts(60))


def test_more_series_than_colors_are_one_band(tmp_path: Path) -> None:
    """The lowest, the mean and the highest."""
    rows = inside(draw(put_series(tmp_path, *({0: float(n), 9: float(n)} for n in range(11))), Charts(60)))
    drawn = [number for number, row in enumerate(rows) if set(row) & BRAILLE]
    assert (3, 0, len(rows) - 1) == (len(drawn), drawn[0], drawn[-1])


def test_without_color_no_escape_is_written(tmp_path: Path) -> None:
    """A pipe gets text."""
    index = put_series(tmp_path, {0: 1.0, 9: 2.0}, {0: 2.0, 9: 1.0})
    assert not any("\x1b" in line for line in draw(index, Charts(60)))
    assert any("\x1b" in line for line in draw(index, Charts(60, has_color=True)))
    assert ("", "") == (Charts(60).mark(0, 2), Charts(60, has_color=True).mark(0, 1))
    assert Charts(60, has_color=True).mark(0, 2)


def test_an_output_without_braille_gets_ascii(tmp_path: Path) -> None:
    """Frame and marks fall back."""
    ascii_output = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    charts = choose_charts(ascii_output)
    assert (True, False) == (charts.is_ascii, charts.has_color)
    text = "\n".join(draw(put_series(tmp_path, {0: 1.0, 9: 2.0}), charts))
    assert text.isascii()
    assert "." in text


def test_a_chart_is_as_wide_as_asked(tmp_path: Path) -> None:
    """Axis and labels included."""
    index = put_series(tmp_path, {0: 1.0, 9: 2.0})
    for width in (40, 100):
        assert width == len(draw(index, Charts(width))[0])


def test_series_infos_need_not_be_in_any_order(tmp_path: Path) -> None:
    """The axis covers them all."""
    index = put_series(tmp_path, {5: 1.0, 9: 2.0}, {0: 3.0, 4: 1.0})
    series: list[SeriesInfo] = list(reversed(index.series))
    assert index.series[1] is series[0]
    assert "0s" == Charts(60).draw(index, series, 9, "")[-1].split()[0]


def test_values_beyond_what_can_be_drawn_say_so(tmp_path: Path) -> None:
    """The figures are there; why there's no chart is told."""
    (line,) = draw(put_series(tmp_path, {0: 1e308, 5: -1e308}), Charts(60))
    assert "no chart" in line


def test_a_point_of_another_century_does_not_flatten_a_chart(tmp_path: Path) -> None:
    """The chart spans the run's life; a series wholly of another time is charted in its own."""
    lines = [points(T0 + step, step, {1: float(step), 2: 1.0}) for step in range(60)]
    put(
        tmp_path,
        head(),
        declare(1, "loss"),
        declare(2, "lr"),
        *lines,
        points(-2208988800.0, 60, {1: 0.0}),
        end(T0 + 60),
    )
    info = find_run(str(tmp_path), "train")
    series = {each.name: each for each in RunIndex.open(info).series}
    assert (T0, T0 + 59) == find_window(info, [series["loss"]])
    assert (T0, T0 + 59) == find_window(info, [series["lr"]])
    drawn = Charts(60).draw(RunIndex.open(info), [series["loss"]], 8, "")
    assert "not drawn, far from the run's time: 1 of the points" == drawn[-1]
