from __future__ import annotations

import json
from pathlib import Path

import pytest

from metrana.cli import main
from metrana.cli.listing import list_runs
from metrana.cli.text import count_columns
from metrana.store.catalog import find_runs
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
    assert 0 == main(["runs", "--dir", str(tmp_path)])
    out = capsys.readouterr().out
    assert 1 == len(out.splitlines())
    assert str(tmp_path) in out


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


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120, 200])
def test_a_run_is_one_line_in_a_terminal_of_any_width(tmp_path: Path, width: int) -> None:
    """Long names, wide characters, odd times: no line is wider, and each run is told by its id and name."""
    names = ["a", "pretrain-" + "x" * 90, "訓練" * 40, "b\n\x1b[31m"]
    for number, name in enumerate(names):
        times = (1e300 if number == 3 else T0, T0)
        lines = [head(name, times[0], id=f"0123456789abcde{number}", project="p" * 50), end(times[1], "failed")]
        put(tmp_path, *lines, run=f"r{number}", id=f"0123456789abcde{number}")
    lines_shown = list_runs(find_runs(str(tmp_path)), width)
    assert 5 == len(lines_shown)
    assert all(count_columns(line) <= width for line in lines_shown)
    if width >= 40:
        assert 4 == len({line.split()[0] for line in lines_shown[1:]})


def test_a_short_id_in_the_table_names_its_run(tmp_path: Path, capsys: Capture) -> None:
    """What's printed in a narrow terminal is enough for the other commands."""
    for number in range(3):
        put(tmp_path, head(f"r{number}", id=f"{number}123456789abcdef"), end(T0), run=f"r{number}", id=f"{number}")
    for line in list_runs(find_runs(str(tmp_path)), 60)[1:]:
        short, name = line.split()[:2]
        assert 8 == len(short)
        assert 0 == main(["show", short, "--dir", str(tmp_path)])
        assert name == capsys.readouterr().out.splitlines()[0]


def test_runs_are_narrowed_down(capsys: Capture) -> None:
    """By name or pattern, project, status and number; what isn't there is told with what's near."""
    for words, expected in (
        (["t*"], ["torn-lines", "two-writers"]),
        (["llm/two-writers"], ["two-writers"]),
        (["--project", "l?m", "--limit", "2"], ["garbage", "killed"]),
        (["--status", "closed", "--limit", "1"], ["rotated"]),
        (["two-writers-id"], ["two-writers"]),
    ):
        assert 0 == main(["runs", *words, "--dir", str(GOLDEN)])
        assert expected == sorted(line.split()[1] for line in capsys.readouterr().out.splitlines()[1:])
    assert 0 == main(["runs", "two-writer", "--dir", str(GOLDEN)])
    assert "'two-writers'" in capsys.readouterr().out
    for words in (["--limit", "0"], ["--status", "nope"]):
        assert 2 == main(["runs", *words, "--dir", str(GOLDEN)])
        assert 1 == len(capsys.readouterr().err.splitlines())


@pytest.mark.parametrize("words", [["runs"], ["show", "x"], ["show"], ["export", "x"], ["ui"], ["doctor"]])
def test_a_folder_that_is_not_there_is_an_error_in_every_command(
    words: list[str], tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line and status 2, whether --dir or METRANA_DIR names it."""
    missing = str(tmp_path / "none")
    assert 2 == main([*words, "--dir", missing])
    out, err = capsys.readouterr()
    assert ("", 1) == (out, len(err.splitlines()))
    assert f"{missing}, which --dir names, isn't there" in err
    if words != ["doctor"]:  # which reads no store
        monkeypatch.setenv("METRANA_DIR", missing)
        assert 2 == main(words)
        assert f"{missing}, which METRANA_DIR names, isn't there" in capsys.readouterr().err


def test_the_default_folder_need_not_be_there(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first run there's a hint, and no error but for who asks for a run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("METRANA_DIR", raising=False)
    assert 0 == main(["runs"])
    assert "metrana.init() makes it" in capsys.readouterr().out
    assert 0 == main(["runs", "--json"])
    assert [] == json.loads(capsys.readouterr().out)
    assert 2 == main(["show"])
    assert "no such folder" in capsys.readouterr().err


def test_the_newest_run_is_shown_where_none_is_named(capsys: Capture) -> None:
    """Without a word, or with a dash in front of names; the first word is else always the run's."""
    assert 0 == main(["show", "--dir", str(GOLDEN)])
    assert "garbage" == capsys.readouterr().out.splitlines()[0]
    assert 0 == main(["export", "-", "lo*", "--dir", str(GOLDEN)])
    assert "loss" in capsys.readouterr().out
    assert 2 == main(["show", "lo*", "--dir", str(GOLDEN)])
    assert "'metrana show - lo*'" in capsys.readouterr().err
