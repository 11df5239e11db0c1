"""What ``metrana ui`` says before it serves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

WITHOUT_BOKEH = """
import sys
sys.modules["bokeh"] = None
from metrana.cli import main
sys.exit(main(["ui", *sys.argv[1:]]))
"""


def test_without_bokeh_one_line_names_it(tmp_path: Path) -> None:
    """Where Bokeh isn't installed, one line says which pip command brings it, and nothing is served."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_BOKEH, str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert (2, "") == (done.returncode, done.stdout)
    assert "metrana: the page needs Bokeh, which isn't installed: pip install bokeh\n" == done.stderr
