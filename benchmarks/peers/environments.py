"""An environment for each tool, made once in a cache folder and used again."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.peers.fresh import FailedError
from benchmarks.peers.tools import Tool

DEADLINE_SECS = 900.0
READY = "installed.txt"


def make_environment(tool: Tool, cache: Path) -> str:
    """The interpreter that has the tool. Raises FailedError where it can't be installed."""
    if not tool.requirements:
        return sys.executable
    folder = cache / f"{tool.name}-{sys.version_info[0]}.{sys.version_info[1]}"
    python, ready = str(folder / "bin" / "python"), folder / READY
    wanted = "\n".join(tool.requirements)
    if ready.is_file() and ready.read_text() == wanted:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    print(f"making an environment for {tool.title} in {folder}", file=sys.stderr, flush=True)
    run_step([sys.executable, "-m", "venv", str(folder)])
    run_step([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *tool.requirements])
    ready.write_text(wanted)
    return python


def run_step(command: list[str]) -> None:
    """Run a command to its end. Raises FailedError."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_SECS)
    except subprocess.TimeoutExpired:
        raise FailedError(f"not installed within {DEADLINE_SECS:.0f} s") from None
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        raise FailedError(f"can't be installed: {(errors or ['no reason given'])[-1][:120]}")


def read_version(tool: Tool, python: str) -> str:
    """The version of the tool in that environment."""
    package = tool.requirements[0] if tool.requirements else "metrana" if tool.name == "metrana" else "psutil"
    code = f"import importlib.metadata; print(importlib.metadata.version({package!r}))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=60)
    return f"{package} {done.stdout.strip() or 'of unknown version'}"
