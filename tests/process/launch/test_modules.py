"""Modules beside the script that have the names of others are the script's own, and metrana gets what it means."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.training import Training

# What metrana imports, or what its imports import, in the training process or in the child.
NAMES = (
    *("_queue", "array", "bisect", "contextlib", "copyreg", "dataclasses", "enum", "errno", "fcntl", "functools"),
    *("hashlib", "heapq", "itertools", "json", "logging", "multiprocessing", "operator", "pickle", "platform"),
    *("portalocker", "psutil", "pynvml", "queue", "random", "secrets", "select", "selectors", "signal", "socket"),
    *("struct", "subprocess", "tempfile", "threading", "traceback", "types", "typing", "uuid", "warnings", "weakref"),
    *("child", "errors", "identity", "imports", "model", "report", "run", "session", "settings", "store", "system"),
)
# Python itself takes these at its end from whatever has their names, with or without metrana.
TAKEN_BY_PYTHON = {"threading"}


@pytest.mark.parametrize("name", NAMES)
def test_a_module_that_has_the_name_of_another(tmp_path: Path, name: str) -> None:
    """What the script gets for that name is the same before metrana's import and after it."""
    first, code = f"import {name}\nmine = {name}\n", f"train()\nimport {name}\nassert {name} is mine\n"
    training = Training(tmp_path, code, first=first) if name not in TAKEN_BY_PYTHON else Training(tmp_path)
    (tmp_path / f"{name}.py").write_text("OWN = True\n")
    training.check_run()


@pytest.mark.parametrize("name", ["queue", "multiprocessing", "select", "psutil"])
def test_a_module_that_is_imported_only_later(tmp_path: Path, name: str) -> None:
    """metrana's import leaves no module of that name behind."""
    training = Training(tmp_path, f"train()\nimport {name}\nassert {name}.OWN\n")
    (tmp_path / f"{name}.py").write_text("OWN = True\n")
    training.check_run()


def test_packages_that_have_the_names_of_others(tmp_path: Path) -> None:
    """A folder with an __init__ is no different, nor are the modules in it."""
    names = ("json", "logging", "multiprocessing", "psutil", "queue", "select")
    imports = "".join(f"import {name}.decoder\nassert {name}.decoder.OWN\n" for name in names)
    training = Training(tmp_path, imports + "train()\n" + imports, first=imports)
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
        (tmp_path / name / "decoder.py").write_text("OWN = True\n")
    training.check_run()


@pytest.mark.parametrize("what", ["resume", "a forked worker", "SIGCHLD"])
def test_what_is_first_used_later_beside_such_modules(tmp_path: Path, what: str) -> None:
    """What isn't needed at init() is taken from the right place, too."""
    code = {
        "resume": "train(); log(3); metrana.close(); metrana.init(run_name='r', resume=True); log(3)",
        "a forked worker": "train(); pid = os.fork(); log(3); pid and os.waitpid(pid, 0)",
        "SIGCHLD": "import _signal; _signal.signal(_signal.SIGCHLD, _signal.SIG_IGN); train(); log(3)",
    }[what]
    training = Training(tmp_path, "import warnings\nwarnings.simplefilter('ignore')\n" + code + "\n")
    for name in ("array", "bisect", "heapq", "json", "multiprocessing", "operator", "queue", "select", "struct"):
        (tmp_path / f"{name}.py").write_text("OWN = True\n")
    training.check_run()


def test_modules_whose_import_ends_the_program(tmp_path: Path) -> None:
    """In the working folder, which isn't on the path: nothing may look there."""
    work = tmp_path / "work"
    work.mkdir()
    for name in NAMES:
        (work / f"{name}.py").write_text("raise SystemExit(__name__)\n")
    Training(tmp_path).check_shell("cd work && exec $PYTHON ../train.py")


def test_modules_beside_a_command_line_program(tmp_path: Path) -> None:
    """python -c has the working folder first on its path."""
    names = ("json", "logging", "multiprocessing", "psutil", "queue", "select")
    training = Training(tmp_path, "train()\n", first=f"import {', '.join(names)}\n")
    for name in names:
        (tmp_path / f"{name}.py").write_text("OWN = True\n")
    training.check_run(sys.executable, "-c", training.path.read_text() + "import json\nassert json.OWN\n")


@pytest.mark.parametrize("name", ["json", "multiprocessing", "portalocker", "psutil", "queue", "select", "signal"])
def test_a_script_that_has_the_name_of_a_module_itself(tmp_path: Path, name: str) -> None:
    """python queue.py: metrana's import doesn't run the script a second time."""
    Training(tmp_path, name=f"{name}.py").check_run()
