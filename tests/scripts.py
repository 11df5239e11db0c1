"""Running scripts as a user does, each in an interpreter of its own, and reading the runs that they leave."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from metrana.store.catalog import find_runs
from metrana.store.ends import WriterInfo
from metrana.store.reader import StoredRun, read_run
from metrana.store.run_info import RunInfo

# Of whatever a test waits for: long beside what that takes on the busiest machine, and passed by what has failed alone.
DEADLINE_SECS = 120.0

# What the tests' own environment must not tell the scripts.
_FOREIGN = ("METRANA_", "PYTHON", "RANK", "LOCAL_RANK", "SLURM_", "CUDA_", "TORCHELASTIC_")


class Script:
    """A script in a folder of its own, with a store beside it."""

    def __init__(self, folder: Path, code: str, name: str = "train.py") -> None:
        self.folder = folder
        self.store = folder / "store"
        self.path = folder / name
        self.path.write_text(textwrap.dedent(code))

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        environ = {key: value for key, value in os.environ.items() if not key.startswith(_FOREIGN)}
        return {**environ, "METRANA_DIR": str(self.store), "PYTHONDONTWRITEBYTECODE": "1", **(extra or {})}

    def start(self, *command: str, environ: Mapping[str, str] | None = None, **options: Any) -> subprocess.Popen[str]:
        """Start it, by default as ``python train.py``, without input and into pipes; ``options`` are Popen's."""
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(
            command or (sys.executable, str(self.path)),
            cwd=self.folder,
            env=self.environment(environ),
            text=True,
            **{**pipes, **options},
        )

    def run(
        self, *command: str, environ: Mapping[str, str] | None = None, code: int = 0, stderr: str | None = ""
    ) -> str:
        """Run it to its end and return its output. ``stderr`` is what it must have said there, None for anything."""
        with self.start(*command, environ=environ) as process:
            try:
                out, err = process.communicate(timeout=DEADLINE_SECS)
            finally:
                process.kill()
        assert code == process.returncode, err
        if stderr is not None:
            assert stderr == err, f"said on standard error: {err}"
        return out

    def infos(self) -> list[RunInfo]:
        """The runs in the store, newest first."""
        return find_runs(str(self.store))

    def lock_files(self) -> list[Path]:
        """The folders of lock files that are left of the runs in the store."""
        return [folder for info in self.infos() for folder in Path("/dev/shm").glob(f"metrana-*/{info.id}")]

    def stored(self) -> StoredRun:
        """The one run in the store."""
        (info,) = self.infos()
        return read_run(info)


def needs_namespaces(*flags: str) -> None:
    """Skip the test where ``unshare`` can't make these namespaces."""
    command = ["unshare", *flags, "true"]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip(f"no namespaces can be made here: unshare {' '.join(flags)}")


def read_line(process: subprocess.Popen[str]) -> str:
    """The next line that a process writes to its output."""
    assert process.stdout is not None
    return process.stdout.readline()


def read_writer(info: RunInfo, writer: WriterInfo) -> StoredRun:
    """What one of a run's writers wrote."""
    return read_run(replace(info, folder=writer.folder, writers=(writer,)))


def values_of(run: StoredRun, name: str, **labels: str) -> list[float]:
    """The values of the one series of that name whose labels include these."""
    wanted = set(labels.items())
    (series,) = [s for (n, own), s in run.series.items() if n == name and wanted <= set(own)]
    return list(series.values)


def wait_until(condition: Callable[[], object], what: str, secs: float = DEADLINE_SECS) -> None:
    """Wait for something that another process does. Fails, naming it, when the time is up."""
    end = time.monotonic() + secs
    while not condition():
        assert time.monotonic() < end, f"waited {secs} s in vain for {what}"
        time.sleep(0.02)


def children_of(pid: int) -> list[int]:
    """The living children of a process."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == pid and fields[0] not in "ZX":
                found.append(int(entry))
    return found


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
