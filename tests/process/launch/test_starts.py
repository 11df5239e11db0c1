"""The training runs once and is charted, whatever program or command starts it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scripts import needs_namespaces
from tests.training import Training

COMMANDS = {
    "a guarded main": "exec $PYTHON guarded.py",
    "typed into an interactive Python": "$PYTHON -i -q <<< 'exec(open(\"train.py\").read())' 2> /dev/null",
    "followed by an interactive Python": "exec $PYTHON -i train.py < /dev/null 2> /dev/null",
    "another folder's script": 'cd / && exec $PYTHON "$OLDPWD/train.py"',
    "a module of the working folder": "exec $PYTHON -m train",
    "a folder with a __main__": "mkdir app && cp train.py app/__main__.py && exec $PYTHON app",
    "compiled": '$PYTHON -c \'import py_compile as c; c.compile("train.py", "t.pyc")\' && exec $PYTHON t.pyc',
    "a name without an ending": "cp train.py train && exec $PYTHON train",
    "a link to the script": "mkdir bin && ln -s ../train.py bin/train && exec $PYTHON bin/train",
    "an executable script": '(echo "#!$PYTHON"; cat train.py) > t && chmod +x t && exec ./t',
    "a pipe as the script": "exec $PYTHON <(cat train.py)",
    "run by runpy": 'exec $PYTHON -c \'import runpy; runpy.run_path("train.py", run_name="__main__")\'',
    "run as a module by runpy": 'exec $PYTHON -c \'import runpy; runpy.run_module("train", run_name="__main__")\'',
    "executed as text": "exec $PYTHON -c 'exec(open(\"train.py\").read())'",
    "imported": "exec $PYTHON -c 'import train'",
    "under pdb": "exec $PYTHON -m pdb -c continue -c quit train.py > /dev/null",
    "under cProfile": "exec $PYTHON -m cProfile -o /dev/null train.py",
    "under trace": "exec $PYTHON -m trace --count -C cover train.py > /dev/null",
    "nohup": "exec nohup $PYTHON train.py",
    "a session of its own": "exec setsid --wait $PYTHON train.py",
    "under timeout": "exec timeout 60 $PYTHON train.py",
    "by xargs": "echo train.py | xargs $PYTHON",
    "in the background": "$PYTHON train.py & wait $!",
    "niced and pinned": "exec nice -n 19 taskset -c 0 $PYTHON train.py",
    "on a terminal": 'exec script -qec "$PYTHON train.py" /dev/null',
    "into a pipe": "set -o pipefail; $PYTHON train.py | cat",
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_however_a_script_is_started(tmp_path: Path, command: str) -> None:
    """The body runs once, the child is there, nothing is printed, and nothing is left."""
    needed = [name for name in ("setsid", "taskset", "script", "timeout", "xargs") if f" {name} " in f" {command} "]
    if missing := [name for name in needed if shutil.which(name) is None]:
        pytest.skip(f"needs {missing[0]}")
    training = Training(tmp_path)
    body = training.path.read_text().removesuffix("train()\n")
    (tmp_path / "guarded.py").write_text(body + "def main(): train().close()\nif __name__ == '__main__': main()\n")
    training.check_shell(command)


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="there, Python 3.13's own import of socket fails")
def test_as_a_command_line_program_in_a_deleted_folder(tmp_path: Path) -> None:
    """The folder is first on the module path, and nothing can be found out about it."""
    training = Training(tmp_path)
    training.check_shell(
        'mkdir gone && cd gone && rmdir ../gone && exec $PYTHON -c "$(cat ../train.py)"'.replace(
            "../train.py", str(training.path)
        )
    )


@pytest.mark.parametrize("arguments", [["train.py"], ["-c", "%run train.py"]], ids=["script", "magic"])
def test_under_ipython(tmp_path: Path, arguments: list[str]) -> None:
    """Its __main__ isn't the script."""
    if importlib.util.find_spec("IPython") is None:
        pytest.skip("needs IPython")
    training = Training(tmp_path)
    command = [sys.executable, "-m", "IPython", "--no-banner", "--colors=NoColor", *arguments]
    training.check_run(*command, environ={"IPYTHONDIR": str(tmp_path / "ipython"), "HOME": str(tmp_path)})


def test_as_a_notebook_runs_its_cells(tmp_path: Path) -> None:
    """Code compiled under an odd name and executed in a thread, again and again in one process."""
    training = Training(
        tmp_path,
        """
        train()
        import threading
        cell = compile('metrana.init(run_name="r"); log(5)', "<ipython-input-1-af>", "exec")
        for _ in range(2):
            thread = threading.Thread(target=exec, args=(cell, globals()))
            thread.start(); thread.join()
        """,
    )
    training.check_run()


def test_under_coverage(tmp_path: Path) -> None:
    """Also with its hooks for multiprocessing and threads."""
    if importlib.util.find_spec("coverage") is None:
        pytest.skip("needs coverage")
    training = Training(tmp_path)
    (tmp_path / "coveragerc").write_text("[run]\nparallel = True\nconcurrency = multiprocessing,thread\n")
    training.check_run(sys.executable, "-m", "coverage", "run", "--rcfile=coveragerc", "train.py", stderr=None)


def test_in_an_empty_environment(tmp_path: Path) -> None:
    """env -i: no PATH, no HOME, no locale."""
    training = Training(tmp_path)
    training.check_run("/usr/bin/env", "-i", f"METRANA_DIR={training.store}", sys.executable, "train.py")


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv")
def test_as_another_user(public_path: Path) -> None:
    """What root sees of the process and its child, another user needn't."""
    training = Training(public_path)
    user = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    if subprocess.run([*user, sys.executable, "-c", "import metrana, psutil"], capture_output=True).returncode:
        pytest.skip("needs an interpreter that other users can read")
    training.check_run(*user, sys.executable, "train.py")


NAMESPACES = {
    "/dev/shm read-only": "mount -t tmpfs -o ro none /dev/shm; exec $PYTHON train.py",
    "/dev/shm full": "mount -t tmpfs -o size=4k,nr_inodes=1 none /dev/shm; exec $PYTHON train.py",
    "no /dev/shm": (
        "mkdir dev && mount -t tmpfs none dev && for f in null zero urandom random tty; do touch dev/$f && "
        "mount --bind /dev/$f dev/$f; done && ln -s /proc/self/fd dev/fd && mount --move dev /dev; "
        "exec $PYTHON train.py"
    ),
}


@pytest.mark.parametrize("command", NAMESPACES.values(), ids=NAMESPACES)
def test_without_a_usable_dev_shm(tmp_path: Path, command: str) -> None:
    """Neither semaphores nor shared memory are needed."""
    needs_namespaces("-m")
    training = Training(tmp_path)
    training.check_run("unshare", "--mount", "--propagation", "private", "bash", "-c", command)
