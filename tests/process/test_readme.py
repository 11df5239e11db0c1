"""README's own lines after README's own install: a clean environment, made from a copy of the checkout."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.test_snippets import ROOT, find_blocks, parse_console
from tests.scripts import Script, read_line

pytestmark = [pytest.mark.readme, pytest.mark.timeout(600)]

INSTALL_SECS = 500.0
ELSEWHERE = ("examples/run.sh", "tests/run.sh")  # tried by environments of their own
PACKED = ("setup.cfg", "pyproject.toml", "README.md", "LICENSE", "metrana")


def read_install() -> list[str]:
    """The lines of README that install."""
    lines = [command for block in find_blocks(ROOT / "README.md") for command, _ in parse_console(block.text)]
    first = next(number for number, line in enumerate(lines) if "venv" in line)
    return [line for line in lines[first:] if "venv" in line or line.startswith("pip ")]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of the checkout with what README's install makes in it."""
    folder = tmp_path_factory.mktemp("readme") / "metrana"
    folder.mkdir()
    for name in PACKED:
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
    lines = read_install()
    assert 4 == len(lines), lines
    probe = [*lines[:2], "pip download --quiet --no-deps --dest probe portalocker"]
    if run_shell(folder, probe).returncode != 0:
        pytest.skip("no package index can be reached")
    done = run_shell(folder, lines)
    assert 0 == done.returncode, done.stderr
    yield folder
    shutil.rmtree(folder)


def environment(folder: Path) -> dict[str, str]:
    environ = Script(folder, "", "unused.py").environment()
    del environ["METRANA_DIR"]
    environ.pop("VIRTUAL_ENV", None)
    return environ


def run_shell(folder: Path, lines: list[str]) -> subprocess.CompletedProcess[str]:
    """Lines of a shell, one after the other, in the checkout."""
    return subprocess.run(
        ["bash", "-ec", "\n".join(lines)],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=INSTALL_SECS,
    )


def test_each_line_of_the_readme_works_after_its_install(checkout: Path) -> None:
    """The Python as it's pasted into a file, the commands in order, and the page opens; beside a folder ``metrana``."""
    beside = checkout.parent  # where a folder called metrana, this checkout, stands beside the script
    activate = f". {checkout}/.venv/bin/activate"
    tried = 0
    for block in find_blocks(ROOT / "README.md"):
        if block.language == "python":
            (beside / "train.py").write_text(block.text, encoding="utf-8")
            done = run_shell(beside, [activate, "python train.py"])
            assert 0 == done.returncode, done.stderr
            tried += 1
            continue
        for command, _ in parse_console(block.text):
            if any(name in command for name in ELSEWHERE) or command in read_install():
                continue
            tried += 1
            if shlex.split(command)[:2] == ["metrana", "ui"]:
                check_page(beside, f"{activate}; exec {command}")
                continue
            done = run_shell(beside, [activate, command])
            assert 0 == done.returncode, f"{command}: {done.stderr}"
    assert 5 <= tried


def check_page(folder: Path, command: str) -> None:
    """The page's address is printed and answers."""
    script = Script(folder, "", "unused.py")
    with script.start("bash", "-c", command, environ={"METRANA_DIR": str(folder / ".metrana")}) as process:
        try:
            found = re.match(r"http://\S+", read_line(process))
            assert found is not None
            with urllib.request.urlopen(found[0], timeout=60) as answer:
                assert 200 == answer.status
        finally:
            os.kill(process.pid, signal.SIGINT)
