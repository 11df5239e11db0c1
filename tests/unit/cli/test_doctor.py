from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import pytest

from metrana.cli import doctor
from metrana.errors import MetranaError
from tests.unit.system.played import CASES, case_folder


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    doctor.add_arguments(parser)
    return doctor.run(parser.parse_args(words))


# Cases whose failures are injected into a Host can't be told to a command.
@pytest.mark.parametrize("name", [name for name in CASES if name != "v2-vanishing-enodev"])
def test_json_of_a_played_machine(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The JSON tells the cgroup version, the memory limit with its level and usage, and the CPU limit."""
    folder = case_folder(name)
    expected = json.loads((folder / "expected.json").read_text())
    assert 0 == run("--json", "--root", str(folder))
    found = json.loads(capsys.readouterr().out)
    assert {
        "limit_bytes": expected["memory_limit_bytes"],
        "limit_from": expected["memory_limit_from"],
        "used_bytes": expected["memory_used_bytes"],
    } == found["memory"]
    assert expected["cpu_limit_cores"] == found["cpu"]["limit_cores"]
    assert (expected["cpu_limit_cores"] is None) == (found["cpu"]["limit_from"] == "host")
    assert {"version": expected["version"]} == found["cgroup"]


def test_text_names_every_level(capsys: pytest.CaptureFixture[str]) -> None:
    """The text tells what's used of which limit, where both come from, and what the other levels say."""
    assert 0 == run("--root", str(case_folder("v2-middle-ancestor-tightest")))
    text = capsys.readouterr().out
    assert "cgroup  v2\n" in text
    assert "800 MiB used of 1 GiB, the tightest limit: /sys/fs/cgroup/a/b/c\n" in text
    assert "/sys/fs/cgroup/a/b/c/d/e  2 GiB\n" in text
    assert "/sys/fs/cgroup/a/b        no limit\n" in text
    assert "2 cores of the host's 16: quota at /sys/fs/cgroup/a/b\n" in text


@pytest.mark.parametrize("name", CASES)
def test_text_of_a_played_machine(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every machine has a text."""
    assert 0 == run("--root", str(case_folder(name)))
    assert capsys.readouterr().out.startswith("cgroup  ")


def test_empty_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A machine that says nothing has unknown numbers, and no error."""
    assert 0 == run("--root", str(tmp_path))
    assert "unknown used of unknown" in capsys.readouterr().out
    assert 0 == run("--json", "--root", str(tmp_path))
    assert json.loads(capsys.readouterr().out)["memory"] == {
        "limit_bytes": None,
        "limit_from": "host",
        "used_bytes": None,
    }


def test_root_that_is_no_folder(tmp_path: Path) -> None:
    """A root that isn't a folder is one clear error."""
    (tmp_path / "file").touch()
    with pytest.raises(MetranaError, match="isn't a folder"):
        run("--root", str(tmp_path / "file"))


def test_who_holds_what(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The processes that report the node and the cards, alive or not; other files, other keys and links are nothing."""
    folder = tmp_path / f"dev/shm/metrana-{os.geteuid()}"
    run_folder = folder / "0123456789abcdef"
    run_folder.mkdir(parents=True)
    host = os.uname().nodename

    def write(name: str, **owner: object) -> None:
        (run_folder / name).write_text(json.dumps(owner).ljust(512) + json.dumps({"cpu": [1.0]}))

    write("node", pid=41, child=42, rank=0, host=host)
    write("gpu-GPU-1\x1b", pid=51, child=52, rank=1, host=host)
    write("gpu-GPU-2", pid=61, child=62, rank=None, host="elsewhere")
    write("gpu-GPU-3", released=12.0)
    write("gpu-GPU-4", pid="x", child=[], rank={}, host=host)
    write("label-0", pid=41, child=42, rank=0, host=host)
    (run_folder / "present").touch()
    (run_folder / "gpu-garbage").write_bytes(b"\xff\0[" * 2000)
    (run_folder / "gpu-link").symlink_to(run_folder / "node")
    os.mkfifo(run_folder / "gpu-fifo")
    (run_folder / "gpu-folder").mkdir()
    (folder / "no-run").mkdir()
    (folder / "no-run" / "node").write_text((run_folder / "node").read_text())
    (folder / ("f" * 16)).symlink_to(run_folder)
    for pid, text in ((42, "42 (metrana-sampler) S 41 1"), (52, "52 (a) b) S 1 1")):
        (tmp_path / f"proc/{pid}").mkdir(parents=True)
        (tmp_path / f"proc/{pid}/stat").write_text(text)
    before = sorted(path.stat().st_mtime_ns for path in folder.rglob("*") if not path.is_symlink())
    assert 0 == run("--json", "--root", str(tmp_path))
    common = {"run_id": "0123456789abcdef", "arbitration_mode": "shm"}
    assert [
        {**common, "file": "gpu-GPU-1\x1b", "host": host, "pid": 51, "rank": 1, "alive": False},
        {**common, "file": "gpu-GPU-2", "host": "elsewhere", "pid": 61, "rank": None, "alive": None},
        {**common, "file": "node", "host": host, "pid": 41, "rank": 0, "alive": True},
    ] == json.loads(capsys.readouterr().out)["claims"]
    assert 0 == run("--root", str(tmp_path))
    assert capsys.readouterr().out.endswith(
        "claims  run 0123456789abcdef, through shm:\n"
        "          gpu-GPU-1\\x1b  rank 1   pid 51  gone\n"
        "          gpu-GPU-2      no rank  pid 61  on elsewhere\n"
        "          node           rank 0   pid 41  alive\n"
    )
    assert before == sorted(path.stat().st_mtime_ns for path in folder.rglob("*") if not path.is_symlink())


def test_claims_of_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where no run is open there are none."""
    assert 0 == run("--root", str(tmp_path))
    assert "claims  none: no run of this user reports anything here\n" in capsys.readouterr().out
    assert 0 == run("--json", "--root", str(tmp_path))
    assert [] == json.loads(capsys.readouterr().out)["claims"]
