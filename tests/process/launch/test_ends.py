"""However the training ends, its child ends too, what was logged is there, and the exit is the script's own."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from metrana.store.reader import read_run
from tests.scripts import DEADLINE_SECS, children_of, is_alive, read_line, values_of, wait_until
from tests.training import Training

NO_CORE = "import resource\nresource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"

ENDS = {
    "os._exit": ("metrana.flush(); os._exit(3)", 3),
    "os.abort": ("metrana.flush(); os.abort()", -signal.SIGABRT),
    "a fault of the memory": ("metrana.flush(); import ctypes; ctypes.string_at(0)", -signal.SIGSEGV),
    "the same, told by faulthandler": (
        "metrana.flush(); import faulthandler; faulthandler.enable(); import ctypes; ctypes.string_at(0)",
        -signal.SIGSEGV,
    ),
    "SIGKILL": ("metrana.flush(); os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
    "SIGKILL to the group": ("metrana.flush(); os.setpgid(0, 0); os.killpg(0, signal.SIGKILL)", -signal.SIGKILL),
    "SIGQUIT": ("metrana.flush(); os.kill(os.getpid(), signal.SIGQUIT)", -signal.SIGQUIT),
    "SIGTERM": ("metrana.flush(); os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
    "an exception": ("raise ValueError('own')", 1),
    "an interrupt": ("raise KeyboardInterrupt", -signal.SIGINT),
    "sys.exit with a text": ("sys.exit('own')", 1),
    "sys.exit in an exit handler": ("import atexit; atexit.register(sys.exit, 5)", 0),
    "os._exit in an exit handler": ("import atexit; atexit.register(os._exit, 5); metrana.flush()", 5),
}


@pytest.mark.parametrize("end", ENDS)
def test_however_a_training_ends(tmp_path: Path, end: str) -> None:
    """The exit code is the script's; nothing of metrana's is printed; the child goes, and what was flushed is there."""
    code, exit_code = ENDS[end]
    training = Training(tmp_path, f"import signal\n{NO_CORE}train(); log(5); {code}\n")
    process = training.start()
    try:
        _, err = process.communicate(timeout=DEADLINE_SECS)
    finally:
        process.kill()
        process.wait()
    assert exit_code == process.returncode
    assert "metrana" not in err or "faulthandler" in end  # which shows every thread there is
    training.check()


def test_a_thread_that_outlives_the_script(tmp_path: Path) -> None:
    """The interpreter waits for it, and its points are there."""
    work = "import threading\ndef work():\n    while threading.main_thread().is_alive(): time.sleep(0.01)\n    log(5)\n"
    Training(tmp_path, work + "train()\nthreading.Thread(target=work).start()\n").check_run()


def test_a_thread_that_opened_the_run_and_ended(tmp_path: Path) -> None:
    """The child is the process's, not the thread's."""
    code = """
        import threading
        thread = threading.Thread(target=train); thread.start(); thread.join()
        (child,) = children()
        log(5)
        metrana.flush()
        assert [child] == children()
    """
    Training(tmp_path, code).check_run()


def test_a_daemon_thread_that_logs_to_the_end(tmp_path: Path) -> None:
    """It ends with the interpreter, in silence."""
    code = """
        import threading
        def work():
            while True: metrana.log("other", 0.5)
        train()
        threading.Thread(target=work, daemon=True).start()
        while metrana.current_run() and not os.path.exists(os.path.join(FOLDER, "late")): note("late", 1)
    """
    for _ in range(3):
        (tmp_path / "late").unlink(missing_ok=True)
        training = Training(tmp_path, code)
        training.run()
    assert "closed" == training.infos()[0].status


def test_an_exception_in_a_thread_is_only_its_own(tmp_path: Path) -> None:
    """The run goes on, and is closed at the end."""
    code = """
        import threading
        threading.excepthook = lambda hooked: note("hooked", hooked.exc_type.__name__)
        def work(): raise ValueError
        train()
        thread = threading.Thread(target=work); thread.start(); thread.join()
        log(5)
    """
    training = Training(tmp_path, code)
    training.check_run()
    assert ["ValueError"] == training.notes("hooked")
    assert "closed" == training.infos()[0].status


def test_an_interrupted_init_can_be_done_again(tmp_path: Path) -> None:
    """Wherever Ctrl-C met it: the second one has its run and its charts, and no child is left over.

    One that falls into a callback of the interpreter's own, such as that of an import's lock, is reported as ignored:
    whoever sits there presses Ctrl-C again.
    """
    for milliseconds in (0.2, 0.6, 1.0, 1.4, 1.8, 2.5, 4.0):
        folder = tmp_path / str(milliseconds)
        folder.mkdir()
        code = f"""
            import signal
            presses = []
            def press(*_):
                presses.append(1)
                raise KeyboardInterrupt
            signal.signal(signal.SIGALRM, press)
            try:
                signal.setitimer(signal.ITIMER_REAL, {milliseconds / 1000}, 10.0)
                metrana.init(run_name="r", system_metrics_interval_secs=1)
                while True: time.sleep(1)
            except KeyboardInterrupt:
                signal.setitimer(signal.ITIMER_REAL, 0)
            if len(presses) > 1: note("pressed again", 1)
            train().close()
            assert [] == children()
        """
        training = Training(folder, code)
        with training.start() as process:
            try:
                _, err = process.communicate(timeout=DEADLINE_SECS)
            finally:
                process.kill()
        assert 0 == process.returncode, err
        assert ("Exception ignored" in err) if training.notes("pressed again") else ("" == err), err
        newest = training.infos()[0]
        run = read_run(newest)
        assert ("closed", "ok") == (newest.status, run.attributes["system/capture/process"])
        assert len(training.notes("logged")) == len(values_of(run, "loss"))


def test_an_interrupted_init_leaves_no_lock_files(tmp_path: Path) -> None:
    """Not even where its child had taken its claims already."""
    code = """
        import glob
        from metrana.threads import Worker
        def start_late(worker, start=Worker.start):
            start(worker)
            while worker._name == "metrana-drain" and not locks(): time.sleep(0.01)
            if worker._name == "metrana-drain": raise KeyboardInterrupt
        def locks():
            return [path for run in glob.glob(f"{FOLDER}/store/*/*/*/*") for path in glob.glob(
                f"/dev/shm/metrana-*/{run.rpartition('@')[2]}/present")]
        Worker.start = start_late
        try: metrana.init(run_name="r", system_metrics_interval_secs=1)
        except KeyboardInterrupt: note("left", locks())
    """
    training = Training(tmp_path, code)
    training.run()
    assert ["[]"] == training.notes("left")


def test_a_child_that_cannot_be_replaced_at_once_is_replaced_later(tmp_path: Path) -> None:
    """What killed it may be what keeps the next one from starting: no descriptors, no memory for a moment."""
    code = """
        import resource, signal
        from metrana.system import supervisor
        run = train()
        (first,) = children()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        os.kill(first, signal.SIGKILL)
        (keeper,) = supervisor._alive
        while keeper._restarts.count < 2: time.sleep(0.01)  # the first to take its place couldn't be started
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        while children() in ([], [first]): log(); time.sleep(0.05)
        for child in children(): note("children", child)
        while not is_stored("no new one could be started"): log()
        run.close()
    """
    training = Training(tmp_path, code)
    training.check_run()
    assert 2 == len(training.notes("children"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_group_that_ends_the_training(tmp_path: Path, number: signal.Signals) -> None:
    """The training ends by it as it would alone; the child prints nothing and follows."""
    code = f"{NO_CORE}train()\nmetrana.flush()\nprint('up', flush=True)\ntime.sleep(600)\n"
    training = Training(tmp_path, code)
    process = training.start(start_new_session=True)
    try:
        assert "up\n" == read_line(process)
        os.killpg(process.pid, number)
        _, err = process.communicate(timeout=DEADLINE_SECS)
    finally:
        process.kill()
        process.wait()
    assert -number == process.returncode
    assert "metrana" not in err
    assert ("KeyboardInterrupt" in err) == (number == signal.SIGINT)
    training.check()


def test_children_that_are_killed_again_and_again(tmp_path: Path) -> None:
    """Five losses end capture with one warning; every point is there, and the next run sweeps what they left."""
    code = """
        import signal
        train()
        killed = set()
        while len(killed) < 5:
            for child in children():
                os.kill(child, signal.SIGKILL)
                killed.add(child)
                note("killed", child)
            log()
            time.sleep(0.05)
        while not is_stored("lost 5 times"): log()
        metrana.close()
        assert [] == children()
    """
    training = Training(tmp_path, code)
    reason = "the sampling process was lost 5 times, the last time SIGKILL"
    training.run(stderr=f"no more charts of the hardware: {reason}\n")
    (tmp_path / "next").mkdir()
    Training(tmp_path / "next").check_run()
    training.check()
    assert set(training.notes("children")) <= set(training.notes("killed"))
    assert "closed" == training.infos()[0].status


def test_a_training_that_is_stopped_and_continued(tmp_path: Path) -> None:
    """Ctrl-Z, or a debugger: the child goes on on its grid, and what it sampled meanwhile is taken afterwards."""
    training = Training(tmp_path, "train()\nprint('up', flush=True)\nsys.stdin.readline()\nlog(5)\nmetrana.close()\n")
    process = training.start(stdin=subprocess.PIPE)
    try:
        assert "up\n" == read_line(process)
        (child,) = children_of(process.pid)
        os.kill(process.pid, signal.SIGSTOP)
        before = _switches(child)
        wait_until(lambda: _switches(child) > before, "the child's work while its parent is stopped")
        assert is_alive(child)
        os.kill(process.pid, signal.SIGCONT)
        _, err = process.communicate("\n", timeout=DEADLINE_SECS)
    finally:
        process.kill()
        process.wait()
    assert (0, "") == (process.returncode, err)
    training.check()
    (series,) = [s for (name, _), s in training.stored().series.items() if name == "system/disk/total_bytes"]
    assert list(range(len(series.steps))) == list(series.steps)


def test_a_rank_that_fails_takes_the_others_with_it(tmp_path: Path) -> None:
    """The launcher terminates, then kills: no rank's child is left."""
    code = """
        import subprocess
        if "RANK" in os.environ:
            train(); metrana.flush()
            note("up", os.environ["RANK"])
            if os.environ["RANK"] == "0": raise SystemExit(1)
            time.sleep(600)
        else:
            ranks = [subprocess.Popen([sys.executable, __file__], env={**os.environ, "RANK": str(i)}) for i in range(4)]
            assert 1 == ranks[0].wait()
            while sum(1 for _ in open(os.path.join(FOLDER, "up"))) < 4: time.sleep(0.02)
            for rank in ranks[1:3]: rank.terminate()
            for rank in ranks[3:]: rank.kill()
            for rank in ranks[1:]: rank.wait()
    """
    training = Training(tmp_path, code)
    training.check_run(trainings=4)
    assert 4 == len(training.stored().info.writers)


def _switches(pid: int) -> int:
    """How often a process has been at work: each tick is once more at least."""
    status = Path(f"/proc/{pid}/status").read_text()
    return sum(int(line.split()[1]) for line in status.splitlines() if "_ctxt_switches" in line)
