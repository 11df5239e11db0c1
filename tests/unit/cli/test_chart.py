from __future__ import annotations

from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrana.cli.chart import ASCII_LEVELS, UNICODE_LEVELS, average_columns, choose_levels, draw_chart

finite = st.floats(allow_nan=False, allow_infinity=False)


def test_bars_rise_from_the_lowest_value_to_the_highest() -> None:
    """The lowest value still has a bar, the highest fills the line."""
    assert ["▁▂▃▄▅▆▇█"] == draw_chart(range(8), range(8), 8, 1, UNICODE_LEVELS)
    assert ["  :#", ".###"] == draw_chart(range(4), [0, 3, 5, 7], 4, 2, ASCII_LEVELS)


def test_points_stand_where_their_time_is() -> None:
    """The axis is time, not the number of points; a stretch without points is a gap."""
    times = [0, 1, 2, 3, 100]
    assert [1.5, None, None, None, None, None, None, None, None, 7.0] == average_columns(times, [0, 1, 2, 3, 7], 10)


def test_points_that_are_rare_but_regular_leave_no_gaps() -> None:
    """Fewer points than columns: each holds until the next."""
    assert [1, 1, 1, 2, 2, 2, 3, 3, 3, 4] == average_columns([0, 3, 6, 9], [1, 2, 3, 4], 10, (0, 10))


@pytest.mark.parametrize("gap", [nan, inf, -inf])
def test_what_is_not_finite_is_a_gap(gap: float) -> None:
    """Also where the neighbours are close."""
    assert [1.0, None, 3.0] == average_columns([0, 1, 2], [1, gap, 3], 3)
    assert ["▁ █"] == draw_chart([0, 1, 2], [1, gap, 3], 3, 1, UNICODE_LEVELS)


def test_a_constant_stands_in_the_middle() -> None:
    """Neither empty nor full."""
    assert ["||||"] == draw_chart(range(4), [5] * 4, 4, 1, " .:|#")


def test_floor_and_ceiling_widen_the_scale() -> None:
    """A percentage that wavers by one doesn't look like a cliff."""
    assert ["▄▄"] == draw_chart([0, 1], [40, 41], 2, 1, UNICODE_LEVELS, floor=0, ceiling=100)


def test_a_single_point_is_a_bar() -> None:
    """A run of one tick can be looked at."""
    assert 1 == len(draw_chart([5], [1], 10, 1, UNICODE_LEVELS)[0])


def test_nothing_to_draw_is_empty_lines() -> None:
    """The page keeps its shape."""
    assert ["", ""] == draw_chart([], [], 10, 2, UNICODE_LEVELS)
    assert ["", ""] == draw_chart([1], [nan], 10, 2, UNICODE_LEVELS)


@pytest.mark.parametrize(
    ("encoding", "levels"),
    [("utf-8", UNICODE_LEVELS), ("ascii", ASCII_LEVELS), ("latin-1", ASCII_LEVELS), (None, ASCII_LEVELS)],
)
def test_the_encoding_decides_on_the_characters(encoding: str | None, levels: str) -> None:
    """Where blocks can't be written, ASCII can."""
    assert levels == choose_levels(encoding)


@given(st.lists(st.tuples(finite, st.floats()), max_size=30), st.integers(1, 20), st.integers(1, 3))
def test_any_series_can_be_drawn(points: list[tuple[float, float]], width: int, height: int) -> None:
    """However wide apart times and values are, the chart has its size and every finite value a place."""
    points.sort(key=lambda point: point[0])
    lines = draw_chart([t for t, _ in points], [v for _, v in points], width, height, UNICODE_LEVELS)
    assert height == len(lines)
    assert all(len(text) <= width for text in lines)
    assert any(v - v == 0.0 for _, v in points) == any(lines)
