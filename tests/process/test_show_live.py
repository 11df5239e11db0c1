"""``metrana show --live`` beside a training that runs."""

from __future__ import annotations

import os
import platform
import pty
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from metrana.cli import live
from metrana.procstat import read_start_ticks
from metrana.store.catalog import find_run
from tests.scripts import DEADLINE_SECS, Script, wait_until
from tests.unit.store.build import T0, declare, head, points, put

for name in ("plotext", "numpy", "rich"):
    pytest.importorskip(name, reason=f"{name} isn't installed")

TRAINING = """
    import sys
    import metrana
    run = metrana.init(run_name="train", capture_system_metrics=False)
    for step in range(50):
        metrana.log("loss", 1.0 / (step + 1), timestamp=1767225600.0 + step)
    metrana.flush()
    sys.stdin.readline()
    metrana.log("accuracy", 0.9)
    metrana.close()
"""


@contextmanager
def start_training(script: Script) -> Iterator[subprocess.Popen[str]]:
    """A training that has logged and goes on when it's told to."""
    with script.start(stdin=subprocess.PIPE, stdout=None, stderr=None) as process:
        try:
            wait_until(lambda: any(path.stat().st_size > 500 for path in script.store.rglob("*.jsonl")), "the points")
            yield process
        finally:
            process.kill()


def finish(training: subprocess.Popen[str]) -> None:
    assert training.stdin is not None
    training.stdin.write("\n")
    training.stdin.flush()
    assert 0 == training.wait(DEADLINE_SECS)


def start_show(script: Script, stdout: int = subprocess.PIPE, **environ: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "metrana", "show", "train", "--live"]
    return subprocess.Popen(
        command, cwd=script.folder, env=script.environment(environ), stdout=stdout, stderr=subprocess.PIPE
    )


def test_it_ends_with_the_run(tmp_path: Path) -> None:
    """Where nobody looks at a terminal, the page comes once, when all is there."""
    script = Script(tmp_path, TRAINING)
    with start_training(script) as training, start_show(script) as show:
        try:
            finish(training)
            out, err = show.communicate(timeout=DEADLINE_SECS)
        finally:
            show.kill()
    assert (0, b"") == (show.returncode, err)
    text = out.decode()
    assert 1 == text.count("status     closed")
    assert "accuracy  last 0.9" in text


def test_it_ends_when_the_run_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing will be written there any more; what was read is shown."""
    me = {"host": platform.node(), "pid": os.getpid(), "pid_start": read_start_ticks(os.getpid())}
    path = put(tmp_path / "store", head(**me), declare(1, "loss"), points(T0, 0, {1: 0.5}))
    info = find_run(str(tmp_path / "store"), "train")
    assert "running" == info.status
    monkeypatch.setattr(live.time, "sleep", lambda secs: shutil.rmtree(path.parent.parent))
    live.follow(info, ())
    assert "loss  last 0.5" in capsys.readouterr().out


def test_a_terminal_sees_it_drawn_until_ctrl_c(tmp_path: Path) -> None:
    """Charts while the run goes on; Ctrl-C leaves the whole page behind and is no error."""
    script = Script(tmp_path, TRAINING)
    ours, theirs = pty.openpty()
    seen = bytearray()

    def read_on() -> bool:
        while select.select([ours], [], [], 0)[0]:
            try:
                seen.extend(os.read(ours, 65536))
            except OSError:  # the other end is closed
                return True
        return False

    with (
        start_training(script) as training,
        start_show(script, theirs, TERM="xterm-256color", COLUMNS="100", LINES="60") as show,
    ):
        try:
            os.close(theirs)
            wait_until(lambda: read_on() or b"status     running" in seen, "the first drawing")
            wait_until(lambda: read_on() or "┤".encode() in seen, "a chart")
            drawn = len(seen)
            wait_until(lambda: read_on() or len(seen) > drawn, "the next drawing")
            show.send_signal(signal.SIGINT)
            wait_until(lambda: (read_on(), show.poll() is not None)[1], "its end")
            read_on()
            assert (0, b"") == (show.returncode, show.stderr.read() if show.stderr else None)
            assert b"\x1b[?1049h" in seen  # a screen of its own, so that the terminal is as before afterwards
            assert b"status     running" in seen[seen.rindex(b"\x1b[?1049l") :]
        finally:
            show.kill()
            os.close(ours)
            finish(training)


def test_a_run_that_has_ended_is_shown_once(tmp_path: Path) -> None:
    """There's nothing to follow."""
    script = Script(tmp_path, TRAINING)
    with start_training(script) as training:
        finish(training)
    text = script.run(sys.executable, "-m", "metrana", "show", "train", "--live")
    assert 1 == text.count("status     closed")
