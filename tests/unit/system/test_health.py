"""The one rule for retry, drop and warn."""

from __future__ import annotations

import pytest

from metrana.errors import ReadFailed, Unavailable
from metrana.system.health import FAILURES_IN_A_ROW, Health


def failing(error: Exception) -> object:
    def call() -> None:
        raise error

    return call


def test_what_is_not_there_is_dropped_at_once_and_in_silence() -> None:
    """One attempt, no warning: a machine without the thing is no fault."""
    warnings: list[str] = []
    health = Health(warnings.append)
    calls = []

    def call() -> None:
        calls.append(1)
        raise Unavailable("no such counter")

    assert [None, None] == [health.attempt("power", call), health.attempt("power", call)]
    assert ([1], "no such counter", []) == (calls, health.dropped("power"), warnings)


@pytest.mark.parametrize("error", [ReadFailed("busy"), OSError(5, "Input/output error"), ZeroDivisionError()])
def test_five_failures_in_a_row_drop_with_one_warning(error: Exception) -> None:
    """Transient errors, the kernel's errors and our own bugs alike."""
    warnings: list[str] = []
    health = Health(warnings.append)
    for _ in range(FAILURES_IN_A_ROW + 3):
        assert health.attempt("disk", failing(error)) is None  # type: ignore[arg-type]
    assert 1 == len(warnings)
    assert "disk failed 5 times in a row" in warnings[0]


def test_what_fails_while_nothing_counts_drops_nothing() -> None:
    """It ends no row either: the failures before and after it are five in a row."""
    health = Health(lambda message: None)
    for is_counting in [True, *[False] * FAILURES_IN_A_ROW, *[True] * (FAILURES_IN_A_ROW - 2)]:
        health.is_counting = is_counting
        health.attempt("disk", failing(ReadFailed("busy")))  # type: ignore[arg-type]
    assert health.dropped("disk") is None
    health.attempt("disk", failing(ReadFailed("busy")))  # type: ignore[arg-type]
    assert "failed 5 times in a row: busy" == health.dropped("disk")
    assert health.dropped("disk") is not None


def test_four_failures_and_a_success_cost_nothing() -> None:
    """In a row means in a row."""
    warnings: list[str] = []
    health = Health(warnings.append)
    for _ in range(10):
        for _ in range(FAILURES_IN_A_ROW - 1):
            health.attempt("gpu", failing(ReadFailed("timeout")))  # type: ignore[arg-type]
        assert 7 == health.attempt("gpu", lambda: 7)
    assert ([], None) == (warnings, health.dropped("gpu"))


def test_keys_fail_each_for_itself() -> None:
    """One dropped counter takes no other with it."""
    health = Health(lambda message: None)
    health.attempt("a", failing(Unavailable("gone")))  # type: ignore[arg-type]
    assert 1 == health.attempt("b", lambda: 1)


def test_a_forgotten_key_has_a_new_chance() -> None:
    """What it named has changed."""
    health = Health(lambda message: None)
    health.attempt("a", failing(Unavailable("gone")))  # type: ignore[arg-type]
    health.forget("a")
    assert 1 == health.attempt("a", lambda: 1)


def test_an_exit_is_not_held_up() -> None:
    """SystemExit and KeyboardInterrupt are nobody's failed reading."""
    with pytest.raises(SystemExit):
        Health(lambda message: None).attempt("a", failing(SystemExit()))  # type: ignore[arg-type]
