"""Flags, variables and start-up files of the interpreter don't reach the child, and find no fault in the parent."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import metrana
from tests.training import Training

FLAGS = (
    *("-I", "-E", "-OO", "-bb", "-v", "-X importtime", "-X faulthandler", "-X tracemalloc=5", "-X utf8=0"),
    *("-X dev -W error", "-X frozen_modules=off", "-X no_debug_ranges", "-X int_max_str_digits=640"),
)
SPEAKS = ("-v", "-X importtime")

VARIABLES = {
    "PYTHONDEVMODE": "1",
    "PYTHONWARNINGS": "error",
    "PYTHONTRACEMALLOC": "10",
    "PYTHONMALLOC": "debug",
    "PYTHONHASHSEED": "0",
    "PYTHONSTARTUP": "/nowhere.py",
    "PYTHONINSPECT": "1",
    "PYTHONOPTIMIZE": "2",
    "PYTHONPYCACHEPREFIX": "/nowhere",
    "PYTHONIOENCODING": "ascii",
    "PYTHONASYNCIODEBUG": "1",
    "PYTHONNOUSERSITE": "1",
    "PYTHONPROFILEIMPORTTIME": "1",
    "LC_ALL": "C",
    "LD_PRELOAD": "/nowhere.so",
    "TMPDIR": "/nowhere",
    "HOME": "/nowhere",
    "PATH": "/nowhere",
    "PWD": "/nowhere",
    "VIRTUAL_ENV": "/nowhere",
}
# The loader and the interpreter speak by themselves, once: what they say isn't ours.
SPEAKING = ("PYTHONINSPECT", "PYTHONPROFILEIMPORTTIME", "LD_PRELOAD")


@pytest.mark.parametrize("flags", FLAGS)
def test_with_a_flag_of_the_interpreter(tmp_path: Path, flags: str) -> None:
    """The child is charted as ever; no warning of ours becomes an exception."""
    if flags in ("-I", "-E") and subprocess.run([sys.executable, flags, "-c", "import metrana"]).returncode:
        pytest.skip(f"needs metrana installed: {flags} ignores PYTHONPATH")
    stderr = None if flags in SPEAKS else ""
    Training(tmp_path).check_run(sys.executable, *flags.split(), "train.py", stderr=stderr)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="-P came with Python 3.11")
@pytest.mark.parametrize("how", ["-P", "PYTHONSAFEPATH"])
def test_without_the_script_folder_on_the_path(tmp_path: Path, how: str) -> None:
    """What stands first on the path is then the standard library."""
    flags, environ = (["-P"], {}) if how == "-P" else ([], {how: "1"})
    Training(tmp_path).check_run(sys.executable, *flags, "train.py", environ=environ)


@pytest.mark.parametrize("name", VARIABLES)
def test_with_a_variable_of_the_environment(tmp_path: Path, name: str) -> None:
    """Nothing of it is taken over by the child."""
    stderr = None if name in SPEAKING else ""
    Training(tmp_path).check_run(environ={name: VARIABLES[name]}, stderr=stderr)


def test_start_up_code_runs_once(tmp_path: Path) -> None:
    """A sitecustomize prints in each interpreter that reads it: the child doesn't."""
    training = Training(tmp_path)
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("import os\nprint('start-up', flush=True)\nos.write(1, b'')\n")
    packages = str(Path(metrana.__file__).parent.parent)
    out = training.check_run(environ={"PYTHONPATH": os.pathsep.join([str(site), packages])})
    assert "start-up\n" == out


HOOKS = {
    "trace": "import threading\nsys.settrace(lambda *a: None); threading.settrace(lambda *a: None)",
    "profile": "import threading\nsys.setprofile(lambda *a: None); threading.setprofile(lambda *a: None)",
    "switch interval": "sys.setswitchinterval(1e-6)",
    "no collector": "import gc\ngc.disable(); gc.freeze()",
    "fault handler": "import faulthandler\nfaulthandler.enable()",
    "multiprocessing's executable": "import multiprocessing\nmultiprocessing.set_executable('/bin/false')",
    "multiprocessing's method": "import multiprocessing\nmultiprocessing.set_start_method('forkserver')",
    "no arguments": "sys.argv = []",
    "no argument list": "del sys.argv",
    "no __main__": "main = sys.modules.pop('__main__')",
    "another __main__": "import types\nmain = sys.modules['__main__']; sys.modules['__main__'] = types.ModuleType('x')",
    "no standard streams": "sys.stdin = sys.stdout = sys.stderr = None",
    "an emptied environment": "os.environ.clear()",
    "bytes in the environment": "os.environb[b'X'] = b'\\xff\\xfe'",
    "not dumpable": "import ctypes\nctypes.CDLL(None).prctl(4, 0, 0, 0, 0)",
    "no new privileges": "import ctypes\nctypes.CDLL(None).prctl(38, 1, 0, 0, 0)",
    "a small thread stack": "import threading\nthreading.stack_size(65536)",
}


@pytest.mark.parametrize("hook", HOOKS.values(), ids=HOOKS)
def test_in_an_unusual_interpreter(tmp_path: Path, hook: str) -> None:
    """What a script does to its own interpreter before init() is its own affair."""
    training = Training(tmp_path, hook + "\ntrain(dir=os.path.join(FOLDER, 'store'))\n")
    training.check_run()


def test_a_module_path_that_is_emptied_later(tmp_path: Path) -> None:
    """A run needs no import once it's open."""
    code = "run = train()\nfor l in (sys.path, sys.meta_path): l.clear()\nlog(); metrana.flush(); run.close()\n"
    Training(tmp_path, code).check_run()


def test_the_public_names_can_be_taken_all_at_once(tmp_path: Path) -> None:
    """from metrana import * has what __all__ names."""
    code = "names = {}\nexec('from metrana import *', names)\nassert set(metrana.__all__) <= set(names)\ntrain()\n"
    Training(tmp_path, code).check_run()
