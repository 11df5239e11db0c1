from __future__ import annotations

import json
from pathlib import Path

import pytest

from metrana.cli import main
from tests.unit.store.build import GOLDEN, T0, end, head, put

Capture = pytest.CaptureFixture[str]


def test_runs_stand_in_a_table_newest_first(capsys: Capture) -> None:
    """One line per run with what identifies it."""
    assert 0 == main(["runs", "--dir", str(GOLDEN)])
    header, *rows = capsys.readouterr().out.splitlines()
    assert ["ID", "NAME", "PROJECT", "STATUS", "STARTED", "DURATION", "PROCESSES"] == header.split()
    assert ["garbage", "killed", "rotated", "not-finite", "torn-lines", "two-writers"] == [r.split()[1] for r in rows]
    assert "acme/research/llm  closed " in rows[-1]
    assert rows[-1].endswith("41s       2")


def test_the_default_organization_and_workspace_are_left_out(tmp_path: Path, capsys: Capture) -> None:
    """Who never named them doesn't read about them."""
    put(tmp_path, head(project="llm"), end(T0))
    main(["runs", "--dir", str(tmp_path)])
    assert " llm " in capsys.readouterr().out


def test_an_empty_store_says_where_it_looked(tmp_path: Path, capsys: Capture) -> None:
    """No runs is an answer, not an error."""
    assert 0 == main(["runs", "--dir", str(tmp_path / "none")])
    out = capsys.readouterr().out
    assert 1 == len(out.splitlines())
    assert str(tmp_path / "none") in out


def test_json_carries_the_whole_identity(capsys: Capture) -> None:
    """Programs get numbers and every name."""
    assert 0 == main(["runs", "--json", "--dir", str(GOLDEN)])
    run = json.loads(capsys.readouterr().out)[-1]
    assert ("acme", "research", "llm", "two-writers", "two-writers-id", "slurm:77:0", "closed", T0, T0 + 41) == (
        run["organization"],
        run["workspace_name"],
        run["project_name"],
        run["run_name"],
        run["id"],
        run["orchestration_id"],
        run["status"],
        run["started"],
        run["last"],
    )
    assert [4242, 17] == [writer["pid"] for writer in run["writers"]]


def test_json_of_an_empty_store_is_an_empty_list(tmp_path: Path, capsys: Capture) -> None:
    """A program needs no special case."""
    assert 0 == main(["runs", "--json", "--dir", str(tmp_path)])
    assert [] == json.loads(capsys.readouterr().out)


def test_names_cannot_steer_the_terminal(tmp_path: Path, capsys: Capture) -> None:
    """Control characters are shown, not sent."""
    put(tmp_path, head("red\x1b[31m\n\u202e", 1e300))
    assert 0 == main(["runs", "--dir", str(tmp_path)])
    out = capsys.readouterr().out
    assert 2 == len(out.splitlines())
    assert "\x1b" not in out
    assert r"red\x1b[31m\n\u202e" in out


def test_runs_of_a_later_format_are_told_once(tmp_path: Path, capsys: Capture) -> None:
    """They're listed, and stderr says what to do."""
    for number in range(5):
        newer = head(f"r{number}").replace(b'"v": 1', b'"v": 2')
        put(tmp_path, newer, end(T0), run=f"r{number}")
    assert 0 == main(["runs", "--dir", str(tmp_path)])
    out, err = capsys.readouterr()
    assert 6 == len(out.splitlines())
    assert 1 == len(err.splitlines())
    assert "5 of the runs (r4, r3, r2, …): written by a newer metrana (format 2, this one reads 1)" in err


def test_very_many_unreadable_paths_do_not_fill_the_screen(tmp_path: Path, capsys: Capture) -> None:
    """Some are named, the others counted."""
    for number in range(30):
        segment = put(tmp_path, head(f"r{number}"), run=f"r{number}")
        segment.unlink()
        segment.mkdir()
    assert 0 == main(["runs", "--dir", str(tmp_path)])
    err = capsys.readouterr().err.splitlines()
    assert (21, "metrana: and 10 more of that kind") == (len(err), err[-1])
