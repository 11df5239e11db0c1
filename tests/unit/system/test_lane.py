"""One thread for the calls that may hang."""

from __future__ import annotations

import threading

import pytest

from metrana.system.lane import Lane
from tests.scripts import DEADLINE_SECS


def test_a_call_that_ends_in_time_is_taken_once() -> None:
    """Nobody is woken for it."""
    woken: list[int] = []
    lane: Lane[int] = Lane(lambda: woken.append(1))
    lane.submit(lambda: 7)
    lane.wait(DEADLINE_SECS)
    assert (7, None, None, []) == (lane.take(), lane.take(), lane.busy_secs, woken)


def test_a_call_that_ends_late_wakes_whoever_waits_for_something_else() -> None:
    """It's taken then, and until then the lane is busy."""
    gate, woken = threading.Event(), threading.Event()
    lane: Lane[bool] = Lane(woken.set)
    lane.submit(lambda: gate.wait(DEADLINE_SECS))
    lane.wait(0.0)
    assert lane.take() is None
    assert lane.busy_secs is not None
    gate.set()
    assert woken.wait(DEADLINE_SECS)
    assert (True, None) == (lane.take(), lane.busy_secs)


def test_all_calls_run_in_one_thread() -> None:
    """A driver is called from there alone."""
    lane: Lane[int] = Lane(lambda: None)
    threads = set()
    for _ in range(5):
        lane.submit(threading.get_ident)
        lane.wait(DEADLINE_SECS)
        threads.add(lane.take())
    assert 1 == len(threads)
    assert threading.get_ident() not in threads


def test_a_thread_that_cannot_be_had_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of processes may be reached for a moment."""
    lane: Lane[int] = Lane(lambda: None)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            lane.submit(lambda: 1)
    assert lane.busy_secs is None
    lane.submit(lambda: 2)
    lane.wait(DEADLINE_SECS)
    assert 2 == lane.take()
