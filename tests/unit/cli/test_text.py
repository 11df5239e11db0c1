from __future__ import annotations

from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrana.cli.text import (
    count_columns,
    cut_text,
    escape_text,
    find_unit,
    format_duration,
    format_table,
    format_time,
    format_value,
)


@given(st.text())
def test_any_text_becomes_printable(text: str) -> None:
    """Nothing that steers a terminal passes."""
    assert escape_text(text).isprintable()


@given(st.text(st.characters(categories=["L", "N", "P"])))
def test_printable_text_stays_as_it_is(text: str) -> None:
    """Only what has to be is escaped."""
    assert text == escape_text(text)


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("system/memory/used_bytes", "bytes"),
        ("system/gpu/memory_utilization", " %"),
        ("system/gpu/temperature_celsius", " °C"),
        ("system/gpu/power_watts", " W"),
        ("system/gpu/sm_clock_mhz", " MHz"),
        ("utilization", ""),
        ("loss", ""),
    ],
)
def test_the_unit_is_what_the_name_ends_with(name: str, unit: str) -> None:
    """Names carry their unit; a user's utilization may be a fraction."""
    assert unit == find_unit(name)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0, "bytes", "0 B"),
        (1023.0, "bytes", "1023 B"),
        (1536.0, "bytes", "1.5 KiB"),
        (80 * 2.0**30, "bytes", "80 GiB"),
        (2.0**80, "bytes", "1.049e+06 EiB"),
        (nan, "bytes", "nan"),
        (12.3456, " %", "12.35 %"),
        (0.3123456789, "", "0.312346"),
        (-inf, "", "-inf"),
    ],
)
def test_values_are_rounded_with_their_unit(value: float, unit: str, text: str) -> None:
    """Few digits and the unit a person would use."""
    assert text == format_value(value, unit)


@pytest.mark.parametrize(
    ("secs", "text"),
    [(0.0, "0.0s"), (9.96, "10.0s"), (59.9, "59s"), (60, "1m 00s"), (3661, "1h 01m"), (90000, "1d 01h"), (inf, "infs")],
)
def test_durations_have_two_units(secs: float, text: str) -> None:
    """Enough to compare runs by."""
    assert text == format_duration(secs)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_any_timestamp_can_be_shown(timestamp: float) -> None:
    """Times no calendar has are shown as numbers."""
    assert format_time(timestamp)


def test_tables_are_aligned_by_terminal_columns() -> None:
    """East Asian characters take two, accents put on top take none."""
    assert ["名  x", "ab  y"] == format_table([["名", "x"], ["ab", "y"]])
    assert 1 == count_columns("e\u0301")


def test_a_long_text_is_cut() -> None:
    """To the number of characters, where there's one."""
    assert ["abc", "abc", "ab…"] == [cut_text("abc", None), cut_text("abc", 3), cut_text("abcd", 3)]
