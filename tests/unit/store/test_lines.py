from __future__ import annotations

from typing import Any

import pytest

from metrana.store.lines import (
    parse_attributes,
    parse_columns,
    parse_declaration,
    parse_end,
    parse_head,
    parse_line,
    parse_step,
    parse_time,
)
from tests.unit.store.build import T0, head


@pytest.mark.parametrize(
    "line", [b"", b"\n", b"1", b"[]", b"null", b"{", b'{"a":1}x', b"\xff", b"[" * 200_000, b"9" * 5000]
)
def test_what_is_no_object_is_refused(line: bytes) -> None:
    """A line that isn't one JSON object in UTF-8 is a ValueError, however deep or long it is."""
    with pytest.raises(ValueError):
        parse_line(line)


def test_a_head_says_whose_segment_it_is() -> None:
    """Identity and writer come out as they were written."""
    parsed = parse_head(parse_line(head("a/b", project="p", pid=7, pid_start=None, rank=3)))
    assert ("a/b", "p", 7, None, 3, T0) == (
        parsed.run_name,
        parsed.project_name,
        parsed.pid,
        parsed.pid_start,
        parsed.rank,
        parsed.timestamp,
    )


@pytest.mark.parametrize("missing", ["v", "run", "writer", "t"])
def test_an_incomplete_head_is_refused(missing: str) -> None:
    """A head without one of its parts is none."""
    record = parse_line(head())
    del record[missing]
    with pytest.raises(ValueError, match=r"not|no "):
        parse_head(record)


@pytest.mark.parametrize("value", [None, True, "1", [], float("nan"), float("inf"), 10**400])
def test_a_timestamp_is_a_finite_number(value: object) -> None:
    """Nothing else is a time."""
    with pytest.raises(ValueError, match="timestamp"):
        parse_time(value)


@pytest.mark.parametrize("value", [None, True, 1.0, "1", 2**63, -(2**63) - 1])
def test_a_step_is_a_whole_number_of_64_bits(value: object) -> None:
    """Nothing else is a step."""
    with pytest.raises(ValueError, match="step"):
        parse_step(value)


def test_the_ends_of_the_steps_are_steps() -> None:
    """The whole range of 64 bits can be used."""
    assert [2**63 - 1, -(2**63)] == [parse_step(2**63 - 1), parse_step(-(2**63))]


def test_a_declaration_orders_its_labels() -> None:
    """Equal label sets are equal whatever order they were written in; no labels is the empty set."""
    first = parse_declaration({"d": 1, "n": "x", "l": {"b": "2", "a": "1"}})
    assert (1, "x", (("a", "1"), ("b", "2"))) == first
    assert (1, "x", ()) == parse_declaration({"d": 1, "n": "x"})


@pytest.mark.parametrize(
    "record",
    [
        {"d": -1, "n": "x"},
        {"d": True, "n": "x"},
        {"d": 1},
        {"d": 1, "n": "x", "l": []},
        {"d": 1, "n": "x", "l": {"a": 1}},
    ],
)
def test_a_declaration_of_wrong_types_is_refused(record: dict[str, Any]) -> None:
    """Numbers are whole and not negative, names and labels are texts."""
    with pytest.raises(ValueError, match=r"declaration|label"):
        parse_declaration(record)


def test_attributes_and_ends_need_their_time() -> None:
    """Which of two is later couldn't be told otherwise."""
    with pytest.raises(ValueError, match="timestamp"):
        parse_attributes({"a": {"k": 1}})
    with pytest.raises(ValueError, match="timestamp"):
        parse_end({"e": "closed"})


def test_columns_are_taken_as_a_whole() -> None:
    """Microseconds become seconds; NaN and infinities have their words."""
    record = {"c": 3, "u": [1_500_000, 2_000_000], "s": [0, 1], "v": [0.5, "NaN"], "t": 2.0}
    number, timestamps, steps, values = parse_columns(record)
    assert (3, [1.5, 2.0], [0, 1], 0.5) == (number, list(timestamps), list(steps), values[0])
    assert values[1] != values[1]


@pytest.mark.parametrize(
    "wrong",
    [
        {"c": "3"},
        {"c": True},
        {"u": [1]},
        {"u": "12"},
        {"u": [1, None]},
        {"u": [1, 10**400]},
        {"u": [1, 1e999]},
        {"s": [0, 2**63]},
        {"s": [0, 1.5]},
        {"v": [1.0, "high"]},
        {"v": [1.0, True]},
        {"v": {}},
        {"t": None},
    ],
)
def test_columns_that_hold_anything_wrong_are_refused(wrong: dict[str, Any]) -> None:
    """Which point would be the wrong one can't be told."""
    record = {"c": 3, "u": [1, 2], "s": [0, 1], "v": [0.5, 1.5], "t": 2.0, **wrong}
    with pytest.raises(ValueError):
        parse_columns(record)
