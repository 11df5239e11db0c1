"""GPU charts: one reading, one card or the whole driver may fail, and each costs itself and no more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from metrana.system.collectors.gpu import METRICS
from tests.fake_driver import NEW, OLD, FakeDriver, run_python

Script: TypeAlias = dict[str, dict[str, object]]

ROOT = str(Path(__file__).parents[4])
CASES: list[dict[str, Any]] = json.loads((Path(ROOT) / "tests" / "data" / "visible_devices.json").read_text())
READINGS = (
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetTemperatureV",
    "nvmlDeviceGetTemperature",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetClockInfo",
)

# Runs in a process of its own: `tick()` is the sampler's, `script(...)` changes the driver, `found` is what's printed.
PRELUDE = """
import json, os
from pathlib import Path
from metrana.errors import ReadFailed, Unavailable
from metrana.system.collectors.gpu import GpuCollector, describe
from metrana.system.devices import Hint
from metrana.system.health import Health
from metrana.system.host import Host
clock = [0.0]
warnings = []
health = Health(warnings.append)
host = Host(environ=json.loads(os.environ["TRAINING"]), monotonic=lambda: clock[0])
def script(sections):
    config = Path(os.environ["FAKE_NVML_CONFIG"])
    lines = []
    for section, entries in sections.items():
        lines += [f"[{section}]", *(f"{key} = {value}" for key, value in entries.items())]
    Path(f"{config}.new").write_text("\\n".join(lines))
    os.replace(f"{config}.new", config)
def build():
    return GpuCollector(host, health)
def tick():
    samples = health.attempt("gpu", collector.collect)
    return None if samples is None else [[s.metric.name[11:], dict(s.labels)["gpu"], s.value] for s in samples]
collector = health.attempt("gpu", build)
found = {}
"""
PRINT = """
found["warnings"] = warnings
found["dropped"] = health.dropped("gpu")
if collector is not None:
    found["attributes"] = collector.attributes()
    found["reason"] = collector.reason()
print(json.dumps(found))
"""


def card_of(index: int) -> dict[str, object]:
    return {
        "util": 10 + index,
        "mem_total": 1000,
        "mem_used": 100 * (index + 1),
        "mem_reserved": 7,
        "temp": 40 + index,
        "power_mw": 70000 + 500 * index,
        "clock_sm": 1900 + index,
    }


def samples_of(index: int) -> list[list[object]]:
    values = {
        "utilization": 10.0 + index,
        "memory_used_bytes": 100.0 * (index + 1),
        "memory_utilization": 10.0 * (index + 1),
        "temperature_celsius": 40.0 + index,
        "power_watts": 70.0 + 0.5 * index,
        "sm_clock_mhz": 1900.0 + index,
    }
    return [[name, str(index), value] for name, value in values.items()]


def without(samples: list[list[object]], *series: tuple[str, str]) -> list[list[object]]:
    return [sample for sample in samples if (sample[0], sample[1]) not in series]


def cards_of(count: int, **changed: dict[str, object]) -> Script:
    return {f"gpu{index}": card_of(index) | changed.get(f"gpu{index}", {}) for index in range(count)}


EIGHT = [sample for index in range(8) for sample in samples_of(index)]


def run(
    tmp_path: Path,
    sections: Script,
    code: str,
    training: dict[str, str] | None = None,
    variant: str = NEW,
    flags: tuple[str, ...] = (),
) -> Any:
    """What the code found in a process under the scripted driver, with the training process's environment."""
    driver = FakeDriver(tmp_path, variant)
    driver.script(sections)
    return driver.run(PRELUDE + code + PRINT, {"TRAINING": json.dumps(training or {})}, flags)


def test_metrics_are_the_six() -> None:
    """A card has six series, each named with its unit."""
    assert 6 == len({metric.name for metric in METRICS})
    assert all(metric.name.startswith("system/gpu/") and metric.help for metric in METRICS)


@pytest.mark.parametrize("variant", [NEW, OLD])
def test_eight_cards(tmp_path: Path, variant: str) -> None:
    """Eight cards give 48 samples with what the driver says; an old driver counts its own share as used memory."""
    cards = cards_of(8)
    if variant == OLD:
        cards = {name: {**card, "mem_reserved": 0} for name, card in cards.items()}
    found = run(tmp_path, cards, "found['ticks'] = [tick(), tick()]", variant=variant)
    assert [EIGHT, EIGHT] == found["ticks"]
    assert [] == found["warnings"]
    assert {
        "system/gpu/driver_version": "580.82.07",
        "system/gpu/visible_count": 8,
        "system/gpu/host_device_count": 8,
        "system/gpu/mig_partitioned_count": 0,
    } == found["attributes"]
    assert found["reason"] is None


def test_calls_of_a_tick(tmp_path: Path) -> None:
    """A tick is at most six calls a card, and the library is initialized once and never shut down."""
    driver = FakeDriver(tmp_path)
    driver.script(cards_of(8))
    driver.run(PRELUDE + PRINT, {"TRAINING": "{}"})
    start = driver.calls().total()
    driver.log.unlink()
    driver.run(PRELUDE + "for _ in range(3): tick()" + PRINT, {"TRAINING": "{}"})
    calls = driver.calls()
    assert 3 * 40 == calls.total() - start
    assert (1, 0) == (calls["nvmlInitWithFlags"], calls["nvmlShutdown"])


def test_partitions_are_rarely_asked_for(tmp_path: Path) -> None:
    """The MIG mode is read again once a minute."""
    driver = FakeDriver(tmp_path)
    driver.script(cards_of(8, gpu0={"mig": "off"}))
    driver.run(PRELUDE + "for clock[0] in range(0, 125): tick()" + PRINT, {"TRAINING": "{}"})
    # Card 0 at the start and twice more; the others said at once that they can't be partitioned.
    assert 8 + 2 == driver.calls()["nvmlDeviceGetMigMode"]


def test_reading_that_a_card_lacks(tmp_path: Path) -> None:
    """A counter that the hardware doesn't expose costs one series of one card, at once and in silence."""
    code = "found['ticks'] = [tick(), tick()]"
    found = run(tmp_path, cards_of(8, gpu3={"power_mw": "na"}), code)
    rest = without(EIGHT, ("power_watts", "3"))
    assert ([rest, rest], []) == (found["ticks"], found["warnings"])


def test_memory_of_zero_bytes(tmp_path: Path) -> None:
    """A card that reports no memory has no memory series."""
    found = run(tmp_path, cards_of(2, gpu1={"mem_total": 0}), "found['ticks'] = [tick(), tick()]")
    rest = without(EIGHT[:12], ("memory_used_bytes", "1"), ("memory_utilization", "1"))
    assert ([rest, rest], []) == (found["ticks"], found["warnings"])


def test_timeout_four_times(tmp_path: Path) -> None:
    """Four time-outs in a row leave four gaps in one series, and nothing else."""
    sections: Script = {**cards_of(2), "calls": {"nvmlDeviceGetPowerUsage@1": "fail 4 code 10"}}
    found = run(tmp_path, sections, "found['ticks'] = [tick() for _ in range(6)]")
    gap = without(EIGHT[:12], ("power_watts", "1"))
    assert [gap] * 4 + [EIGHT[:12]] * 2 == found["ticks"]
    assert [] == found["warnings"]


def test_timeout_five_times(tmp_path: Path) -> None:
    """The fifth time-out in a row ends that series with one warning, and the driver isn't asked again."""
    sections: Script = {**cards_of(2), "calls": {"nvmlDeviceGetPowerUsage@1": "fail 5 code 10"}}
    found = run(tmp_path, sections, "found['ticks'] = [tick() for _ in range(8)]")
    assert [without(EIGHT[:12], ("power_watts", "1"))] * 8 == found["ticks"]
    assert 1 == len(found["warnings"])
    assert "gpu/1/power" in found["warnings"][0]
    assert "timeout" in found["warnings"][0]


@pytest.mark.parametrize("code", [15, 16, 999, 10])
def test_card_lost_in_the_middle(tmp_path: Path, code: int) -> None:
    """A card that's lost costs itself, with one warning; the other seven go on for ever."""
    lost: dict[str, object] = {f"{name}@3": f"after 2 code {code}" for name in READINGS}
    found = run(tmp_path, {**cards_of(8), "calls": lost}, "found['ticks'] = [tick() for _ in range(12)]")
    seven = [sample for sample in EIGHT if sample[1] != "3"]
    assert [EIGHT] * 2 + [seven] * 10 == found["ticks"]
    assert 1 == len(found["warnings"])
    assert "gpu/3 failed 5 times" in found["warnings"][0]
    assert (None, None) == (found["dropped"], found["reason"])


def test_card_that_comes_back(tmp_path: Path) -> None:
    """A card that fails four times and answers again has lost four ticks."""
    lost: dict[str, object] = {"nvmlDeviceGetUtilizationRates@1": "fail 4 code 15"}
    found = run(tmp_path, {**cards_of(2), "calls": lost}, "found['ticks'] = [tick() for _ in range(6)]")
    assert [EIGHT[:6]] * 4 + [EIGHT[:12]] * 2 == found["ticks"]
    assert [] == found["warnings"]


def test_card_that_comes_up_late(tmp_path: Path) -> None:
    """A card whose handle fails at the start is asked for again at each tick."""
    calls: dict[str, object] = {"nvmlDeviceGetHandleByIndex_v2@1": "fail 3 code 999"}
    found = run(tmp_path, {**cards_of(3), "calls": calls}, "found['ticks'] = [tick() for _ in range(4)]")
    two = [sample for sample in EIGHT[:18] if sample[1] != "1"]
    assert [two, two, EIGHT[:18], EIGHT[:18]] == found["ticks"]
    assert [] == found["warnings"]


def test_card_that_never_comes_up(tmp_path: Path) -> None:
    """A card without a handle ends after five tries with one warning, and has cost the others nothing."""
    calls: dict[str, object] = {"nvmlDeviceGetHandleByIndex_v2@1": "code 15"}
    found = run(tmp_path, {**cards_of(3), "calls": calls}, "found['ticks'] = [tick() for _ in range(8)]")
    assert [[sample for sample in EIGHT[:18] if sample[1] != "1"]] * 8 == found["ticks"]
    assert 1 == len(found["warnings"])


@pytest.mark.parametrize("code", [1, 15, 999])
def test_driver_gone(tmp_path: Path, code: int) -> None:
    """When nothing answers any more, the collector fails as one, five times, with one warning."""
    lost: dict[str, object] = dict.fromkeys(READINGS, f"code {code}")
    code_text = f"found['ticks'] = [tick()]; script({ {**cards_of(8), 'calls': lost}!r}); "
    found = run(tmp_path, cards_of(8), code_text + "found['ticks'] += [tick() for _ in range(8)]")
    assert [EIGHT] + [None] * 8 == found["ticks"]
    assert 1 == len(found["warnings"])
    assert "failed 5 times in a row" in found["dropped"]


def test_driver_that_starts_late(tmp_path: Path) -> None:
    """A start that fails for now is tried again at the next ticks."""
    sections: Script = {**cards_of(2), "calls": {"nvmlInitWithFlags": "fail 2 code 999"}}
    found = run(tmp_path, sections, "found['ticks'] = [tick() for _ in range(3)]")
    assert [None, EIGHT[:12], EIGHT[:12]] == found["ticks"]
    assert 2 == found["attributes"]["system/gpu/visible_count"]


def test_driver_that_refuses_late(tmp_path: Path) -> None:
    """A driver that turns out to be unusable at a later try is told as one that was so at the start."""
    calls: dict[str, object] = {"nvmlInitWithFlags": "code 999"}
    refused = {**cards_of(2), "calls": {"nvmlInitWithFlags": "code 18"}}
    code = f"script({refused!r}); found['ticks'] = [tick() for _ in range(3)]"
    found = run(tmp_path, {**cards_of(2), "calls": calls}, code)
    assert [None] * 3 == found["ticks"]
    assert "mismatch" in found["dropped"]
    assert 1 == len(found["warnings"])


def test_card_cut_up_by_mig(tmp_path: Path) -> None:
    """A partitioned card is skipped and counted, the other seven aren't."""
    found = run(tmp_path, cards_of(8, gpu0={"mig": "on", "mig_devices": 2}), "found['ticks'] = [tick()]")
    assert [EIGHT[6:]] == found["ticks"]
    assert 1 == found["attributes"]["system/gpu/mig_partitioned_count"]
    assert 8 == found["attributes"]["system/gpu/visible_count"]
    assert [] == found["warnings"]


def test_card_cut_up_at_run_time(tmp_path: Path) -> None:
    """A card that's partitioned during the run is skipped from then on, and has its series again afterwards."""
    whole, cut = cards_of(2, gpu1={"mig": "off"}), cards_of(2, gpu1={"mig": "on"})
    code = f"found['ticks'] = [tick()]; script({cut!r}); found['ticks'] += [tick() for _ in range(7)]; "
    code += f"script({whole!r}); clock[0] = 61.0; found['ticks'] += [tick()]"
    found = run(tmp_path, whole, code)
    assert [EIGHT[:12]] + [EIGHT[:6]] * 7 + [EIGHT[:12]] == found["ticks"]
    assert [] == found["warnings"]


def test_owned_card(tmp_path: Path) -> None:
    """A rank reports the card it drives, under the driver's index."""
    training = {"CUDA_VISIBLE_DEVICES": "4,5,6,7", "LOCAL_RANK": "2"}
    found = run(tmp_path, cards_of(8), "found['ticks'] = [tick()]", training)
    assert [samples_of(6)] == found["ticks"]
    assert 4 == found["attributes"]["system/gpu/visible_count"]
    assert 8 == found["attributes"]["system/gpu/host_device_count"]


def test_what_is_learned_later(tmp_path: Path) -> None:
    """A hint or an environment that the training process sets later moves the report; the claims override both."""
    code = """
found["ticks"] = [tick()]
collector.update({}, Hint("torch", 2)); found["ticks"] += [tick()]
collector.update({"CUDA_VISIBLE_DEVICES": "1"}, None); found["ticks"] += [tick()]
collector.update({}, Hint("torch", 2))
collector.select(lambda resolution, devices: {0: "0", 1: "1:b"}); found["ticks"] += [tick()]
collector.select(lambda resolution, devices: {}); found["ticks"] += [tick()]
found["reason"] = collector.reason()
"""
    found = run(tmp_path, cards_of(3), code)
    three = [EIGHT[:18], samples_of(2), samples_of(1)]
    under_labels = [[reading, "1:b" if label == "1" else label, value] for reading, label, value in EIGHT[:12]]
    assert [*three, under_labels, []] == found["ticks"]
    assert "other processes" in found["reason"]


def test_no_visible_card(tmp_path: Path) -> None:
    """A process whose cards are hidden has no GPU chart, and the reason names the variable."""
    found = run(tmp_path, cards_of(2), "found['ticks'] = [tick()]", {"CUDA_VISIBLE_DEVICES": ""})
    assert [[]] == found["ticks"]
    assert "CUDA_VISIBLE_DEVICES" in found["reason"]
    assert [] == found["warnings"]


def test_card_without_any_reading(tmp_path: Path) -> None:
    """A card that exposes nothing is silent, and the reason says so."""
    calls: dict[str, object] = dict.fromkeys(READINGS, "code 3")
    found = run(tmp_path, {**cards_of(1), "calls": calls}, "found['ticks'] = [tick(), tick()]")
    assert [[], []] == found["ticks"]
    assert "GPU 0: not supported" == found["reason"]
    assert [] == found["warnings"]


def test_garbled_names(tmp_path: Path) -> None:
    """Texts of the driver that aren't UTF-8 cost no reading."""
    garbled: dict[str, object] = {"name": "\xff\xfe", "uuid": "GPU-\xff", "pci": "\xfe"}
    found = run(tmp_path, {**cards_of(1, gpu0=garbled), "system": {"driver": "\xff"}}, "found['ticks'] = [tick()]")
    assert [EIGHT[:6]] == found["ticks"]
    assert "unknown" == found["attributes"]["system/gpu/driver_version"]


@pytest.mark.parametrize(
    ("code", "words"), [(18, "driver/library version mismatch"), (9, "driver not loaded"), (17, "blocks")]
)
def test_driver_that_refuses(tmp_path: Path, code: int, words: str) -> None:
    """A driver that can't be used is one warning and the reason, at the start."""
    found = run(tmp_path, {**cards_of(1), "calls": {"nvmlInitWithFlags": f"code {code}"}}, "")
    assert words in found["dropped"]
    assert 1 == len(found["warnings"])
    assert words in found["warnings"][0]


def test_missing_package(tmp_path: Path) -> None:
    """nvidia-ml-py missing beside a driver: one warning with the command that mends it."""
    driver = FakeDriver(tmp_path)
    found = driver.run(PRELUDE + PRINT, {"TRAINING": "{}"}, ("-S",))
    assert "nvidia-ml-py not installed: pip install nvidia-ml-py" == found["dropped"]
    assert 1 == len(found["warnings"])
    assert "pip install nvidia-ml-py" in found["warnings"][0]


DESCRIBE = """
import json, os
from metrana.system.collectors.gpu import describe
from metrana.system.host import Host
print(json.dumps(describe(Host(os.environ.get("TREE", "/"), environ={}))))
"""

DOCTOR = """
import contextlib, io, json, os, sys
from types import SimpleNamespace
from metrana.cli import main
device = json.loads(os.environ["TORCH"])
if device is not None:
    cuda = SimpleNamespace(is_initialized=lambda: True, current_device=lambda: device)
    sys.modules["torch"] = SimpleNamespace(cuda=cuda)
said = io.StringIO()
with contextlib.redirect_stdout(said):
    status = main(["doctor", "--json"])
assert status == 0
print(json.dumps(json.loads(said.getvalue())["gpus"]))
"""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["why"])
def test_describe_case(tmp_path: Path, case: dict[str, Any]) -> None:
    """What doctor tells of a driver with these cards is what the case expects."""
    sections: Script = {"system": {"count": len(case["gpus"])}}
    for gpu in case["gpus"]:
        ids = gpu.get("mig_uuids", ())
        mig = {"mig": "on", "mig_devices": len(ids)} if gpu.get("mig") else {}
        named = {f"mig_uuid{slot}": uuid for slot, uuid in enumerate(ids)}
        sections[f"gpu{gpu['index']}"] = {"uuid": gpu["uuid"], "pci": gpu["pci"], **mig, **named}
    driver = FakeDriver(tmp_path)
    driver.script(sections)

    found = driver.run(DOCTOR, {**case["env"], "TORCH": json.dumps(case["torch_current_device"])})

    assert case["expected_visible"] == found["visible"]
    assert case["expected_owned"] == found["owned"]
    assert len(case["gpus"]) == found["host_count"]
    assert sum(gpu.get("mig", False) for gpu in case["gpus"]) == found["mig_count"]
    reportable = case.get("expected_reportable", case["expected_visible"])
    assert (not reportable) == (found["reason"] is not None)


def test_describe_without_a_driver(tmp_path: Path) -> None:
    """Without a driver everything is empty, and the reason says why."""
    found = run_python(DESCRIBE, {"PYTHONPATH": ROOT, "TREE": str(tmp_path)})
    assert {
        "driver_version": None,
        "host_count": 0,
        "visible": [],
        "owned": None,
        "basis": "no GPU",
        "mig_count": 0,
        "reason": "no NVIDIA driver",
    } == found
