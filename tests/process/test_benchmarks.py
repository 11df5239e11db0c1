"""The benchmarks can be run: a thin slice of them, without the peers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.peers.compare import Table
from benchmarks.peers.rows import GROUPS, Group, Row
from benchmarks.peers.table import NOISE, format_lost, format_table
from benchmarks.peers.tools import TOOLS
from tests.scripts import DEADLINE_SECS

PATIENCE_SECS = 3 * DEADLINE_SECS  # a dozen interpreters, one after the other
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.once
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the benchmarks read Linux's procfs")
@pytest.mark.timeout(2 * PATIENCE_SECS)
def test_a_quick_run_prints_the_table(tmp_path: Path) -> None:
    """Every row of every group has a figure, with the machine and the version below, on stdout and in the file."""
    command = [sys.executable, "-m", "benchmarks", "--quick", "--peers", "--markdown", str(tmp_path / "table.md")]
    environ = {**os.environ, "PYTHONWARNINGS": "error"}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=PATIENCE_SECS)
    assert 0 == done.returncode, done.stderr
    lines = done.stdout.splitlines()
    rows = [row for group in GROUPS for row in group.rows]
    assert [row.title for row in rows] == [line.split(" | ")[0].strip("| ") for line in lines[2 : 2 + len(rows)]]
    for line in lines[2 : 2 + len(rows)]:
        cell = line.split(" | ")[1].strip("*")
        # A cost that's next to nothing may come out a little below it.
        assert cell == NOISE or cell.lstrip("-")[0] in "0123456789", line
    assert any(line.startswith("- Machine: ") for line in lines)
    assert any(line.startswith("- Versions: metrana ") for line in lines)
    assert done.stdout.strip() == (tmp_path / "table.md").read_text().strip()


ROWS = (Row("secs", "time", "s"), Row("kept", "kept", "%", is_less_better=False, has_ratio=False, tolerance=1.0))
GROUP = Group("group", 3, 1.0, ROWS)


def make_table(*cells: float | str) -> Table:
    """A table of two tools: their times, then what they kept."""
    places = [(row.key, tool.name) for row in ROWS for tool in TOOLS[:2]]
    return Table(TOOLS[:2], (GROUP,), dict(zip(places, cells, strict=True)), {"group": 3}, ())


def test_a_cell_tells_the_multiple_of_metranas_figure() -> None:
    """The best figure of a row is bold, and a peer's is told as a multiple of metrana's."""
    table = make_table(2.0, 5.0, 99.5, 100.0)
    assert "| time | **2 s** | 5 s (2.50×) | 3 |" == format_table(table)[2]
    assert [] == format_lost(table)


def test_a_figure_within_the_tolerance_is_as_good() -> None:
    """Both of two figures nearer to each other than two runs are to each other are the best."""
    assert "| kept | **99.5 %** | **100 %** | 3 |" == format_table(make_table(2.0, 5.0, 99.5, 100.0))[3]


def test_a_row_that_is_lost_is_named() -> None:
    """A row in which a peer is better is listed, and so is one that metrana failed."""
    assert ["not the best: time", "not the best: kept"] == format_lost(make_table(2.0, 1.0, "failed: x", 50.0))


def test_a_missing_figure_is_its_reason() -> None:
    """A cell without a figure says why, and the others stay."""
    table = make_table(2.0, "can't be installed: no such package", 100.0, 1.0)
    assert "| time | 2 s | can't be installed: no such package | 3 |" == format_table(table)[2]


def test_a_cost_of_less_than_nothing_makes_its_row_noise() -> None:
    """Nobody is the best of it, and nobody lost."""
    table = make_table(2.0, -5.0, 99.5, 100.0)
    assert "| time | lost in the noise | lost in the noise | 3 |" == format_table(table)[2]
    assert [] == format_lost(table)
