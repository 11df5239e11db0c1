"""What the child is at, in memory that outlives it."""

from __future__ import annotations

import os

from metrana.system.vitals import DEVICES, LOOP, Sign, Vitals


def test_each_place_says_what_it_is_at_and_until_when() -> None:
    """The loop and the driver's thread don't write over each other."""
    vitals = Vitals(monotonic=lambda: 100.0)
    vitals.enter(LOOP, "cpu", 15.0)
    vitals.enter(DEVICES, "gpu", 90.0)
    assert (Sign("cpu", 115.0), Sign("gpu", 190.0)) == vitals.read()
    vitals.rest(LOOP, 130.0)
    vitals.rest(DEVICES)
    assert (Sign("", 130.0), Sign("", 0.0)) == vitals.read()
    vitals.close()


def test_nothing_written_says_nothing() -> None:
    """A child that died before its first sign."""
    vitals = Vitals()
    assert (Sign("", 0.0), Sign("", 0.0)) == vitals.read()
    vitals.close()
    assert (Sign("", 0.0), Sign("", 0.0)) == vitals.read()


def test_a_descriptor_that_is_somebody_elses_now_is_not_read() -> None:
    """A script has closed it, and its own file got the number."""
    vitals = Vitals()
    vitals.enter(LOOP, "cpu", 15.0)
    own = os.dup2(os.open(os.devnull, os.O_RDONLY), vitals._fd)
    assert (Sign("", 0.0), Sign("", 0.0)) == vitals.read()
    vitals.close()
    os.close(own)


def test_a_machine_without_it_goes_on() -> None:
    """No memfd_create: then nothing is known, and nothing fails."""
    vitals = Vitals(-1)
    vitals.enter(LOOP, "cpu", 15.0)
    vitals.rest(LOOP)
    assert (Sign("", 0.0), Sign("", 0.0)) == vitals.read()
    vitals.close()
