from __future__ import annotations

import pytest

from metrana.cli.text import format_value
from metrana.cli.ticks import choose_moments, widen

SPANS = (1e-3, 0.3, 1.0, 2.5, 7.0, 12.0, 59.0, 61.0, 100.0, 3599.0, 3700.0, 86399.0, 90000.0, 1e6, 4e7, 3e9)


@pytest.mark.parametrize("start", [0.0, 0.7, 31.0, 5000.0, -40.0])
@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("most", [2, 3, 5])
def test_a_time_axis_has_three_ticks_in_one_unit(start: float, span: float, most: int) -> None:
    """At least three that differ, in the axis, not more than twice as many as fit."""
    ticks = choose_moments(start, start + span, most)
    assert 3 <= len({label for _, label in ticks}) == len(ticks) <= 2 * max(3, most)
    assert all(start - 1e-6 * span <= at <= start + span * (1 + 1e-6) for at, _ in ticks)
    assert 1 == len({label[-1] for _, label in ticks})


@pytest.mark.parametrize(("value", "unit"), [(0.0, ""), (1.0, ""), (-3e38, ""), (97.31, " %"), (1.0, "bytes")])
def test_a_range_has_ticks_that_differ(value: float, unit: str) -> None:
    """Also where all values are the same; 0 bytes are the least there are."""
    low, high = widen(value, value, unit)
    assert 3 <= len({format_value(low + (high - low) * part / 4, unit) for part in range(5)})
    assert low <= value <= high and (unit != "bytes" or low >= 0)
