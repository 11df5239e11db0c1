"""The one line that init() prints to a terminal: a real one, at which a script's standard error is."""

from __future__ import annotations

import os
import pty
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.scripts import DEADLINE_SECS, Script

TRAIN = "import metrana\nmetrana.init(run_name='pretrain', capture_system_metrics=False)\nmetrana.log('loss', 0.5)\n"


def run_at_terminal(script: Script, *command: str, environ: Mapping[str, str | None] | None = None) -> list[str]:
    """Run a script at a terminal of its own; what it says there, line by line."""
    ours, theirs = pty.openpty()
    try:
        given = script.environment({name: value for name, value in (environ or {}).items() if value is not None})
        given = {name: value for name, value in given.items() if (environ or {}).get(name, "") is not None}
        done = subprocess.run(
            command or (sys.executable, str(script.path)),
            cwd=script.folder,
            env=given,
            stdin=subprocess.DEVNULL,
            stderr=theirs,
            timeout=DEADLINE_SECS,
        )
        assert 0 == done.returncode
        os.set_blocking(ours, False)
        try:
            return os.read(ours, 65536).decode().splitlines()
        except BlockingIOError:
            return []
    finally:
        os.close(ours)
        os.close(theirs)


def test_at_a_terminal_one_line_says_where_the_run_is_and_how_to_look_at_it(tmp_path: Path) -> None:
    """The folder is there as it's printed, and the command finds the run."""
    script = Script(tmp_path, TRAIN)
    (line,) = run_at_terminal(script, environ={"METRANA_DIR": None})
    said, look = line.split("; look: ")
    assert "metrana: run pretrain is kept in ./.metrana" == said
    assert (tmp_path / said.rpartition(" ")[2] / "default").is_dir()
    words = shlex.split(look)
    assert "ui" == words.pop()
    done = subprocess.run(
        [*words, "runs"], cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE_SECS, check=True
    )
    assert "pretrain" in done.stdout


def test_the_command_names_a_folder_that_is_not_the_default(tmp_path: Path) -> None:
    """A shell takes it as it's printed, whatever the folder's called."""
    script = Script(tmp_path, TRAIN.replace("run_name='pretrain'", "run_name='a\\x1bb', dir='my store'"))
    (line,) = run_at_terminal(script)
    said, look = line.split("; look: ")
    assert "metrana: run a\\x1bb is kept in ./my store" == said
    assert ["ui", "--dir", "./my store"] == shlex.split(look)[-3:]


@pytest.mark.parametrize("prefix", ["run_name='pretrain', quiet=True", "run_name='pretrain'"])
def test_quiet_prints_nothing(tmp_path: Path, prefix: str) -> None:
    """As an argument and as a variable."""
    script = Script(tmp_path, TRAIN.replace("run_name='pretrain'", prefix))
    environ = {} if "quiet" in prefix else {"METRANA_QUIET": "1"}
    assert [] == run_at_terminal(script, environ=environ)


def test_without_a_terminal_nothing_is_printed(tmp_path: Path) -> None:
    """A pipe or a file gets no line."""
    Script(tmp_path, TRAIN).run(stderr="")


def test_one_process_of_a_launch_prints(tmp_path: Path) -> None:
    """The first rank does, whoever is there before it; the others don't."""
    script = Script(tmp_path, TRAIN)
    counts = [
        len(run_at_terminal(script, environ={"RANK": rank, "WORLD_SIZE": "3", "METRANA_ORCHESTRATION_ID": "job"}))
        for rank in ("1", "0", "2")
    ]
    assert [0, 1, 0] == counts


def test_who_joins_a_run_prints_nothing(tmp_path: Path) -> None:
    """A second init(), a forked worker and a process that the training starts join the run that's open."""
    code = (
        TRAIN
        + """
import os, subprocess, sys, warnings
warnings.simplefilter('ignore', DeprecationWarning)  # Python's own word on forks beside threads
metrana.init(run_name='pretrain', capture_system_metrics=False)
if os.fork() == 0:
    metrana.init(run_name='pretrain', capture_system_metrics=False)
    metrana.close()
    metrana.init(run_name='other', capture_system_metrics=False)
    metrana.close()
    os._exit(0)
os.wait()
if len(sys.argv) == 1:
    subprocess.run([sys.executable, __file__, 'again'], check=True)
"""
    )
    assert 1 == len(run_at_terminal(Script(tmp_path, code)))


@pytest.mark.parametrize("before", ["sys.stderr.close()", "sys.stderr = None", "os.close(2)", "sys.stderr = object()"])
def test_a_standard_error_that_is_gone_costs_nothing(tmp_path: Path, before: str) -> None:
    """init() goes on in silence."""
    script = Script(tmp_path, f"import os, sys\n{before}\n{TRAIN}metrana.close()\nos._exit(0)\n")
    assert [] == run_at_terminal(script)
    assert "closed" == script.infos()[0].status
