from __future__ import annotations

from metrana.system.sources.counters import Span


def test_growth_needs_two_readings() -> None:
    """The first reading says nothing, each later one tells the time and the growth since."""
    span = Span()
    assert span.advance(10.0, (1.0, 5.0)) is None
    assert (2.0, 3.0, 0.0) == span.advance(12.0, (4.0, 5.0))
    assert (1.0, 1.0, 1.0) == span.advance(13.0, (5.0, 6.0))


def test_hasty_reading_is_passed_over() -> None:
    """Two readings closer than the counters' resolution allows give nothing, and the first of them is kept."""
    span = Span()
    span.advance(10.0, (1.0,))
    assert span.advance(10.1, (1.01,)) is None
    assert span.advance(10.0, (1.0,)) is None
    assert (0.5, 0.25) == span.advance(10.5, (1.25,))


def test_step_back_costs_one_point() -> None:
    """After a counter or the clock went backwards, the next reading counts from there."""
    span = Span()
    span.advance(10.0, (5.0,))
    assert span.advance(11.0, (2.0,)) is None
    assert (1.0, 1.0) == span.advance(12.0, (3.0,))
    assert span.advance(4.0, (4.0,)) is None
    assert (1.0, 0.0) == span.advance(5.0, (4.0,))


def test_other_counter_costs_one_point() -> None:
    """Readings of two different counters aren't compared."""
    span = Span()
    span.advance(10.0, (5.0,), "a")
    assert span.advance(11.0, (6.0,), "b") is None
    assert (1.0, 1.0) == span.advance(12.0, (7.0,), "b")
