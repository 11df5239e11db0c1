"""Visible and owned GPUs follow CUDA's rules and the launchers' habits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metrana.system.devices import ENVIRONMENT, Device, Hint, parse_visible, resolve

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "data" / "visible_devices.json").read_text())

A, B, C = (f"GPU-{letter * 8}-0000-4000-8000-000000000000" for letter in "abc")
THREE = (Device(0, A), Device(1, B), Device(2, C))
MIG_0 = "MIG-11111111-0000-5000-8000-000000000000"
MIG_1 = "MIG-12222222-0000-5000-8000-000000000000"
MIG_2 = "MIG-33333333-0000-5000-8000-000000000000"
CUT_UP = (Device(0, A, "", True, (MIG_0, MIG_1)), Device(1, B), Device(2, C, "", True, (MIG_2,)))


def devices_of(case: dict[str, Any]) -> list[Device]:
    return [
        Device(gpu["index"], gpu["uuid"], gpu["pci"], gpu.get("mig", False), gpu.get("mig_uuids", ()))
        for gpu in case["gpus"]
    ]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["why"])
def test_known_case(case: dict[str, Any]) -> None:
    """Every recorded case comes out as its source says."""
    torch = case["torch_current_device"]
    found = resolve(case["env"], devices_of(case), None if torch is None else Hint("torch", torch))

    assert tuple(case["expected_visible"]) == found.visible
    assert case["expected_owned"] == found.owned
    if "expected_reportable" in case:
        assert tuple(case["expected_reportable"]) == found.reportable


@pytest.mark.parametrize(
    ("text", "visible"),
    [
        ("2, +1, -0", (2, 1, 0)),
        ("0,00", ()),
        ("0x1", (0,)),
        ("0,,1", (0,)),
        ("0,", (0,)),
        ("\t1\n", (1,)),
        ("- 1", ()),
        ("+-1", ()),
        ("0,9,0", (0,)),
        ("0,-1,0", (0,)),
        ("1" * 5000, ()),
        ("0" * 5000 + "1", (1,)),
        ("\N{ARABIC-INDIC DIGIT ONE}", ()),
        (f"1,{A}", (1,)),
        (f"{C},{A}", (2, 0)),
        (f"{A},GPU-aaaa", ()),
        ("GPU-", ()),
        (f"{B},{MIG_0}", (1,)),
        (f" {A}", ()),
    ],
)
def test_list_of_cards(text: str, visible: tuple[int, ...]) -> None:
    """Indices are read as by strtoul, UUIDs by prefix; an invalid entry ends the list, a repeated one empties it."""
    assert visible == parse_visible(text, THREE)


@pytest.mark.parametrize(
    ("text", "visible"),
    [
        (MIG_1, (0,)),
        (f"{MIG_2},{MIG_0}", (2,)),
        (f"{MIG_0},{MIG_0}", ()),
        ("MIG-33", (2,)),
        ("MIG-1", ()),
        (f"MIG-{A}/7/0", (0,)),
        ("MIG-GPU-cccc/7/0", (2,)),
        (f"MIG-{B}/7/0", ()),
        (f"MIG-{A}/7", ()),
        (f"MIG-{A}/x/0", ()),
        ("MIG-GPU-dddd/7/0", ()),
        (f"{MIG_0},1", (0,)),
        ("MIG-", ()),
        ("0,1", (0, 1)),
    ],
)
def test_list_with_instances(text: str, visible: tuple[int, ...]) -> None:
    """A MIG id in either form shows the card it's cut from, and one instance only."""
    assert visible == parse_visible(text, CUT_UP)


def test_partitioned_card_is_never_reported() -> None:
    """The whole cards are reportable beside a partitioned one, which is owned by nobody, whatever names it."""
    assert (1,) == resolve({}, CUT_UP).reportable
    for environ, hint in (({"LOCAL_RANK": "0"}, None), ({}, Hint("torch", 0)), ({}, Hint("torch", 1, A))):
        found = resolve(environ, CUT_UP, hint)
        assert found.owned is None
        assert "MIG" in found.basis
    only = resolve({"CUDA_VISIBLE_DEVICES": "0"}, CUT_UP)
    assert ((0,), None, (), 1) == (only.visible, only.owned, only.reportable, only.partitioned_count)


def test_owned_card_is_the_only_reportable_one() -> None:
    """A process that drives one card reports that one and may take over the others."""
    found = resolve({"LOCAL_RANK": "1"}, THREE)

    assert ((1,), (0, 1, 2)) == (found.reportable, found.whole)


@pytest.mark.parametrize(
    ("environ", "owned"),
    [
        ({"LOCAL_RANK": "3", "SLURM_LOCALID": "1"}, None),
        ({"LOCAL_RANK": "one", "SLURM_LOCALID": "1"}, 1),
        ({"LOCAL_RANK": "-1"}, None),
        ({"LOCAL_RANK": "one"}, None),
        ({"LOCAL_RANK": ""}, None),
        ({"LOCAL_RANK": "9" * 5000}, None),
        ({"FLUX_TASK_LOCAL_ID": "2"}, 2),
        ({"PALS_LOCAL_RANKID": " 2 "}, 2),
        ({"RANK": "1"}, None),
    ],
)
def test_local_rank(environ: dict[str, str], owned: int | None) -> None:
    """One that's no number is no rank; one outside of the list says nothing, and no older variable stands in for it."""
    assert owned == resolve(environ, THREE).owned


def test_hint_goes_by_uuid_first() -> None:
    """CUDA's ordinals may count in another order than the driver, so a known UUID beats the ordinal."""
    assert 2 == resolve({}, THREE, Hint("torch", 0, C)).owned
    assert 1 == resolve({"CUDA_VISIBLE_DEVICES": "0,1"}, THREE, Hint("torch", 1, C)).owned
    assert resolve({}, THREE, Hint("torch", 7)).owned is None
    assert 0 == resolve({"LOCAL_RANK": "0"}, THREE, Hint("torch", 2)).owned


def test_basis_says_why() -> None:
    """The basis names the evidence, or says that there's none."""
    assert "LOCAL_RANK=1" in resolve({"LOCAL_RANK": "1"}, THREE).basis
    assert "torch" in resolve({}, THREE, Hint("torch", 1)).basis
    assert "CUDA_VISIBLE_DEVICES=-1" in resolve({"CUDA_VISIBLE_DEVICES": "-1"}, THREE).basis
    assert "no GPU" == resolve({"LOCAL_RANK": "1"}, ()).basis


def test_hint_crosses_a_process_border() -> None:
    """A hint survives JSON, and nonsense becomes no hint."""
    hint = Hint("jax", 3, B)
    assert hint == Hint.from_dict(json.loads(json.dumps(hint.to_dict())))
    nonsense: list[Any] = [None, 3, [], {}, {"framework": "torch"}, {"framework": 1, "index": 0}]
    nonsense += [{"framework": "torch", "index": index} for index in (-1, True, "0", 1.5)]
    assert [None] * len(nonsense) == [Hint.from_dict(data) for data in nonsense]
    assert Hint("torch", 0) == Hint.from_dict({"framework": "torch", "index": 0, "uuid": 7})


pieces = st.sampled_from(["0", "1", "2", "9", "-", "+", ",", " ", "GPU-", "MIG-", "MIG-GPU-", "/", A, MIG_0, MIG_2])
texts = st.one_of(st.text(), st.lists(pieces).map("".join))
environments = st.dictionaries(st.sampled_from(ENVIRONMENT), texts)
# The first text of all builds a table of Unicode, which takes seconds on a fresh machine.
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
hints = st.none() | st.builds(Hint, st.just("torch"), st.integers(), st.none() | st.sampled_from([A, B, ""]))


@patient
@given(environ=environments, devices=st.sampled_from([(), THREE[:1], THREE, CUT_UP]), hint=hints)
def test_any_environment(environ: dict[str, str], devices: tuple[Device, ...], hint: Hint | None) -> None:
    """Whatever the environment says, nothing raises, and what's visible are devices without a repeat."""
    found = resolve(environ, devices, hint)

    known = {device.index for device in devices}
    assert len(set(found.visible)) == len(found.visible)
    assert set(found.visible) <= known
    assert set(found.reportable) <= set(found.whole) <= set(found.visible)
    assert found.owned is None or (found.owned,) == found.reportable


@patient
@given(st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.dictionaries(st.text(), inner)))
def test_any_hint_data(data: object) -> None:
    """What isn't a hint never raises."""
    assert Hint.from_dict(data) is None or isinstance(data, dict)
