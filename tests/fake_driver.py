"""The scripted NVIDIA driver for tests: builds it, writes its script, starts Python processes that load it."""

from __future__ import annotations

import atexit
import functools
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.scripts import DEADLINE_SECS

TESTS = Path(__file__).parent
SOURCE = TESTS / "fake_nvml" / "fake_nvml.c"
LIBRARY = "libnvidia-ml.so.1"
NEW = "new"
OLD = "old"


def find_compiler() -> str | None:
    """The C compiler of this machine."""
    return next((path for path in map(shutil.which, ("cc", "gcc", "clang")) if path), None)


_built: list[Path] = []


def remove_built() -> None:
    """Remove the libraries that this process built. A worker of pytest-xdist ends without its exit handlers."""
    while _built:
        shutil.rmtree(_built.pop(), ignore_errors=True)


atexit.register(remove_built)


@functools.cache
def build_library(variant: str = NEW) -> Path:
    """The folder that holds the library, built once in a process. Skips the test where there's no compiler."""
    compiler = find_compiler()
    if compiler is None:
        pytest.skip("no C compiler to build the fake NVIDIA driver with")
    folder = Path(tempfile.mkdtemp(prefix="fake-nvml-"))
    _built.append(folder)
    flags = ["-O1", "-std=gnu11", "-shared", "-fPIC", "-fvisibility=hidden", f"-Wl,-soname,{LIBRARY}"]
    if variant == OLD:
        flags.append("-DFAKE_OLD_DRIVER")
    command = [compiler, *flags, str(SOURCE), "-o", str(folder / LIBRARY), "-pthread"]
    subprocess.run(command, check=True, timeout=DEADLINE_SECS)
    return folder


class FakeDriver:
    """One scripted driver: its script and its log lie in ``folder``."""

    def __init__(self, folder: Path, variant: str = NEW) -> None:
        if importlib.util.find_spec("pynvml") is None:
            pytest.skip("needs nvidia-ml-py, which the extra system brings")
        self.library_folder = build_library(variant)
        self.folder = folder
        self.config = folder / "driver.ini"
        self.log = folder / "driver.log"

    def script(self, sections: Mapping[str, Mapping[str, object]]) -> None:
        """Replace the script; a driver that's running reads the new one at its next call."""
        lines = []
        for section, entries in sections.items():
            lines += [f"[{section}]", *(f"{key} = {value}" for key, value in entries.items())]
        fresh = self.config.with_suffix(".new")
        fresh.write_text("\n".join([*lines, ""]), encoding="latin-1")
        fresh.replace(self.config)

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment of a process that is to find this driver and nothing of this process's own GPUs."""
        environ = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG", "TMPDIR")}
        environ["LD_LIBRARY_PATH"] = str(self.library_folder)
        environ["FAKE_NVML_CONFIG"] = str(self.config)
        environ["FAKE_NVML_LOG"] = str(self.log)
        environ["PYTHONPATH"] = str(TESTS.parent)
        environ.update(extra or {})
        return environ

    def run(self, code: str, extra: Mapping[str, str] | None = None, flags: tuple[str, ...] = ()) -> Any:
        """What ``code`` prints as JSON in a Python process of its own that loads this driver."""
        return run_python(code, self.environment(extra), flags)

    def calls(self) -> Counter[str]:
        """How often each function was called so far."""
        if not self.log.exists():
            return Counter()
        return Counter(line.split()[3] for line in self.log.read_text().splitlines())


def run_python(code: str, environ: Mapping[str, str], flags: tuple[str, ...] = ()) -> Any:
    """What ``code`` prints as JSON on its last line, in a process with this environment."""
    done = subprocess.run(
        [sys.executable, *flags, "-c", code],
        env=dict(environ),
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECS,
        check=False,
    )
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout.splitlines()[-1])
