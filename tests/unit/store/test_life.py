"""Which stretch of time a run is shown over."""

from __future__ import annotations

from metrana.store.life import find_window

CENTURY = 100 * 365 * 86400.0
HOUR = 3600.0


def test_a_window_is_the_runs_life() -> None:
    """Series that begin later or end earlier don't shorten it."""
    assert (100.0, 500.0) == find_window(100.0, 500.0, [(120.0, 300.0)])
    assert (100.0, 500.0) == find_window(100.0, 500.0, [])


def test_points_nearby_stretch_it_and_others_do_not() -> None:
    """Two hours, or as much as the run lived, on either side."""
    assert (-HOUR, 500 + HOUR) == find_window(0.0, 500.0, [(-HOUR, 10.0), (5.0, 500 + HOUR)])
    assert (0.0, 500.0) == find_window(0.0, 500.0, [(-CENTURY, 10.0), (5.0, CENTURY), (5.0, float("inf"))])
    assert (-9 * HOUR, 10 * HOUR) == find_window(0.0, 10 * HOUR, [(-9 * HOUR, HOUR)])


def test_a_run_whose_points_all_lie_elsewhere_shows_them() -> None:
    """An old log that's put into a run is seen."""
    assert (-CENTURY, 90 - CENTURY) == find_window(0.0, 500.0, [(-CENTURY, 90 - CENTURY)])


def test_a_series_from_long_before_to_long_after_stretches_nothing() -> None:
    """No end of it is near: a series that has points in both of two other centuries, and nothing else in the run."""
    assert (0.0, 500.0) == find_window(0.0, 500.0, [(-CENTURY, CENTURY)])
