"""The driver is started once, read without trusting it, and its absence is told apart from its failure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from metrana.errors import ReadFailed, Unavailable
from metrana.system.sources.driver_files import LIBRARY
from metrana.system.sources.nvml import CardFailed, DriverFailed, sort_code
from tests.fake_driver import NEW, OLD, FakeDriver, run_python

START = """
import json, sys
sys.path.insert(0, {root!r})
from metrana.errors import ReadFailed, Unavailable
from metrana.system.host import Host
from metrana.system.sources.nvml import Nvml
source = Nvml(Host({tree!r}, environ={{}}))
try:
    source.start()
    print(json.dumps({{"started": source.driver_version, "cards": len(source.cards)}}))
except (Unavailable, ReadFailed) as error:
    print(json.dumps({{"kind": type(error).__name__, "reason": str(error)}}))
"""
ROOT = str(Path(__file__).parents[4])
REAL_PACKAGE = """
import importlib.util, sys
folders = [folder for folder in sys.path if folder != {here!r}]
spec = importlib.machinery.PathFinder.find_spec("pynvml", folders)
real = importlib.util.module_from_spec(spec)
spec.loader.exec_module(real)
globals().update({{name: value for name, value in vars(real).items() if name not in {without!r}}})
"""


def start(driver: FakeDriver, extra: dict[str, str] | None = None, flags: tuple[str, ...] = (), tree: str = "/") -> Any:
    return driver.run(START.format(root=ROOT, tree=tree), extra, flags)


def write_package(folder: Path, without: tuple[str, ...], code: str = "") -> dict[str, str]:
    """Another pynvml in front of the real one: a folder, as version 11 is. The variables that make Python find it."""
    package = folder / "wrong" / "pynvml"
    package.mkdir(parents=True)
    text = code or REAL_PACKAGE.format(here=str(package.parent), without=without)
    (package / "__init__.py").write_text(text)
    return {"PYTHONPATH": f"{package.parent}:{ROOT}"}


@pytest.mark.parametrize("code", [2, 3, 4, 13, 25, 26])
def test_codes_that_never_change(code: int) -> None:
    """What a card can't do, or isn't allowed to, is unavailable."""
    assert type(sort_code(code)) is Unavailable


@pytest.mark.parametrize("code", [6, 7, 10, 11, 19, 20, 21, 23, 27, 999, 12345])
def test_codes_that_may_pass(code: int) -> None:
    """What may pass, unknown codes too, is a failed reading that names the code."""
    assert type(sort_code(code)) is ReadFailed
    assert str(code) in str(sort_code(code))


@pytest.mark.parametrize("code", [8, 14, 15, 16, 28])
def test_codes_of_a_card(code: int) -> None:
    """A lost card is that card's failure."""
    assert type(sort_code(code)) is CardFailed


@pytest.mark.parametrize("code", [1, 9, 12, 17, 18])
def test_codes_of_everything(code: int) -> None:
    """A driver that's gone is everybody's failure."""
    assert type(sort_code(code)) is DriverFailed


@pytest.fixture
def driver(tmp_path: Path) -> FakeDriver:
    driver = FakeDriver(tmp_path)
    driver.script({"system": {"count": 2}})
    return driver


def test_start(driver: FakeDriver) -> None:
    """A driver that works is started with its version and its cards, by one nvmlInit."""
    assert {"started": "580.82.07", "cards": 2} == start(driver)
    assert 1 == driver.calls()["nvmlInitWithFlags"]


def test_two_sources_in_a_process_start_the_library_once(driver: FakeDriver) -> None:
    """nvmlInit is called once in a process's life."""
    code = START.format(root=ROOT, tree="/")
    start_twice = code.replace("source.start()", "source.start(); source.start(); Nvml(Host('/')).start()")
    assert 2 == driver.run(start_twice)["cards"]
    assert 1 == driver.calls()["nvmlInitWithFlags"]
    assert 0 == driver.calls()["nvmlShutdown"]


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (18, "DriverUnusable", "driver/library version mismatch"),
        (9, "DriverUnusable", "driver not loaded"),
        (17, "DriverUnusable", "operating system blocks"),
        (4, "DriverUnusable", "no permission"),
        (999, "ReadFailed", "999"),
        (10, "ReadFailed", "timeout"),
    ],
)
def test_driver_that_refuses(driver: FakeDriver, code: int, kind: str, words: str) -> None:
    """A driver that's there and fails is told in words; what may pass is worth another try."""
    driver.script({"system": {"count": 2}, "calls": {"nvmlInitWithFlags": f"code {code}"}})
    found = start(driver)
    assert kind == found["kind"]
    assert words in found["reason"]


def test_no_driver(tmp_path: Path) -> None:
    """Neither library nor any sign of a driver: no NVIDIA driver, which is no fault."""
    environ = {"PYTHONPATH": ROOT}
    expected = {"kind": "Unavailable", "reason": "no NVIDIA driver"}
    assert expected == run_python(START.format(root=ROOT, tree=str(tmp_path)), environ)
    # Without nvidia-ml-py, too: a machine without GPUs needs none.
    assert expected == run_python(START.format(root=ROOT, tree=str(tmp_path)), environ, ("-S",))


def test_driver_without_its_library(tmp_path: Path) -> None:
    """A driver whose library the container doesn't show isn't taken for a missing driver."""
    pytest.importorskip("pynvml", reason="needs nvidia-ml-py, which the extra system brings")
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "nvidiactl").touch()
    found = run_python(START.format(root=ROOT, tree=str(tmp_path)), {"PYTHONPATH": ROOT})
    assert "DriverUnusable" == found["kind"]
    assert LIBRARY in found["reason"]


def test_missing_package(driver: FakeDriver, tmp_path: Path) -> None:
    """A driver without nvidia-ml-py is named with the command that mends it, found by its library or by its files."""
    expected = {"kind": "DriverUnusable", "reason": "nvidia-ml-py not installed: pip install nvidia-ml-py"}
    assert expected == start(driver, flags=("-S",))
    tree = tmp_path / "tree"
    (tree / "proc" / "driver" / "nvidia").mkdir(parents=True)
    assert expected == run_python(START.format(root=ROOT, tree=str(tree)), {"PYTHONPATH": ROOT}, ("-S",))


def test_library_in_the_usual_folders(driver: FakeDriver, tmp_path: Path) -> None:
    """The library counts as found in the system's own folders."""
    folder = tmp_path / "tree" / "usr" / "lib" / "x86_64-linux-gnu"
    folder.mkdir(parents=True)
    (folder / LIBRARY).touch()
    code = START.format(root=ROOT, tree=str(tmp_path / "tree"))
    assert "DriverUnusable" == run_python(code, {"PYTHONPATH": ROOT}, ("-S",))["kind"]


def test_library_that_the_loader_knows(tmp_path: Path) -> None:
    """The loader's own list counts, so a library in a folder of anybody's choice is found."""
    cache = tmp_path / "tree" / "etc" / "ld.so.cache"
    cache.parent.mkdir(parents=True)
    cache.write_bytes(bytes(200_000) + f"{LIBRARY}\0/opt/driver/lib/{LIBRARY}\0".encode())
    code = START.format(root=ROOT, tree=str(tmp_path / "tree"))
    assert "DriverUnusable" == run_python(code, {"PYTHONPATH": ROOT}, ("-S",))["kind"]


@pytest.mark.parametrize(
    "code", ["", "raise SystemError('no')", "import warnings; warnings.warn('old', DeprecationWarning)"]
)
def test_foreign_package(driver: FakeDriver, tmp_path: Path, code: str) -> None:
    """A package that's merely called pynvml, or fails to import, is a reason and no crash."""
    found = start(driver, write_package(tmp_path, (), code or "pass"), ("-W", "error::DeprecationWarning"))
    assert "DriverUnusable" == found["kind"]
    assert "pynvml package can't be used" in found["reason"]


def test_package_that_warns(driver: FakeDriver, tmp_path: Path) -> None:
    """The package that greets with a FutureWarning works even where warnings are errors."""
    code = "import warnings; warnings.warn('use nvidia-ml-py', FutureWarning)\n"
    code += REAL_PACKAGE.format(here=str(tmp_path / "wrong"), without=())
    assert 2 == start(driver, write_package(tmp_path, (), code), ("-W", "error::FutureWarning"))["cards"]


READ = """
import json, sys
from metrana.errors import ReadFailed, Unavailable
from metrana.system.host import Host
from metrana.system.sources.nvml import Nvml
source = Nvml(Host())
source.start()
card = source.cards[0]
def attempt(call):
    try:
        return call(card)
    except (Unavailable, ReadFailed) as error:
        return type(error).__name__
readings = ("utilization", "memory", "temperature", "power", "sm_clock")
found = {name: attempt(getattr(source, name)) for name in readings}
found["device"] = [card.device.index, card.device.uuid, card.device.pci, card.device.partitioned]
found["mig_uuids"] = list(card.device.mig_uuids)
found["again"] = {name: attempt(getattr(source, name)) for name in readings}
print(json.dumps(found))
"""
CARD: dict[str, object] = {
    "util": 93,
    "mem_total": 1000,
    "mem_used": 400,
    "mem_reserved": 50,
    "temp": 41,
    "power_mw": 71500,
}
CARD |= {"clock_sm": 1980, "uuid": "GPU-1", "pci": "00000000:17:00.0"}
FIVE = {"utilization": 93.0, "memory": [1000, 400], "temperature": 41.0, "power": 71.5, "sm_clock": 1980.0}
NONE = dict.fromkeys(FIVE, "Unavailable")
START_CALLS = ("nvmlInitWithFlags", "nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2")


@pytest.mark.parametrize(("variant", "used"), [(NEW, 400), (OLD, 450)])
def test_readings(tmp_path: Path, variant: str, used: int) -> None:
    """A new driver gives all readings; an old one too, with the driver's own share of the memory in it."""
    driver = FakeDriver(tmp_path, variant)
    driver.script({"gpu0": CARD})
    found = driver.run(READ)
    assert {**FIVE, "memory": [1000, used]} == found["again"]
    assert [0, "GPU-1", "00000000:17:00.0", False] == found["device"]


def test_choice_is_remembered(tmp_path: Path) -> None:
    """A card that answers the older calls only is asked the newer ones once."""
    driver = FakeDriver(tmp_path)
    calls = {"nvmlDeviceGetMemoryInfo_v2": "code 13", "nvmlDeviceGetTemperatureV": "code 3"}
    driver.script({"gpu0": CARD, "calls": calls})
    assert {**FIVE, "memory": [1000, 450]} == driver.run(READ)["again"]
    counts = driver.calls()
    assert (1, 2) == (counts["nvmlDeviceGetMemoryInfo_v2"], counts["nvmlDeviceGetMemoryInfo"])
    assert (1, 2) == (counts["nvmlDeviceGetTemperatureV"], counts["nvmlDeviceGetTemperature"])


def test_one_timeout_does_not_settle_which_call_is_used(tmp_path: Path) -> None:
    """The older call's value counts the driver's own share: it stands in once, and the newer one is asked again."""
    driver = FakeDriver(tmp_path)
    driver.script({"gpu0": CARD, "calls": {"nvmlDeviceGetMemoryInfo_v2": "fail 1 code 10"}})
    found = driver.run(READ)
    assert [1000, 400] == found["again"]["memory"]
    assert 2 == driver.calls()["nvmlDeviceGetMemoryInfo_v2"]


def test_newer_call_that_worked_is_kept(tmp_path: Path) -> None:
    """One time-out of the call in use doesn't change what the series means."""
    driver = FakeDriver(tmp_path)
    driver.script({"gpu0": CARD, "calls": {"nvmlDeviceGetMemoryInfo_v2": "after 1 code 10"}})
    found = driver.run(READ)
    assert ([1000, 400], "ReadFailed") == (found["memory"], found["again"]["memory"])


def test_card_without_readings(tmp_path: Path) -> None:
    """A card that supports nothing makes every reading unavailable, a total of zero bytes the memory."""
    driver = FakeDriver(tmp_path)
    driver.script({"gpu0": CARD, "calls": {"*": "code 3", **dict.fromkeys(START_CALLS, "ok")}})
    found = driver.run(READ)
    assert NONE == {name: found[name] for name in NONE}
    driver.script({"gpu0": {**CARD, "mem_total": 0}})
    assert {**FIVE, "memory": "Unavailable"} == driver.run(READ)["again"]


def test_garbled_texts(tmp_path: Path) -> None:
    """Texts that aren't UTF-8 cost the texts and nothing else."""
    driver = FakeDriver(tmp_path)
    garbled = {"uuid": "GPU-\xff", "pci": "\xfe", "name": "\xff"}
    driver.script({"system": {"driver": "\xff\xfe"}, "gpu0": CARD | garbled})
    found = driver.run(READ)
    assert [0, "", "", False] == found["device"]
    assert FIVE == found["again"]


def test_partitioned_card(tmp_path: Path) -> None:
    """A partitioned card is known as such, with the ids of its instances; a card without MIG isn't asked again."""
    driver = FakeDriver(tmp_path)
    driver.script({"gpu0": {**CARD, "mig": "on", "mig_devices": 2, "mig_uuid0": "MIG-a", "mig_uuid1": "MIG-b"}})
    found = driver.run(READ)
    assert (True, ["MIG-a", "MIG-b"]) == (found["device"][3], found["mig_uuids"])


def test_package_of_2019(tmp_path: Path) -> None:
    """A pynvml without MIG, without the newer calls and without versions of the memory call still reads."""
    driver = FakeDriver(tmp_path)
    driver.script({"gpu0": CARD})
    without = ("nvmlDeviceGetMigMode", "nvmlDeviceGetTemperatureV", "nvmlMemory_v2", "nvmlDeviceGetMemoryInfo")
    extra = write_package(tmp_path, without)
    package = tmp_path / "wrong" / "pynvml" / "__init__.py"
    package.write_text(package.read_text() + "def nvmlDeviceGetMemoryInfo(h): return real.nvmlDeviceGetMemoryInfo(h)\n")
    found = driver.run(READ, extra)
    assert {**FIVE, "memory": [1000, 450]} == found["again"]
    assert [0, "GPU-1", "00000000:17:00.0", False] == found["device"]


def test_before_start_nothing_is_loaded() -> None:
    """The library is loaded by start(), not by importing the module."""
    code = (
        "import json, sys\nfrom metrana.system.host import Host\nfrom metrana.system.sources.nvml import Nvml\n"
        "source = Nvml(Host(environ={}))\nprint(json.dumps([source.started, 'pynvml' in sys.modules]))"
    )
    assert [False, False] == run_python(code, {"PYTHONPATH": ROOT})
