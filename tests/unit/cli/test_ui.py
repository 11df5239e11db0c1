"""What ``metrana ui`` says before it serves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.scripts import DEADLINE_SECS

WITHOUT_PACKAGES = """
import sys
sys.modules["bokeh"] = sys.modules["tornado"] = sys.modules["numpy"] = None
from metrana.cli import main
sys.exit(main(["ui", *sys.argv[1:]]))
"""


def test_without_its_packages_one_line_names_them(tmp_path: Path) -> None:
    """Where what draws it isn't installed, one line says which pip command brings it, and nothing is served."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PACKAGES, str(tmp_path)], capture_output=True, text=True, timeout=DEADLINE_SECS
    )
    assert (2, "") == (done.returncode, done.stdout)
    missing = "the page needs Bokeh, Tornado and NumPy, which aren't installed: pip install bokeh tornado numpy"
    assert f"metrana: {missing}\n" == done.stderr
