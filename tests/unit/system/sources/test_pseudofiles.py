from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrana.system.sources.pseudofiles import (
    find_value,
    parse_cpu_max,
    parse_cpus,
    parse_kilobytes,
    parse_limit,
    parse_number,
    parse_value,
)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"42\n", 42),
        (b" 7 ", 7),
        (b"18446744073709551615\n", 2**64 - 1),
        (b"1_000", None),
        (b"+5", None),
        (b"-1", None),
        ("١".encode(), None),
        (b"1 2", None),
        (b"max", None),
        (b"", None),
        (b"9" * 5000, None),
    ],
)
def test_number_is_digits_and_nothing_else(data: bytes, expected: int | None) -> None:
    """Only what the kernel itself would write is a number."""
    assert expected == parse_number(data)


@pytest.mark.parametrize(("data", "expected"), [(b"max\n", None), (b"0\n", None), (b"4096\n", 4096), (b"asdf", None)])
def test_limit_of_zero_or_max_is_none(data: bytes, expected: int | None) -> None:
    """A memory limit is a positive number of bytes."""
    assert expected == parse_limit(data)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"150000 100000\n", 1.5),
        (b"150000\n", 1.5),
        (b"25000 100000", 0.25),
        (b"max 100000", None),
        (b"max", None),
        (b"-1 100000", None),
        (b"0 100000", None),
        (b"100000 0", None),
        (b"500000 njn", None),
        (b"1 2 3", None),
        (b"", None),
    ],
)
def test_quota_is_a_ratio(data: bytes, expected: float | None) -> None:
    """cpu.max is quota over period, unrounded; a quota alone has the default period; all else is no quota."""
    assert expected == parse_cpu_max(data)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"0,2-3,5\n", {0, 2, 3, 5}),
        (b"0-3", {0, 1, 2, 3}),
        (b"7", {7}),
        (b"\n", None),
        (b"3-1", None),
        (b"0-", None),
        (b"a-b", None),
        (b"0-99999999999", None),
    ],
)
def test_cpu_list(data: bytes, expected: set[int] | None) -> None:
    """A CPU list is numbers and ranges; an empty or senseless one says nothing."""
    assert expected == parse_cpus(data)


def test_value_is_found_at_the_start_of_a_line_only() -> None:
    """A key isn't found inside a longer one."""
    data = b"total_inactive_file 9\ninactive_file 7\nMemTotal:     16 kB"
    assert 7 == parse_value(data, b"inactive_file ")
    assert 9 == parse_value(data, b"total_inactive_file ")
    assert parse_value(data, b"file ") is None
    assert parse_value(b"inactive_file x", b"inactive_file ") is None
    assert 16 * 1024 == parse_kilobytes(data, b"MemTotal:")
    assert parse_kilobytes(b"MemTotal:", b"MemTotal:") is None


@given(st.binary(max_size=200), st.binary(min_size=1, max_size=4))
def test_no_bytes_raise(data: bytes, key: bytes) -> None:
    """Whatever a file holds, the parsers answer."""
    for parse in (parse_number, parse_limit, parse_cpu_max, parse_cpus):
        parse(data)
    for parse_keyed in (find_value, parse_value, parse_kilobytes):
        parse_keyed(data, key)
