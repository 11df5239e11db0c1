"""Whether a lost child is replaced, when, and what the next one leaves out."""

from __future__ import annotations

import pytest

from metrana.system.restarts import HEALTHY_SECS, HUNG, KILLED, Restarts


def test_the_first_is_replaced_at_once_and_later_ones_after_longer_and_longer() -> None:
    """A crash shouldn't show in the charts, and a storm shouldn't cost the machine."""
    restarts = Restarts()
    assert [0.0, 0.5, 1.0, 2.0] == [restarts.judge("", KILLED, 1.0).delay_secs for _ in range(4)]
    assert 4 == restarts.count


def test_the_fifth_loss_is_the_last() -> None:
    """It's told how often and how."""
    restarts = Restarts()
    assert [""] * 4 == [restarts.judge("", KILLED, 1.0).given_up for _ in range(4)]
    last = restarts.judge("disk", "SIGBUS", 1.0)
    assert "the sampling process was lost 5 times, the last time SIGBUS while reading disk" == last.given_up
    assert 4 == restarts.count


def test_healthy_minutes_begin_the_count_anew() -> None:
    """Five losses in a month are no storm."""
    restarts = Restarts()
    for _ in range(20):
        verdict = restarts.judge("", KILLED, HEALTHY_SECS)
        assert ("", 0.0) == (verdict.given_up, verdict.delay_secs)


@pytest.mark.parametrize(
    ("source", "how", "reason"),
    [
        ("gpu", "SIGSEGV", "driver crashed twice, GPU sampling off"),
        ("gpu", "exit code 1", "driver crashed twice, GPU sampling off"),
        ("gpu", HUNG, "driver hung twice, GPU sampling off"),
        ("disk", HUNG, "hung twice, disk sampling off"),
        ("disk", "SIGBUS", "ended the sampling process twice, disk sampling off"),
    ],
)
def test_what_was_read_in_two_losses_is_left_out(source: str, how: str, reason: str) -> None:
    """Told once, and left out from then on."""
    restarts = Restarts()
    assert "" == restarts.judge(source, how, 1.0).newly_left_out
    assert source == restarts.judge(source, how, 1.0).newly_left_out
    assert "" == restarts.judge(source, how, 1.0).newly_left_out
    assert {source: reason} == restarts.left_out


def test_a_driver_that_did_both_is_told_of_both() -> None:
    """A hang and a crash aren't two crashes."""
    restarts = Restarts()
    for how in (HUNG, "SIGSEGV"):
        restarts.judge("gpu", how, 1.0)
    assert {"gpu": "driver crashed or hung twice, GPU sampling off"} == restarts.left_out


def test_a_kill_blames_nobody() -> None:
    """It's the kernel out of memory, or an operator."""
    restarts = Restarts()
    for _ in range(4):
        restarts.judge("gpu", KILLED, 1.0)
    assert {} == restarts.left_out
    assert "gpu" not in restarts.judge("gpu", KILLED, 1.0).given_up
