"""What may be logged, and what is one clear error."""

from __future__ import annotations

import argparse
import json
import math
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrana import values
from metrana.errors import MetricError, SettingError


class Scalar:
    """What NumPy, PyTorch and JAX scalars have in common."""

    def __init__(self, value: object) -> None:
        self._value = value

    def item(self) -> object:
        if isinstance(self._value, Exception):
            raise self._value
        return self._value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, 1.0),
        (True, 1.0),
        (0.5, 0.5),
        (Scalar(3), 3.0),
        (Scalar(0.25), 0.25),
        (Scalar(True), 1.0),
        (Fraction(1, 4), 0.25),
        (Decimal("0.5"), 0.5),
        ("0.5", None),
    ],
)
def test_numbers_and_scalars_are_values(value: object, expected: float | None) -> None:
    """int, float, bool, and anything with .item() or __float__."""
    if expected is None:
        with pytest.raises(MetricError):
            values.to_number("loss", value)
    else:
        result = values.to_number("loss", value)
        assert (expected, float) == (result, type(result))


def test_nan_and_infinities_are_values() -> None:
    """A diverged loss is what one wants to see."""
    assert math.isnan(values.to_number("loss", float("nan")))
    assert math.inf == values.to_number("loss", Scalar(math.inf))
    assert -math.inf == values.to_number("loss", Decimal("-Infinity"))


@pytest.mark.parametrize(
    "value",
    [
        "3",
        None,
        [1],
        {},
        1j,
        Scalar("3"),
        Scalar(None),
        Scalar(ValueError("2 elements")),
        Scalar([1]),
        object(),
    ],
)
def test_what_is_no_number_is_an_error_that_names_the_metric(value: object) -> None:
    """And says what would do."""
    with pytest.raises(MetricError, match="'my loss'.*not a number"):
        values.to_number("my loss", value)


@pytest.mark.parametrize("value", [10**400, -(10**400), Fraction(10**400, 1), Decimal("1e500"), Scalar(10**400)])
def test_what_a_float_cannot_hold_is_an_error_that_says_so(value: object) -> None:
    """No infinity is made of it, whatever its type."""
    with pytest.raises(MetricError, match="'my loss'.*larger than a float can hold"):
        values.to_number("my loss", value)


def test_an_error_survives_a_broken_repr() -> None:
    """The value's own code may fail; the error stays clear."""

    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError

    with pytest.raises(MetricError, match="<Broken> is not a number"):
        values.to_number("loss", Broken())


class Index:
    """What says itself that it's a whole number."""

    def __index__(self) -> int:
        return 3


def test_a_nested_dict_is_flattened_with_slashes() -> None:
    """In the order in which it stands."""
    nested: dict[object, object] = {"train": {"loss": 1, "acc": {"top1": 2}}, "lr": 3}
    assert [("train/loss", 1), ("train/acc/top1", 2), ("lr", 3)] == values.flatten_metrics(nested)


def test_a_name_that_comes_up_twice_and_a_dict_in_itself_are_told() -> None:
    """One clear error each, which names the metric."""
    with pytest.raises(MetricError, match="'a/b'.*twice"):
        values.flatten_metrics({"a": {"b": 1}, "a/b": 2})
    loop: dict[object, object] = {}
    loop["a"] = loop
    with pytest.raises(MetricError, match="'a/a.*nested"):
        values.flatten_metrics(loop)


@pytest.mark.parametrize(
    ("step", "expected"), [(0, 0), (7, 7), (Scalar(9), 9), (2**62, 2**62), (40.0, 40), (Scalar(40.0), 40), (Index(), 3)]
)
def test_whole_numbers_are_steps(step: object, expected: int) -> None:
    """Also those of other libraries."""
    assert expected == values.to_step("loss", step)


@pytest.mark.parametrize("step", [-1, 1.5, "3", None, 2**62 + 1, Scalar(1.5), True, math.nan, math.inf])
def test_other_things_are_no_steps(step: object) -> None:
    """The error names metric and step."""
    with pytest.raises(MetricError, match="'loss'.*step="):
        values.to_step("loss", step)


@pytest.mark.parametrize(
    "timestamp", ["now", None, float("nan"), float("inf"), True, "5", b"5", 1e303, 1767225600123.0]
)
def test_senseless_timestamps_are_errors(timestamp: object) -> None:
    """Seconds since the epoch, finite."""
    with pytest.raises(MetricError, match="'loss'.*timestamp="):
        values.to_timestamp("loss", timestamp)


def test_labels_are_sorted_and_taken_as_text() -> None:
    """Equal label sets are equal whatever their order."""
    assert (("a", "1"), ("b", "x")) == values.to_labels("loss", {"b": "x", "a": 1})


@pytest.mark.parametrize("labels", [5, "policy", ["a"], {1: "x"}, {"": "x"}, {1: "x", "a": "y"}])
def test_senseless_labels_are_errors(labels: object) -> None:
    """The error names the metric and shows an example."""
    with pytest.raises(MetricError, match="'loss'.*labels="):
        values.to_labels("loss", labels)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner), st.tuples(inner, inner)),
    max_leaves=8,
)


@given(ANYTHING)
def test_every_attribute_has_a_json_form(value: object) -> None:
    """Strict JSON: NaN and infinities are texts."""
    json.dumps(values.to_plain(value), allow_nan=False)


def test_nested_settings_become_one_attribute_each() -> None:
    """As the trackers of the field show them."""
    config = {"lr": 0.1, "opt": {"name": "adam", "betas": (0.9, 0.99)}, "empty": {}, 3: Scalar(4)}
    assert {
        "config/lr": 0.1,
        "config/opt/name": "adam",
        "config/opt/betas": [0.9, 0.99],
        "config/empty": {},
        "config/3": 4,
    } == values.flatten("config/", config)


def test_settings_may_come_as_a_namespace() -> None:
    """What argparse returns, and mappings of other libraries."""
    assert {"lr": 0.1} == values.to_dict(argparse.Namespace(lr=0.1)) == values.to_dict(MappingProxyType({"lr": 0.1}))


@pytest.mark.parametrize("config", [5, "lr=1", ["lr"], None])
def test_senseless_settings_are_one_clear_error(config: object) -> None:
    """It shows what would do."""
    with pytest.raises(SettingError, match="config="):
        values.to_dict(config)
