"""When ticks are due: on a grid that doesn't drift, and a few more at first."""

from __future__ import annotations

import pytest

from metrana.system.grid import Grid


def dues(interval_secs: float, count: int, start: float = 0.0, now: float = 0.0) -> list[float]:
    """The next ticks that are due, each taken in time."""
    grid = Grid(start, interval_secs, now)
    found = []
    for _ in range(count):
        now = grid.advance(now)
        found.append(now)
    return found


@pytest.mark.parametrize(
    ("interval_secs", "expected"),
    [
        (30.0, [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 60.0, 90.0]),
        (10.0, [1.0, 2.0, 4.0, 8.0, 10.0, 20.0, 30.0]),
        (1.5, [1.0, 1.5, 3.0, 4.5]),
        (2.0, [1.0, 2.0, 4.0, 6.0]),
        (1.0, [1.0, 2.0, 3.0, 4.0]),
    ],
)
def test_the_first_minute_is_dense(interval_secs: float, expected: list[float]) -> None:
    """Beside the grid there are ticks at 1, 2, 4, 8 and 16 seconds, those below the interval, and none twice."""
    assert expected == dues(interval_secs, len(expected))


def test_the_grid_is_kept_beside_the_dense_ticks() -> None:
    """A start that no float holds exactly moves nothing, and an hour later tick n is due at start + n x interval."""
    found = dues(0.1, 36_000, start=1234.1, now=1234.1)
    assert max(abs(1234.1 + 0.1 * (n + 1) - due) for n, due in enumerate(found)) < 1e-6


def test_what_was_missed_is_left_out() -> None:
    """A machine that slept through dense ticks goes on with the next one, and no storm follows."""
    grid = Grid(0.0, 30.0, 0.0)
    assert [1.0, 8.0, 16.0, 90.0, 120.0] == [grid.advance(now) for now in (0.1, 5.0, 8.1, 75.0, 90.1)]


def test_a_successor_begins_no_dense_minute_again() -> None:
    """It goes on with its predecessor's grid, and takes the dense ticks that are left of it."""
    assert [16.0, 30.0, 60.0] == dues(30.0, 3, now=9.0)
    assert [330.0, 360.0] == dues(30.0, 2, now=301.0)


def test_the_ticks_beside_the_grid_are_told_apart() -> None:
    """Each of the dense ones, and none of the grid's."""
    grid = Grid(0.0, 4.0, 0.0)
    assert [(1.0, True), (2.0, True), (4.0, False), (8.0, False)] == [
        (grid.advance(now), grid.is_dense) for now in (0.1, 1.1, 2.1, 4.1)
    ]
