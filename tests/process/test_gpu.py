"""GPUs charted from a real script, with the scripted driver that nvidia-ml-py loads in the child."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from metrana.store.reader import StoredRun
from tests.fake_driver import OLD, FakeDriver, build_library
from tests.scripts import DEADLINE_SECS, Script

# Trains until the child has taken as many samples as the test needs.
BODY = """
import metrana, os, pathlib, sys, time
def ticks():
    metrana.flush()
    text = "".join(path.read_text() for path in pathlib.Path(os.environ["METRANA_DIR"]).rglob("*.jsonl"))
    return sum(1 for line in text.splitlines() if line.startswith('{"t"') and line.count(",") > 8)
def is_stored(text):
    metrana.flush()
    return any(text in path.read_text() for path in pathlib.Path(os.environ["METRANA_DIR"]).rglob("*.jsonl"))
def train(wanted, last='"system/capture/gpu"'):
    run = metrana.init(run_name="r", system_metrics_interval_secs=1)
    end = time.monotonic() + 100
    while (ticks() < wanted or not is_stored(last)) and time.monotonic() < end: time.sleep(0.05)
    maps = pathlib.Path("/proc/self/maps").read_text()
    assert "nvidia-ml" not in maps and "pynvml" not in sys.modules
    run.close()
"""

GPU = '"system/gpu/power_watts"'
READINGS = {
    "utilization": 93.0,
    "memory_used_bytes": 40e9,
    "memory_utilization": 50.0,
    "temperature_celsius": 41.0,
    "power_watts": 71.234,
    "sm_clock_mhz": 1980.0,
}
CARD = {
    "util": 93,
    "mem_total": 80_000_000_000,
    "mem_used": 40_000_000_000,
    "mem_reserved": 600_000_000,
    "temp": 41,
    "power_mw": 71_234,
    "clock_sm": 1980,
}


class Node:
    """A machine with a scripted driver, and a script that trains on it."""

    def __init__(self, folder: Path, cards: int = 8, variant: str = "new") -> None:
        self.driver = FakeDriver(folder, variant)
        self.sections: dict[str, dict[str, object]] = {"system": {"count": cards}, "gpu": dict(CARD), "calls": {}}
        self.folder = folder

    def train(
        self,
        ticks: int = 1,
        environ: Mapping[str, str] | None = None,
        stderr: str | None = "",
        last: str = '"system/capture/gpu"',
    ) -> StoredRun:
        """The run of a training of so many ticks, in whose store ``last`` stands."""
        script = Script(self.folder, BODY + f"train({ticks}, {last!r})\n")
        self.driver.script(self.sections)
        own = self.driver.environment()
        names = ("LD_LIBRARY_PATH", "FAKE_NVML_CONFIG", "FAKE_NVML_LOG")
        script.run(environ={**{name: own[name] for name in names}, **(environ or {})}, stderr=stderr)
        return script.stored()


def gpu_series(run: StoredRun) -> dict[tuple[str, int], list[float]]:
    """The values of each GPU series by reading and card."""
    return {
        (name.rpartition("/")[2], int(dict(labels)["gpu"])): list(series.values)
        for (name, labels), series in run.series.items()
        if name.startswith("system/gpu/")
    }


def test_eight_cards_give_forty_eight_series(tmp_path: Path) -> None:
    """Each with the value that the driver tells, and the attributes of the node."""
    node = Node(tmp_path)
    run = node.train(last=GPU)
    series = gpu_series(run)
    assert {(reading, card) for reading in READINGS for card in range(8)} == set(series)
    assert all({READINGS[reading]} == set(values) for (reading, _), values in series.items())
    assert {
        "system/gpu/driver_version": "580.82.07",
        "system/gpu/visible_count": 8,
        "system/gpu/host_device_count": 8,
        "system/gpu/mig_partitioned_count": 0,
        "system/capture/gpu": "ok",
    }.items() <= run.attributes.items()
    assert 1 == node.driver.calls()["nvmlInitWithFlags"]
    assert 0 == node.driver.calls()["nvmlShutdown"]


def test_a_missing_counter_costs_one_series(tmp_path: Path) -> None:
    """Power isn't supported on card 3: forty-seven are left, without a warning."""
    node = Node(tmp_path)
    node.sections["gpu3"] = {"power_mw": "na"}
    series = gpu_series(node.train(2))
    assert 47 == len(series)
    assert ("power_watts", 3) not in series


def test_a_lost_card_costs_that_card_and_nothing_else(tmp_path: Path) -> None:
    """It falls off the bus in mid-run: one warning, and the others go on."""
    node = Node(tmp_path, cards=3)
    calls = ("UtilizationRates", "MemoryInfo_v2", "TemperatureV", "PowerUsage", "ClockInfo")
    node.sections["calls"] = {f"nvmlDeviceGet{call}@1": "after 2 code 15" for call in calls}
    run = node.train(8, stderr=None)
    series = gpu_series(run)
    assert 18 == len(series)
    assert all(len(values) == 2 for (_, card), values in series.items() if card == 1)
    assert all(len(values) >= 8 for (_, card), values in series.items() if card != 1)
    assert "ok" == run.attributes["system/capture/gpu"]


@pytest.mark.parametrize(("failures", "is_lost"), [(4, False), (5, True)])
def test_five_timeouts_in_a_row_end_a_series(tmp_path: Path, failures: int, is_lost: bool) -> None:
    """Four cost four points; the fifth costs the series, with one warning."""
    node = Node(tmp_path, cards=2)
    node.sections["calls"] = {"nvmlDeviceGetPowerUsage@0": f"fail {failures} code 10"}
    script = Script(tmp_path, BODY + "train(8)\n")
    node.driver.script(node.sections)
    own = node.driver.environment()
    process = script.start(
        environ={name: own[name] for name in ("LD_LIBRARY_PATH", "FAKE_NVML_CONFIG", "FAKE_NVML_LOG")}
    )
    _, err = process.communicate(timeout=DEADLINE_SECS)
    series = gpu_series(script.stored())
    if is_lost:
        assert ("power_watts", 0) not in series
        assert 1 == len(err.splitlines())
        assert "gpu/0/power" in err
    else:
        assert len(series["power_watts", 0]) == len(series["power_watts", 1]) - failures
        assert "" == err


def test_a_partitioned_card_is_skipped_and_counted(tmp_path: Path) -> None:
    """MIG on card 0 leaves seven."""
    node = Node(tmp_path)
    node.sections["gpu0"] = {"mig": "on", "mig_devices": 2}
    run = node.train(last=GPU)
    assert set(range(1, 8)) == {card for _, card in gpu_series(run)}
    assert 1 == run.attributes["system/gpu/mig_partitioned_count"]


@pytest.mark.parametrize(
    ("sections", "expected_series", "reason"),
    [
        ({"gpu": {**CARD, "name": "caf\xe9 \xff"}}, 6, "ok"),
        ({"gpu": {**CARD, "mem_total": 0}}, 4, "ok"),
        ({"calls": {"nvmlInitWithFlags": "code 18"}}, 0, "mismatch"),
        ({"calls": {"nvmlInitWithFlags": "code 9"}}, 0, "driver"),
        ({"calls": {"nvmlDeviceGetHandleByIndex_v2": "code 15"}}, 0, ""),
        ({"system": {"count": 0}}, 0, ""),
    ],
)
def test_an_odd_driver_is_no_exception(
    tmp_path: Path, sections: dict[str, dict[str, object]], expected_series: int, reason: str
) -> None:
    """What can be read is charted, and the attribute says why the rest isn't."""
    node = Node(tmp_path, cards=1)
    node.sections.update(sections)
    run = node.train(2, stderr=None, last=GPU if expected_series else '"system/capture/gpu"')
    assert expected_series == len(gpu_series(run))
    assert reason in str(run.attributes["system/capture/gpu"])
    if expected_series == 0:
        assert "ok" != run.attributes["system/capture/gpu"]


def test_a_driver_of_the_470_series_gives_every_series(tmp_path: Path) -> None:
    """It has neither the second memory call nor the versioned temperature."""
    node = Node(tmp_path, cards=1, variant=OLD)
    assert 6 == len(gpu_series(node.train(last=GPU)))


@pytest.mark.parametrize(
    ("environ", "cards"),
    [
        ({"CUDA_VISIBLE_DEVICES": "2,1"}, {1, 2}),
        ({"CUDA_VISIBLE_DEVICES": ""}, set()),
        ({"LOCAL_RANK": "3"}, {3}),
        ({"CUDA_VISIBLE_DEVICES": "4,5,6,7", "LOCAL_RANK": "2"}, {6}),
    ],
)
def test_a_process_reports_the_cards_that_are_its_own(tmp_path: Path, environ: dict[str, str], cards: set[int]) -> None:
    """The visible ones, and of those the one that it drives, where that's known."""
    run = Node(tmp_path).train(environ=environ, last=GPU if cards else '"system/capture/gpu"')
    assert cards == {card for _, card in gpu_series(run)}


def test_a_framework_that_starts_later_tells_the_card(tmp_path: Path) -> None:
    """Torch turns up after init() in a rank that nothing else tells its card: then that card is reported."""
    node = Node(tmp_path, cards=4)
    (tmp_path / "torch.py").write_text(
        "class cuda:\n    is_initialized = staticmethod(lambda: True)\n    current_device = staticmethod(lambda: 2)\n"
    )
    code = BODY.replace("    end =", "    while ticks() < 2: time.sleep(0.05)\n    import torch\n    end =")
    script = Script(tmp_path, code + "train(12)\n")
    node.driver.script(node.sections)
    own = node.driver.environment()
    names = ("LD_LIBRARY_PATH", "FAKE_NVML_CONFIG", "FAKE_NVML_LOG")
    script.run(environ={"RANK": "1", "WORLD_SIZE": "2", **{name: own[name] for name in names}})
    assert {2} == {card for _, card in gpu_series(script.stored())}


def test_capture_that_is_off_leaves_the_driver_alone(tmp_path: Path) -> None:
    """Nobody opens the library."""
    node = Node(tmp_path)
    script = Script(tmp_path, "import metrana\nmetrana.init(run_name='r', capture_system_metrics=False)\n")
    node.driver.script(node.sections)
    script.run(environ={"FAKE_NVML_LOG": str(node.driver.log), "LD_LIBRARY_PATH": str(node.driver.library_folder)})
    assert not node.driver.log.exists()


def test_the_doctor_sees_what_a_run_would_report(tmp_path: Path) -> None:
    """metrana doctor --json, with the environment that the training would have."""
    node = Node(tmp_path, cards=4)
    node.driver.script(node.sections)
    script = Script(tmp_path, "")
    own = node.driver.environment()
    environ = {name: own[name] for name in ("LD_LIBRARY_PATH", "FAKE_NVML_CONFIG", "FAKE_NVML_LOG")}
    out = script.run(
        sys.executable, "-m", "metrana", "doctor", "--json", environ={**environ, "CUDA_VISIBLE_DEVICES": "3,1"}
    )
    gpus = json.loads(out)["gpus"]
    assert {
        "driver_version": "580.82.07",
        "host_count": 4,
        "visible": [3, 1],
        "owned": None,
        "mig_count": 0,
        "reason": None,
    }.items() <= gpus.items()
    assert gpus["basis"]


def test_a_driver_without_nvidia_ml_py_is_one_line_with_the_way_out(tmp_path: Path) -> None:
    """The plain install on a machine with GPUs: one warning, the command that mends it, and the attribute."""
    script = Script(tmp_path, BODY + "train(1)\n")
    for name in ("metrana", "psutil", "portalocker"):
        shutil.copytree(Path(__import__(name).__file__ or "").parent, tmp_path / name)
        for metadata in Path(__import__(name).__file__ or "").parent.parent.glob(f"{name}-*.dist-info"):
            shutil.copytree(metadata, tmp_path / metadata.name)
    process = script.start(sys.executable, "-S", str(script.path), environ={"LD_LIBRARY_PATH": str(build_library())})
    _, err = process.communicate(timeout=DEADLINE_SECS)
    assert 0 == process.returncode, err
    assert 1 == len(err.splitlines())
    assert "pip install nvidia-ml-py" in err
    run = script.stored()
    assert "nvidia-ml-py not installed: pip install nvidia-ml-py" == run.attributes["system/capture/gpu"]
    assert "ok" == run.attributes["system/capture/memory"]


def test_a_driver_that_is_slow_to_start_holds_up_no_other_chart(tmp_path: Path) -> None:
    """The first samples of the host, and the reason for the missing ones, are there before it answers."""
    node = Node(tmp_path, cards=2)
    node.sections["calls"] = {"nvmlDeviceGetHandleByIndex_v2": "hang"}
    run = node.train(1)
    assert [] == list(gpu_series(run))
    assert any(name == "system/memory/used_bytes" for name, _ in run.series)
    assert str(run.attributes["system/capture/gpu"]).startswith("the driver hasn't answered ")
    assert "closed" == run.info.status


@pytest.mark.parametrize(
    ("action", "expected"),
    [("segv", "SIGSEGV"), ("abort", "SIGABRT"), ("exit 3", "status 3"), ("hang", "no answer"), ("block", "no answer")],
)
def test_the_doctor_survives_the_driver(tmp_path: Path, action: str, expected: str) -> None:
    """A node with a broken driver is where it's called: all the rest is told, and what the driver did."""
    node = Node(tmp_path, cards=1)
    node.sections["calls"] = {"nvmlInitWithFlags": action}
    node.driver.script(node.sections)
    script = Script(tmp_path, "")
    own = node.driver.environment()
    environ = {name: own[name] for name in ("LD_LIBRARY_PATH", "FAKE_NVML_CONFIG", "FAKE_NVML_LOG")}
    command = (sys.executable, "-m", "metrana", "doctor", "--driver-timeout", "2")
    facts = json.loads(script.run(*command, "--json", environ=environ))
    assert facts["memory"]["limit_bytes"] > 0
    assert expected in facts["gpus"]["reason"]
    text = script.run(*command, environ=environ)
    assert expected in text
    assert "memory" in text


def test_a_driver_that_hangs_in_mid_run_is_told(tmp_path: Path) -> None:
    """The chart that ends early is explained afterwards."""
    node = Node(tmp_path, cards=1)
    node.sections["calls"] = {"nvmlDeviceGetPowerUsage": "after 1 hang"}
    run = node.train(4, stderr=None)
    assert str(run.attributes["system/capture/gpu"]).startswith("the driver hasn't answered for ")
    assert "closed" == run.info.status


def test_what_a_card_has_lost_is_told(tmp_path: Path) -> None:
    """One reading, by an attribute of its own."""
    node = Node(tmp_path, cards=2)
    node.sections["gpu1"] = {"power_mw": "na"}
    run = node.train(1)
    assert ("ok", "not supported") == (
        run.attributes["system/capture/gpu"],
        run.attributes["system/capture/gpu/1/power"],
    )
