from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from metrana.cli import COMMANDS, load_command, main
from tests.scripts import DEADLINE_SECS
from tests.unit.store.build import GOLDEN, declare, head, points, put

Capture = pytest.CaptureFixture[str]


def run_process(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "metrana", *words]
    environment = {**os.environ, **environ}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=DEADLINE_SECS, check=False)


def test_help_lists_every_command(capsys: Capture) -> None:
    """Each command stands in the help with what it does."""
    assert 0 == main(["--help"])
    text = capsys.readouterr().out
    for name in COMMANDS:
        command = load_command(name)
        assert name == command.NAME
        assert name in text
        assert command.HELP.split()[0] in text


def test_no_command_shows_the_help(capsys: Capture) -> None:
    """A bare ``metrana`` says what there is."""
    assert 0 == main([])
    assert "runs" in capsys.readouterr().out


def test_version_stands_before_and_after_a_command(capsys: Capture) -> None:
    """One line with the name."""
    assert 0 == main(["--version"])
    assert 0 == main(["runs", "--version"])
    lines = capsys.readouterr().out.splitlines()
    assert 2 == len(lines)
    assert lines[0] == lines[1]
    assert lines[0].startswith("metrana ")


@pytest.mark.parametrize("words", [["--dir", "DIR", "runs"], ["runs", "--dir", "DIR"], ["runs", "--dir=DIR"]])
def test_dir_stands_anywhere(words: list[str], tmp_path: Path, capsys: Capture) -> None:
    """The store's folder may be given before and after the command."""
    (tmp_path / "here").mkdir()
    assert 0 == main([word.replace("DIR", str(tmp_path / "here")) for word in words])
    assert str(tmp_path / "here") in capsys.readouterr().out


def test_dir_stands_between_a_run_and_its_series(capsys: Capture) -> None:
    """An option in the middle doesn't end the arguments."""
    assert 0 == main(["show", "rotated", "--dir", str(GOLDEN), "lr"])
    assert "lr  last 0.2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["show", "nope"], "'nope'"),
        (["shwo"], "'shwo'"),
        (["runs", "--nope"], "--nope"),
        (["--dir"], "--dir"),
        (["show", "a\x1b[31m\nb"], r"a\x1b[31m\nb"),
        (["export", "rotated", "--format", "xls"], "'xls'"),
        (["export", "rotated", "--label", "gpu"], "'gpu'"),
        (["export", "rotated", "--since", "soon"], "'soon'"),
        (["export", "rotated", "los"], "'los'"),
        (["export", "rotated", "--label", "gpu=9"], "gpu=9"),
    ],
)
def test_an_error_is_one_line(words: list[str], told: str, capsys: Capture) -> None:
    """Whatever is wrong with a command line is told in one line on stderr, with status 2."""
    where = [] if words == ["--dir"] else ["--dir", str(GOLDEN)]
    assert 2 == main([*where, *words])
    out, err = capsys.readouterr()
    assert "" == out
    assert 1 == len(err.splitlines())
    assert err.startswith("metrana: ")
    assert told in err


def test_the_module_runs_as_a_program() -> None:
    """``python -m metrana`` is the command line, and METRANA_DIR its store."""
    done = run_process("runs", METRANA_DIR=str(GOLDEN))
    assert (0, "") == (done.returncode, done.stderr)
    assert "two-writers" in done.stdout
    failed = run_process("show", "nope", METRANA_DIR=str(GOLDEN))
    assert (2, "") == (failed.returncode, failed.stdout)
    assert 1 == len(failed.stderr.splitlines())


def test_an_output_that_knows_ascii_only_is_no_error(tmp_path: Path) -> None:
    """Charts and names fall back to characters that can be shown."""
    put(tmp_path, head("größe", id="1"), declare(1, "système/température_celsius"), points(0, 0, {1: 1.0}))
    done = run_process("--dir", str(tmp_path), "show", "1", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert (0, "") == (done.returncode, done.stderr)
    assert done.stdout.isascii()
    assert "1 C" in done.stdout


@contextmanager
def start_long_export(store: Path) -> Iterator[subprocess.Popen[bytes]]:
    """An export that has begun to write more than a pipe holds."""
    put(store, head(), declare(1, "x"), *(points(t, t, {1: 1.0}) for t in range(20_000)))
    command = [sys.executable, "-m", "metrana", "--dir", str(store), "export", "train"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert b"name,labels,step,timestamp,value\n" == process.stdout.readline()
            yield process
        finally:
            process.kill()


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    """A closed pipe, as of ``| head``, ends the command in silence."""
    with start_long_export(tmp_path) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert 141 == process.wait(DEADLINE_SECS)
        assert b"" == process.stderr.read()


def test_ctrl_c_ends_the_command_in_silence(tmp_path: Path) -> None:
    """Even where nobody reads what it was writing."""
    with start_long_export(tmp_path) as process:
        assert process.stderr is not None
        process.send_signal(signal.SIGINT)
        assert 130 == process.wait(DEADLINE_SECS)
        assert b"" == process.stderr.read()


@pytest.mark.parametrize("words", [["--since", "0s", "loss"], ["loss", "--since", "0s"]])
def test_options_stand_among_the_names(words: list[str], capsys: Capture) -> None:
    """Between the run and its series, too."""
    assert 0 == main(["export", "--dir", str(GOLDEN), "killed", *words])
    assert "loss" in capsys.readouterr().out


def test_a_mistake_points_to_the_commands_own_help(capsys: Capture) -> None:
    """Where its options are."""
    assert 2 == main(["show", "--dir", str(GOLDEN), "killed", "--lively"])
    assert "unrecognized arguments: --lively (see 'metrana show --help')" in capsys.readouterr().err


@pytest.mark.parametrize(("words", "status"), [(["runs"], 0), (["show", "killed"], 0), (["export", "killed"], 2)])
def test_a_closed_stdout_is_no_traceback(words: list[str], status: int) -> None:
    """What only prints has nobody to tell; what was to be written there is missed."""
    command = [sys.executable, "-m", "metrana", *words, "--dir", str(GOLDEN)]
    done = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", *command], stderr=subprocess.PIPE, text=True, timeout=DEADLINE_SECS
    )
    assert status == done.returncode
    assert ["metrana: stdout is closed: give --output FILE"][: bool(status)] == done.stderr.splitlines()[: bool(status)]
    assert "Traceback" not in done.stderr


def test_a_name_with_dashes_stands_after_two_dashes(capsys: Capture) -> None:
    """As in every other command line."""
    assert 2 == main(["show", "--dir", str(GOLDEN), "--", "--dir"])
    assert "no run '--dir'" in capsys.readouterr().err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
def test_a_full_disk_behind_stdout_is_one_line() -> None:
    """An output that can't be written is told like any other error."""
    command = [sys.executable, "-m", "metrana", "--dir", str(GOLDEN), "runs"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=DEADLINE_SECS, check=False
        )
    assert 2 == done.returncode
    assert 1 == len(done.stderr.splitlines())
