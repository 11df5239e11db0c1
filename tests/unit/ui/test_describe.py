"""A run in words: why a chart is missing, what couldn't be read, and where a metric's chart stands."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("numpy", reason="NumPy isn't installed: pip install numpy")

from metrana.store.index import SeriesInfo
from metrana.ui.describe import (
    describe_attributes,
    describe_damage,
    describe_metric,
    describe_series,
    explain_group,
    explain_parts,
)

NO_DRIVER = {"system/capture/gpu": "no NVIDIA driver", "system/capture/cpu": "ok"}


@pytest.mark.parametrize(
    ("attributes", "is_live", "why"),
    [
        (NO_DRIVER, False, "no NVIDIA driver"),
        ({"system/capture": "off: not Linux"}, False, "off: not Linux"),
        ({**NO_DRIVER, "system/capture": "gave up"}, False, "no NVIDIA driver"),
        ({"system/capture/gpu": "ok"}, True, "captured, but no point has been written yet"),
        ({"system/capture/gpu": "ok"}, False, "captured, but no point was written"),
        ({"system/capture/gpu": "ok", "system/capture": "gave up"}, False, "gave up"),
        ({}, True, "nothing yet: no attribute of the run says anything about it so far"),
        ({"system/capture/gpu": 5}, True, "nothing yet: no attribute of the run says anything about it so far"),
    ],
)
def test_an_empty_group_is_explained(attributes: dict[str, object], is_live: bool, why: str) -> None:
    """A group without charts has the reason that its collector gave, else the end of all capture, else what's known."""
    assert why == explain_group("gpu", attributes, is_live=is_live)


def test_what_is_missing_of_a_group_is_told() -> None:
    """Beside its charts a group names cards and readings that are missing, and why capture ended."""
    attributes = {
        "system/capture/gpu": "driver crashed twice",
        "system/capture/gpu/3": "fell off the bus",
        "system/capture/gpu/1/power_watts": "Not Supported",
        "system/capture/cpu/x": "other",
        "system/capture": "gave up",
    }
    told = ["gpu 3: fell off the bus", "gpu 1 power_watts: Not Supported", "driver crashed twice", "gave up"]
    assert told == explain_parts("gpu", attributes)
    assert [] == explain_parts("gpu", {"system/capture/gpu": "ok"})


@pytest.mark.parametrize(
    ("name", "group", "unit"),
    [
        ("system/gpu/memory_used_bytes", "gpu", "bytes"),
        ("system/cpu/utilization", "cpu", "%"),
        ("system/fan/speed", "fan", ""),
        ("system/odd", "yours", ""),
        ("loss", "yours", ""),
        ("data/loaded_bytes", "yours", "bytes"),
        ("", "yours", ""),
    ],
)
def test_a_metric_has_its_group_and_unit(name: str, group: str, unit: str) -> None:
    """System metrics stand with their collector, all others with the training; the unit is the name's ending."""
    assert {"group": group, "unit": unit} == describe_metric(name)


def test_a_description_is_json() -> None:
    """Values that JSON has no numbers for become null."""
    nan, inf = float("nan"), float("inf")
    series = SeriesInfo("loss", (("a", "b"),), 3, -inf, inf, 0, 2, 0, 5, nan, nan, nan, 0)
    described = json.loads(json.dumps(describe_series(7, series), allow_nan=False))
    assert (7, "loss", {"a": "b"}) == (described["n"], described["name"], described["labels"])
    assert (None, None, None) == (described["first"], described["last"], described["value"])
    assert "nan" == described["figure"]


def test_attributes_are_texts() -> None:
    """A text stays as it is; anything else is shown as JSON."""
    attributes = {"a": "text", "b": [1, None], "c": {"y": 2, "x": "ü"}, "d": True}
    assert {"a": "text", "b": "[1, null]", "c": '{"x": "ü", "y": 2}', "d": "true"} == describe_attributes(attributes)


def test_damage_is_told() -> None:
    """Skipped lines, paths without permission and a newer format are a sentence each, a long list of paths is cut."""
    assert [] == describe_damage(0, ())
    newer, lines, *paths = describe_damage(1, ("/a", "/b"), 7)
    assert newer.startswith("written by a newer metrana (format 7, this one reads 1)")
    assert lines.startswith("1 line not readable")
    assert ["can't read /a", "can't read /b"] == paths
    assert "and 80 more that can't be read" == describe_damage(0, [f"/{index}" for index in range(100)])[20]
