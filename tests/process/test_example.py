"""The script that sets the example up, around an environment that's there already and installs nothing."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.scripts import DEADLINE_SECS, Script

ROOT = Path(__file__).resolve().parents[2]
PYTHON = """#!/bin/sh
echo "python $*"
mkdir -p "${METRANA_DIR:-.metrana}"
"""


@pytest.fixture(params=["checkout", "a folder, it's mine"])
def checkout(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The scripts of the checkout, with an interpreter that says what it's given."""
    folder = tmp_path / request.param
    for name in ("examples/run.sh", "tests/setup.sh", "docs/tutorial.md"):
        (folder / name).parent.mkdir(parents=True)
        shutil.copy(ROOT / name, folder / name)
    (folder / ".venv" / "bin").mkdir(parents=True)
    for name in ("pip", "python", "metrana"):
        (folder / ".venv" / "bin" / name).write_text(PYTHON)
        (folder / ".venv" / "bin" / name).chmod(0o755)
    return folder


def run_script(checkout: Path, where: Path, **environ: str) -> list[str]:
    """What the script says, called by its path from a folder."""
    given = Script(checkout, "", "unused.py").environment()
    del given["METRANA_DIR"]
    done = subprocess.run(
        ["sh", os.path.relpath(checkout / "examples" / "run.sh", where)],
        cwd=where,
        env={**given, **environ},
        stdout=subprocess.PIPE,
        text=True,
        timeout=DEADLINE_SECS,
        check=True,
    )
    return done.stdout.splitlines()


def test_each_step_is_told_before_it_is_taken(checkout: Path) -> None:
    """The first line comes before anything slow, and each step's line before what it does."""
    lines = run_script(checkout, checkout)
    assert [
        "1 of 4",
        "2 of 4",
        "python -m pip install --editable .[system,ui]",
        "3 of 4",
        "python -m pip install scikit-learn",
        "4 of 4",
        "python examples/digits.py",
    ] == [
        line.partition(":")[0].replace(" --quiet --disable-pip-version-check", "")
        for line in lines[: lines.index("What next:")]
        if line
    ]


@pytest.mark.parametrize("where", [".", "..", "docs", "/"])
def test_what_it_says_to_do_next_can_be_typed_where_it_was_called(checkout: Path, where: str) -> None:
    """Whatever the checkout is called: the commands and the tutorial are there, and the store is the one it wrote."""
    folder = (checkout / where).resolve()
    lines = run_script(checkout, folder)
    page, show, (tutorial,) = [shlex.split(line) for line in lines[lines.index("What next:") + 1 :: 2]]
    assert os.access(folder / page[0], os.X_OK)
    assert [page[0], "ui", *page[2:]] == page
    assert [page[0], "show", "digits", *page[2:]] == show
    assert (checkout / "docs" / "tutorial.md").samefile(folder / tutorial)
    store = folder / page[3] if page[2:] else folder / ".metrana"
    assert (checkout / ".metrana").samefile(store)


def test_a_store_of_ones_own_is_where_it_was_named(checkout: Path) -> None:
    """METRANA_DIR means the folder it means in the caller's shell, so the commands need no name of it."""
    lines = run_script(checkout, checkout.parent, METRANA_DIR="mine")
    assert (checkout.parent / "mine").is_dir()
    assert "ui" == shlex.split(lines[lines.index("What next:") + 1])[-1]
