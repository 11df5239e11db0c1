"""What a script does to its descriptors costs a chart at most: metrana writes and closes none of the user's files."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scripts import DEADLINE_SECS
from tests.training import Training

# The store's own descriptor is closed behind its back, and a file of the script's gets the number.
STEAL_THE_STORE = """
run = train()
def find():
    for fd in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{fd}").endswith(".jsonl"): return int(fd)
        except OSError: pass
number = find()
os.close(number)
own = os.open("own", os.O_RDWR | os.O_CREAT)
if own != number: os.dup2(own, number); os.close(own)
log(10); metrana.flush(); log(10)
"""
IS_INTACT = """
assert os.path.samestat(os.fstat(number), os.stat("own")), "closed"
assert b"" == os.read(number, 100), "written"
print("intact")
"""


def test_a_file_under_the_number_of_the_store(tmp_path: Path) -> None:
    """The store goes on in a new segment, and the file is neither written nor closed."""
    assert "intact\n" == Training(tmp_path, STEAL_THE_STORE + "run.close()\n" + IS_INTACT).check_run()


def test_a_file_under_the_number_of_the_store_in_a_fork(tmp_path: Path) -> None:
    """A forked copy gives back what it inherited of the run, and not what is the user's by now."""
    fork = (
        "import warnings\nwarnings.simplefilter('ignore')\n"
        "pid = os.fork()\nif pid: os.waitpid(pid, 0); run.close()\nelse:\n    log()\n    metrana.flush()\n"
    )
    out = Training(tmp_path, STEAL_THE_STORE + fork + IS_INTACT + "if not pid: os._exit(0)\n").run()
    assert "intact\nintact\n" == "".join(sorted(out.splitlines(keepends=True))) or "intact\n" == out


@pytest.mark.parametrize("when", ["before init()", "after init()"])
def test_in_a_daemon(tmp_path: Path, when: str) -> None:
    """Forked twice, in a session of its own, without the descriptors that it had: the run goes on in the daemon."""
    become = (
        "import warnings\nwarnings.simplefilter('ignore')\n"
        "if os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\n"
        "os.closerange(0, 1024)\nos.open(os.devnull, os.O_RDWR); os.dup2(0, 1); os.dup2(0, 2)\n"
    )
    train, end = "train()\n", "log(10); metrana.close(); note('ended', 1)\n"
    code = become + train + end if when == "before init()" else train + become + end
    training = Training(tmp_path, code)
    training.run("sh", "-c", f'"{sys.executable}" train.py; while [ ! -e ended ]; do sleep 0.05; done')
    training.check()


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_with_standard_streams_closed(tmp_path: Path, closed: str) -> None:
    """The numbers 0 to 2 are free: none of ours lands there, and the child has /dev/null in their place."""
    code = """
        train()
        for process in ("self", *children()):
            for fd in (0, 1, 2):
                try: path = os.readlink(f"/proc/{process}/fd/{fd}")
                except OSError: continue
                note("standard", f"{process} {path}")
    """
    training = Training(tmp_path, code)
    training.check_shell(f"exec $PYTHON train.py {closed}")
    of_the_child = [line.split()[1] for line in training.notes("standard") if not line.startswith("self")]
    assert ["/dev/null"] * 3 == of_the_child
    in_the_parent = [line for line in training.notes("standard") if line.startswith("self") and ".jsonl" in line]
    assert [] == in_the_parent


def test_where_no_further_descriptor_is_to_be_had_later(tmp_path: Path) -> None:
    """A limit that is lowered under a run doesn't stop it."""
    code = "import resource\nrun = train()\nresource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))\n"
    training = Training(tmp_path, code + "for _ in range(50): metrana.log('loss', 0.5)\nrun.close()\n")
    training.run()
    run = training.stored()
    (losses,) = [series for (name, _), series in run.series.items() if name == "loss"]
    assert len(training.notes("logged")) + 50 == len(losses.values)


def test_with_few_descriptors(tmp_path: Path) -> None:
    """Sixteen are enough."""
    Training(tmp_path).check_shell("ulimit -n 16; exec $PYTHON train.py")


def test_a_reader_that_leaves(tmp_path: Path) -> None:
    """python train.py | head -1: the script's own BrokenPipeError, and everything that was logged."""
    code = "train()\nfor _ in range(100_000): print('x' * 100)\n"
    training = Training(tmp_path, code)
    training.check_shell("$PYTHON train.py 2> errors | head -1 > /dev/null; exit ${PIPESTATUS[0]}", code=1)
    assert "BrokenPipeError" in (tmp_path / "errors").read_text()
    assert "metrana" not in (tmp_path / "errors").read_text()


def test_a_reader_that_leaves_a_script_with_the_default_sigpipe(tmp_path: Path) -> None:
    """It ends by the signal, and what was flushed is there."""
    code = (
        "import signal\nsignal.signal(signal.SIGPIPE, signal.SIG_DFL)\ntrain(); log(); metrana.flush()\n"
        "for _ in range(100_000): print('x' * 100)\n"
    )
    Training(tmp_path, code).check_shell(
        "$PYTHON train.py | head -1 > /dev/null; exit ${PIPESTATUS[0]}", code=128 + signal.SIGPIPE
    )


def test_a_killed_training_holds_no_pipe_open(tmp_path: Path) -> None:
    """out=$(python train.py): the shell sees the end of the output, whatever the child is at."""
    training = Training(tmp_path, "import signal\ntrain()\nprint('trained', flush=True)\nos.kill(os.getpid(), 9)\n")
    process = training.start(stderr=subprocess.STDOUT)
    try:
        out, _ = process.communicate(timeout=DEADLINE_SECS)
    finally:
        process.kill()
        process.wait()
    assert ("trained\n", -signal.SIGKILL) == (out, process.returncode)
    training.check()


def test_the_child_holds_nothing_of_the_script(tmp_path: Path) -> None:
    """Neither its files nor its pipes, inheritable or not: a fifo's reader sees the end when the script closes it."""
    code = """
        own = os.open("own", os.O_RDWR | os.O_CREAT); os.set_inheritable(own, True)
        read, write = os.pipe(); os.set_inheritable(read, True); os.set_inheritable(write, True)
        train()
        os.close(write)
        assert b"" == os.read(read, 1)
        (child,) = children()
        held = [os.readlink(f"/proc/{child}/fd/{fd}") for fd in os.listdir(f"/proc/{child}/fd")]
        assert not [path for path in held if path.startswith(FOLDER)], held
    """
    Training(tmp_path, code).check_run()


FILES = """
own = [os.open(f"own{i}", os.O_RDWR | os.O_CREAT | os.O_APPEND) for i in range(20)]
def check_own():
    for i, fd in enumerate(own):
        assert os.path.samestat(os.fstat(fd), os.stat(f"own{i}")), f"{fd} closed"
        os.write(fd, b"own")
        content = open(f"own{i}", "rb").read()
        assert b"own" * (len(content) // 3) == content, f"{fd} written"
    note("intact", 1)
"""
SOCKETS = """
import socket
own = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(10)]
def check_own():
    for ends in own:
        for end, other in (ends, ends[::-1]):
            end.setblocking(False)
            try: raise SystemExit(f"got {end.recv(1000)}")
            except BlockingIOError: pass
            other.send(b"own")
            assert b"own" == end.recv(1000)
    note("intact", 1)
"""
# Unlike a pair's ends, these never have anything to be read, and nobody hangs up on them.
SILENT_SOCKETS = """
import socket
own = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(30)]
held = [os.fstat(each.fileno()) for each in own]
def check_own():
    for each, status in zip(own, held):
        assert os.path.samestat(os.fstat(each.fileno()), status), f"{each.fileno()} closed"
    note("intact", 1)
"""
LATER = {
    "and goes on": "for _ in range(30): log(); time.sleep(0.05)\ncheck_own(); metrana.flush(); check_own()",
    "and closes the run": "check_own(); run.close(); check_own()",
    "and forks": (
        # Both hold the same sockets: the copy looks at them first.
        "import warnings; warnings.simplefilter('ignore')\npid = os.fork()\nif not pid: check_own()\n"
        "log(); metrana.flush()\nif not pid: os._exit(0)\nassert 0 == os.waitpid(pid, 0)[1]\ncheck_own()"
    ),
    "and ends": "import atexit, gc; atexit.register(check_own); gc.collect()",
}


@pytest.mark.parametrize("later", LATER.values(), ids=LATER)
@pytest.mark.parametrize("own", [FILES, SOCKETS], ids=["files", "sockets"])
def test_a_script_that_closes_all_it_finds_open(tmp_path: Path, own: str, later: str) -> None:
    """Its own files and sockets get our numbers: none is written, read or closed, and every point is there."""
    training = Training(tmp_path, f"run = train()\nos.closerange(3, 65536)\n{own}{later}\n")
    training.check_run(stderr=None)
    assert training.notes("intact")


@pytest.mark.parametrize("own", [SOCKETS, SILENT_SOCKETS], ids=["pairs", "silent"])
def test_capture_goes_on_when_all_is_closed_in_the_middle(tmp_path: Path, own: str) -> None:
    """Also while the drain rests: nothing of the script's is closed, and another child takes the place."""
    code = (
        "run = train()\nend = time.monotonic() + 6\n"
        "while time.monotonic() < end: log(); time.sleep(0.05)\n"
        f"os.closerange(3, 65536)\n{own}"
        "while not is_stored('system/capture_replaced'): log(); time.sleep(0.05)\n"
        "while not children(): time.sleep(0.05)\n"
        "for child in children(): note('children', child)\n"
        "check_own(); run.close(); check_own()\n"
    )
    training = Training(tmp_path, code)
    training.check_run(stderr=None)
    assert training.notes("intact")
