"""Forks, workers, pools and event loops of the script go their ways, and the child goes its own."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests.training import Training

QUIET = "import warnings\nwarnings.simplefilter('ignore')\n"  # of forks in a process with threads

FORKS = {
    "another program": "os.execvp('true', ['true'])",
    "logs and leaves": "log(5); metrana.flush(); os._exit(0)",
    "logs and ends": "log(5); sys.exit(0)",
    "closes": "log(5); metrana.close(); os._exit(0)",
    "says nothing": "os._exit(0)",
    "opens the run": "metrana.init(run_name='r'); log(5); metrana.flush(); os._exit(0)",
    "forks again": "log(5); pid = os.fork(); log(5); pid and os.waitpid(pid, 0); sys.exit(0)",
}


@pytest.mark.parametrize("in_thread", [False, True], ids=["main thread", "another thread"])
@pytest.mark.parametrize("copy", FORKS.values(), ids=FORKS)
def test_a_forked_copy_takes_nothing_from_the_original(tmp_path: Path, copy: str, in_thread: bool) -> None:
    """Whatever the copy does, the original's child lives on and samples to the end."""
    if in_thread and "sys.exit" in copy:
        pytest.skip("sys.exit() ends the thread, and no process")
    start = "thread = threading.Thread(target=fork); thread.start(); thread.join()" if in_thread else "fork()"
    code = f"""
        import threading
        def fork():
            pid = os.fork()
            if pid == 0:
                {copy}
            assert 0 == os.waitpid(pid, 0)[1]
        run = train()
        before = children()
        {start}
        log(5)
        assert before == children() and 1 == len(before)
        run.close()
    """
    Training(tmp_path, QUIET + dedent(code)).check_run()


def test_a_forked_copy_holds_nothing_of_the_original(tmp_path: Path) -> None:
    """As many descriptors, threads and children as before the run: no pipe, no lock and no file of it."""
    code = """
        def held():
            own = os.listdir("/proc/self/fd"), os.listdir("/proc/self/task")
            return [len(names) for names in own] + [len(children())]
        before = held()
        run = train()
        assert before != held()
        pid = os.fork()
        if pid == 0:
            note("copy", held() == before or (before, held()))
            os._exit(0)
        os.waitpid(pid, 0)
        run.close()
    """
    training = Training(tmp_path, QUIET + dedent(code))
    training.check_run()
    assert ["True"] == training.notes("copy")


def test_workers_forked_for_every_epoch(tmp_path: Path) -> None:
    """As a DataLoader's: daemonic, they log and end; all their points are there, and the child lives on."""
    code = """
        import multiprocessing
        def work(): log(5)
        run = train()
        for _ in range(2):
            workers = [multiprocessing.get_context("fork").Process(target=work, daemon=True) for _ in range(4)]
            for worker in workers: worker.start()
            for worker in workers: worker.join()
            assert [0] * 4 == [worker.exitcode for worker in workers]
        assert 1 == len(children())
        log(5)
    """
    Training(tmp_path, QUIET + dedent(code)).check_run()


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_pools_and_managers(tmp_path: Path, method: str) -> None:
    """A pool's workers that log are of the run; managers and shared memory work as they do without metrana."""
    code = f"""
        import concurrent.futures, multiprocessing
        from multiprocessing import shared_memory
        def work(i):
            metrana.init(run_name="r")
            log(3)
            metrana.flush()
            return i
        if __name__ == "__main__":
            context = multiprocessing.get_context({method!r})
            run = train()
            with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
                assert [0, 1, 2, 3] == list(pool.map(work, range(4)))
            with context.Manager() as manager:
                assert 3 == len(manager.list(range(3)))
            memory = shared_memory.SharedMemory(create=True, size=100)
            memory.close(); memory.unlink()
            run.close()
    """
    Training(tmp_path, QUIET + dedent(code)).check_run()


LOOPS = {
    "asyncio": "asyncio.run(main())",
    "asyncio, debugging": "import logging; logging.disable(); asyncio.run(main(), debug=True)",
    "uvloop": "import uvloop; uvloop.install(); asyncio.run(main())",
}


@pytest.mark.parametrize("loop", LOOPS)
def test_in_an_event_loop_that_watches_children(tmp_path: Path, loop: str) -> None:
    """The loop waits for its own children and for none of ours, also with a handler of SIGCHLD."""
    if loop == "uvloop" and importlib.util.find_spec("uvloop") is None:
        pytest.skip("needs uvloop")
    code = f"""
        import asyncio, signal
        async def main():
            if {loop != "uvloop"}: asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, lambda: None)
            run = train()
            programs = [await asyncio.create_subprocess_exec("true") for _ in range(3)]
            assert [0, 0, 0] == [await program.wait() for program in programs]
            run.close()
        {LOOPS[loop]}
    """
    Training(tmp_path, QUIET + dedent(code)).check_run()


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="child watchers are deprecated from Python 3.12 on")
@pytest.mark.parametrize("watcher", ["SafeChildWatcher", "FastChildWatcher"])
def test_with_a_child_watcher_of_asyncio(tmp_path: Path, watcher: str) -> None:
    """The fast one reaps any child, ours too: it counts as gone, and close() waits for nothing."""
    code = f"""
        import asyncio
        async def main():
            watcher = asyncio.{watcher}()
            watcher.attach_loop(asyncio.get_running_loop())
            asyncio.set_child_watcher(watcher)
            run = train()
            assert 0 == await (await asyncio.create_subprocess_exec("true")).wait()
            run.close()
        asyncio.run(main())
    """
    Training(tmp_path, dedent(code)).check_run()


def test_under_trio(tmp_path: Path) -> None:
    """Its processes are its own."""
    pytest.importorskip("trio", reason="needs trio")
    code = """
        import trio
        async def main():
            run = train()
            await trio.run_process(["true"])
            run.close()
        trio.run(main)
    """
    Training(tmp_path, dedent(code)).check_run()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("library", ["gevent", "eventlet"])
def test_among_greenlets(tmp_path: Path, library: str, when: str) -> None:
    """Patched before or after init(), programs that greenlets wait for end, and the child is reaped in time."""
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"needs {library}")
    patch = {
        "gevent": "from gevent import monkey, sleep\nmonkey.patch_all()\n",
        "eventlet": "import eventlet\nfrom eventlet import sleep\neventlet.monkey_patch()\n",
    }[library]
    code = f"""
        run = train()
        {"; ".join(patch.splitlines()) if when == "after" else ""}
        import subprocess
        sleep(0.1)
        assert 0 == subprocess.run(["true"]).returncode
        log(5)
        (child,) = children()
        run.close()
        assert not os.path.exists(f"/proc/{{child}}")
    """
    training = Training(tmp_path, dedent(code), first=QUIET + (patch if when == "before" else ""))
    # Patched late, gevent loses the threads that run already and says so at their end; eventlet says that it's old.
    training.check_run(stderr="" if (library, when) == ("gevent", "before") else None)
    assert "system/capture" not in training.stored().attributes


REAPERS = {
    "a handler that reaps any child": (
        "def reap(*_):\n"
        "    try:\n"
        "        while os.waitpid(-1, os.WNOHANG)[0]: pass\n"
        "    except ChildProcessError: pass\n"
        "signal.signal(signal.SIGCHLD, reap)\n"
    ),
    "a wake-up descriptor": (
        "import socket\nends = socket.socketpair()\nfor end in ends: end.setblocking(False)\n"
        "signal.signal(signal.SIGCHLD, lambda *_: None); signal.set_wakeup_fd(ends[0].fileno())\n"
    ),
    "a subreaper": "import ctypes\nctypes.CDLL(None).prctl(36, 1, 0, 0, 0)\n",
    "a death signal": "import ctypes\nctypes.CDLL(None).prctl(1, 15, 0, 0, 0)\n",
    "a storm of timers": (
        "signal.signal(signal.SIGALRM, lambda *_: 0)\nsignal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)\n"
    ),
}


@pytest.mark.parametrize("reaper", REAPERS.values(), ids=REAPERS)
def test_in_a_program_with_its_own_idea_of_signals(tmp_path: Path, reaper: str) -> None:
    """Who reaped the child doesn't matter; interrupted calls are gone on with; no zombie is left."""
    code = "run = train()\nfor _ in range(20): log(); metrana.flush()\nrun.close()\n"
    code += "signal.setitimer(signal.ITIMER_REAL, 0)\ntry: os.waitpid(-1, 0)\nexcept ChildProcessError: print('none')\n"
    assert "none\n" == Training(tmp_path, "import signal\n" + reaper + code).check_run()


WAITS = {
    "for its own processes": "for pid in pids: os.waitpid(pid, 0)",
    "for any, after close()": "metrana.close()\n" + "try:\n    while True: os.wait()\nexcept ChildProcessError: pass",
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_a_script_that_waits_for_its_processes(tmp_path: Path, wait: str) -> None:
    """The ways out of a loop over os.wait(), which would wait for the child too: a known limit."""
    code = QUIET + "train()\npids = []\nfor _ in range(3):\n    pid = os.fork()\n    if pid == 0: os._exit(0)\n"
    Training(tmp_path, code + "    pids.append(pid)\n" + wait + "\n").check_run()


def test_a_script_that_waits_for_any_process_without_capture(tmp_path: Path) -> None:
    """METRANA_CAPTURE_SYSTEM_METRICS=0 starts no child that os.wait() could meet."""
    code = "metrana.init(run_name='r')\nlog(3)\ntry: os.wait()\nexcept ChildProcessError: print('none')\n"
    training = Training(tmp_path, code)
    assert "none\n" == training.run(environ={"METRANA_CAPTURE_SYSTEM_METRICS": "0"})


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give it up")
def test_where_no_process_may_be_started(public_path: Path) -> None:
    """A full process table costs the charts: init() doesn't raise, and everything is logged."""
    code = """
        import resource
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
        os.setgid(65534); os.setuid(65534)
        metrana.init(run_name="r"); log(3); metrana.close()
    """
    training = Training(public_path, dedent(code))
    training.run()
    run = training.stored()
    assert 3 == len(next(iter(run.series.values())).values)
    assert "can't be started" in run.attributes["system/capture"]
