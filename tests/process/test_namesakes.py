"""Folders and files beside the user's script that are called metrana, too."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import metrana
from tests.process.test_launch import BODY, PACKAGES, check
from tests.scripts import Script

# An install is a folder of the path, for an editable one the checkout's, which a line in a .pth file adds.
INSTALLED = {"PYTHONPATH": PACKAGES}


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """A training beside a checkout that was cloned as ``metrana``, and is no package."""
    checkout = tmp_path / "metrana"
    checkout.mkdir()
    (checkout / "setup.cfg").touch()
    (checkout / "metrana").symlink_to(Path(PACKAGES) / "metrana")
    return Script(tmp_path, BODY + "train()\nprint(metrana.__file__)\n")


def test_a_checkout_beside_the_script_hides_nothing(script: Script) -> None:
    """The training, its sampling child and the command line are those that are installed."""
    out = script.run(environ=INSTALLED)
    check(script, out)
    assert metrana.__file__ == out.splitlines()[-1]
    assert script.infos()[0].id in script.run(sys.executable, "-m", "metrana", "runs", environ=INSTALLED)


def test_the_command_looks_for_nothing_in_the_working_folder(script: Script) -> None:
    """A metrana.py of the user's own hides metrana from the scripts beside it, and not from the command."""
    installed = Path(sys.executable).with_name("metrana")
    if not installed.exists():
        pytest.skip("metrana isn't installed beside this interpreter")
    script.run(environ=INSTALLED)
    (script.folder / "metrana.py").write_text("raise SystemExit('not this one')\n")
    assert script.infos()[0].id in script.run(str(installed), "runs", environ=INSTALLED)
