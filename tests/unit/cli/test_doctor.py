from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from metrana.cli import doctor
from metrana.errors import MetranaError
from tests.unit.system.played import CASES, DATA


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    doctor.add_arguments(parser)
    return doctor.run(parser.parse_args(words))


# Cases whose failures are injected into a Host can't be told to a command.
@pytest.mark.parametrize("name", [name for name in CASES if name != "v2-vanishing-enodev"])
def test_json_of_a_played_machine(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The JSON tells the cgroup version, the memory limit with its level and usage, and the CPU limit."""
    folder = DATA / "cgroup" / name
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
    assert 0 == run("--root", str(DATA / "cgroup" / "v2-middle-ancestor-tightest"))
    text = capsys.readouterr().out
    assert "cgroup  v2\n" in text
    assert "800 MiB used of 1 GiB, the tightest limit: /sys/fs/cgroup/a/b/c\n" in text
    assert "/sys/fs/cgroup/a/b/c/d/e  2 GiB\n" in text
    assert "/sys/fs/cgroup/a/b        no limit\n" in text
    assert "2 cores of the host's 16: quota at /sys/fs/cgroup/a/b\n" in text


@pytest.mark.parametrize("name", CASES)
def test_text_of_a_played_machine(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every machine has a text."""
    assert 0 == run("--root", str(DATA / "cgroup" / name))
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
