"""Fresh interpreters for measurements, each with a deadline; whatever a tool leaves behind is ended."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.peers.child import parse_figures
from benchmarks.peers.processes import TOKEN, find_processes
from benchmarks.peers.tools import FOREIGN, Tool

ROOT = Path(__file__).resolve().parents[2]
# At the end of the path: an installed metrana goes before the checkout's.
BOOT = "import sys; sys.path.append({root!r}); from benchmarks.peers.child import main; main()"


class FailedError(Exception):
    """A measurement that came to nothing; says why in a few words."""


def command_of(python: str, *arguments: str) -> list[str]:
    """The command of a measurement with that interpreter."""
    return [python, "-c", BOOT.format(root=str(ROOT)), *arguments]


def environ_of(tool: Tool, store: Path, home: Path, token: str) -> dict[str, str]:
    """The tool's environment: none of the user's own settings, and a home that's thrown away."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    own = {"HOME": str(home), "TMPDIR": str(home), "TRACKIO_DIR": str(store), TOKEN: token}
    return {**kept, **dict(tool.environ), **own}


def measure_fresh(tool: Tool, python: str, group: str, folder: Path, size: float, deadline_secs: float) -> Any:
    """The figures of one measurement. Raises FailedError."""
    token = secrets.token_hex(8)
    store, home = folder / "data", folder / "home"
    store.mkdir()
    home.mkdir()
    out, err = folder / "out", folder / "err"
    # Files, not pipes: a tool's own processes hold these too, and may outlive the one that's waited for.
    with open(out, "wb") as out_file, open(err, "wb") as err_file:
        process = subprocess.Popen(
            command_of(python, group, tool.name, str(store), str(size)),
            cwd=home,
            env=environ_of(tool, store, home, token),
            stdin=subprocess.DEVNULL,
            stdout=out_file,
            stderr=err_file,
        )
    try:
        process.wait(deadline_secs)
    except subprocess.TimeoutExpired:
        raise FailedError(f"no answer within {deadline_secs:.0f} s") from None
    finally:
        process.kill()
        process.wait()
        end_processes(token)
    if process.returncode != 0:
        said = err.read_text(errors="replace").strip().splitlines() or [f"exit status {process.returncode}"]
        raise FailedError(f"failed: {said[-1][:120]}")
    try:
        return parse_figures(out.read_text(errors="replace"))
    except ValueError as error:
        raise FailedError(f"failed: {error}") from None


def end_processes(token: str) -> None:
    """End what a measurement left running."""
    for pid in find_processes(token):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
