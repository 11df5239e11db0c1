"""The sampling child is launched, and leaves, whatever way a script was started and ends.

Each case runs a real script. The child must be seen, the training must run once, nothing may be printed that the script
didn't print, and nothing may be left running.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import metrana
from tests.scripts import DEADLINE_SECS, Script, children_of, is_alive, read_line, values_of, wait_until

# Waits for the first sample, so that the child has surely been up.
BODY = """
import metrana, os, pathlib, sys, time
def sampled():
    metrana.flush()
    segments = pathlib.Path(os.environ["METRANA_DIR"]).rglob("*.jsonl")
    return any("system/process/rss_bytes" in segment.read_text() for segment in segments)
def train():
    print("training", flush=True)  # a pool's worker is killed, with what it has buffered
    run = metrana.init(run_name="r", system_metrics_interval_secs=1)
    end = time.monotonic() + 100
    while not sampled() and time.monotonic() < end:
        metrana.log("loss", 0.5)
        time.sleep(0.02)
    return run
"""

NEVER_STARTED = "the run ended before the sampling process had started"
PACKAGES = str(Path(metrana.__file__).parent.parent)


def check(script: Script, out: str, trainings: int = 1) -> None:
    """The training ran so many times, and the hardware was charted."""
    assert trainings == out.count("training")
    run = script.stored()
    assert 1 <= len(values_of(run, "system/memory/used_bytes"))
    assert "ok" == run.attributes["system/capture/process"]


def test_without_a_main_guard(tmp_path: Path) -> None:
    """The child never runs the script again."""
    script = Script(tmp_path, BODY + "train()\n")
    check(script, script.run())


def test_as_a_command_line_program(tmp_path: Path) -> None:
    """python -c."""
    script = Script(tmp_path, "")
    check(script, script.run(sys.executable, "-c", BODY + "train()\n"))


def test_as_a_module(tmp_path: Path) -> None:
    """python -m package, whose __main__ has no guard."""
    script = Script(tmp_path, "")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__main__.py").write_text(BODY + "train()\n")
    check(script, script.run(sys.executable, "-m", "package"))
    assert "package" != script.infos()[0].run_name


def test_from_standard_input(tmp_path: Path) -> None:
    """python - < script: there's no file that could be imported again."""
    script = Script(tmp_path, BODY + "train()\n")
    check(script, script.run("sh", "-c", f'"{sys.executable}" - < "{script.path}"'))


def test_from_a_zip(tmp_path: Path) -> None:
    """python app.pyz."""
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__main__.py").write_text(BODY + "train()\n")
    script = Script(tmp_path, "")
    script.run(sys.executable, "-m", "zipapp", "app", "-o", "app.pyz")
    check(script, script.run(sys.executable, "app.pyz"))


def test_in_a_test_under_pytest(tmp_path: Path) -> None:
    """Output is captured, and warnings are errors."""
    script = Script(tmp_path, BODY + "def test_it():\n    train().close()\n", name="test_it.py")
    out = script.run(sys.executable, "-m", "pytest", "-q", "-s", "-W", "error", "-p", "no:cacheprovider", "test_it.py")
    assert "1 passed" in out
    check(script, out)


@pytest.mark.parametrize("flags", [["-W", "error"], ["-B"], ["-O"], ["-X", "dev"], ["-u"], ["-s"]])
def test_with_flags_of_the_interpreter(tmp_path: Path, flags: list[str]) -> None:
    """No warning of ours becomes an exception, no leaked descriptor a ResourceWarning."""
    script = Script(tmp_path, BODY + "train()\n")
    check(script, script.run(sys.executable, *flags, str(script.path)))


def test_without_site_packages(tmp_path: Path) -> None:
    """python -S, packages only through PYTHONPATH."""
    script = Script(tmp_path, BODY + "train()\n")
    path = os.pathsep.join(p for p in sys.path if p and os.path.isdir(p) and "site-packages" in p or p == PACKAGES)
    check(script, script.run(sys.executable, "-S", str(script.path), environ={"PYTHONPATH": path}))


def test_from_a_target_folder(tmp_path: Path) -> None:
    """Packages put beside the script by ``pip install --target`` are found although they're in the script's folder."""
    script = Script(tmp_path, BODY + "train()\n")
    for name in ("metrana", "psutil", "portalocker"):
        package = Path(__import__(name).__file__ or "").parent
        shutil.copytree(package, tmp_path / name)
        for metadata in package.parent.glob(f"{name}-*.dist-info"):
            shutil.copytree(metadata, tmp_path / metadata.name)
    check(script, script.run(sys.executable, "-S", str(script.path)))


SHADOWED = ("queue", "psutil", "pynvml", "platform", "secrets", "socket", "selectors", "tempfile", "random", "shutil")


@pytest.mark.parametrize("where", ["script folder", "working folder"])
def test_beside_modules_with_the_names_of_others(tmp_path: Path, where: str) -> None:
    """A script's own queue.py is the script's affair: it gets its own, metrana gets the standard library's."""
    script = Script(tmp_path, BODY + "train()\nimport queue\nprint('own', getattr(queue, 'OWN', False))\n")
    folder = tmp_path if where == "script folder" else tmp_path / "work"
    folder.mkdir(exist_ok=True)
    for name in SHADOWED:
        (folder / f"{name}.py").write_text("OWN = True\n")
    out = script.run("sh", "-c", f'cd "{folder}" && exec "{sys.executable}" "{script.path}"')
    check(script, out)
    assert f"own {where == 'script folder'}" in out


def test_after_importing_a_module_with_the_name_of_another(tmp_path: Path) -> None:
    """The script's own module stays its own."""
    script = Script(tmp_path, "import queue\nmine = queue\n" + BODY + "train()\nimport queue\nassert queue is mine\n")
    (tmp_path / "queue.py").write_text("OWN = True\n")
    check(script, script.run())


def test_where_sys_executable_is_empty(tmp_path: Path) -> None:
    """An application that embeds Python."""
    script = Script(tmp_path, "import sys\nsys.executable = ''\n" + BODY + "train()\n")
    check(script, script.run())


def test_where_sys_executable_is_another_program(tmp_path: Path) -> None:
    """The application itself must not be started again."""
    application = tmp_path / "application"
    application.write_text(f"#!/bin/sh\necho started >> {tmp_path}/started\n")
    application.chmod(0o755)
    script = Script(tmp_path, f"import sys\nsys.executable = {str(application)!r}\n" + BODY + "train()\n")
    check(script, script.run())
    assert not (tmp_path / "started").exists()


def test_through_a_link_with_blanks_in_its_name(tmp_path: Path) -> None:
    """A virtual environment in an oddly named folder."""
    folder = tmp_path / "a b é"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=DEADLINE_SECS)
    script = Script(tmp_path, BODY + "train()\n")
    path = os.pathsep.join(p for p in sys.path if p and os.path.isdir(p) and "site-packages" in p or p == PACKAGES)
    check(script, script.run(str(folder / "bin" / "python"), str(script.path), environ={"PYTHONPATH": path}))


def test_in_a_deleted_working_folder(tmp_path: Path) -> None:
    """Nothing asks for it."""
    script = Script(tmp_path, BODY + "train()\n")
    gone = tmp_path / "gone"
    gone.mkdir()
    check(script, script.run("sh", "-c", f'cd "{gone}" && rmdir "{gone}" && exec "{sys.executable}" "{script.path}"'))


def test_with_standard_streams_closed(tmp_path: Path) -> None:
    """The numbers 0 to 2 are free, and no pipe may land there."""
    script = Script(tmp_path, BODY.replace('print("training", flush=True)', "pass") + "train()\n")
    script.run("sh", "-c", f'exec "{sys.executable}" "{script.path}" <&- >&- 2>&-')
    check(script, "training")


def test_with_thousands_of_inherited_descriptors(tmp_path: Path) -> None:
    """The child holds none of them."""
    script = Script(
        tmp_path,
        "import os, resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))\n"
        "for i in range(3000): os.dup2(0, 100 + i)\n" + BODY + "train()\n"
        "import psutil\n(child,) = psutil.Process().children()\nprint('descriptors', child.num_fds())\n",
    )
    out = script.run()
    check(script, out)
    (line,) = [line for line in out.splitlines() if line.startswith("descriptors")]
    assert int(line.split()[1]) < 20


def test_where_no_descriptor_is_left(tmp_path: Path) -> None:
    """init() doesn't raise; what was logged is there once descriptors are."""
    script = Script(
        tmp_path,
        """
        import metrana, os, resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        held = []
        try:
            while True: held.append(os.open("/dev/null", os.O_RDONLY))
        except OSError: pass
        metrana.init(run_name="r")
        metrana.log("loss", 1.0)
        for fd in held: os.close(fd)
        metrana.log("loss", 2.0)
        """,
    )
    script.run()
    run = script.stored()
    assert [1.0, 2.0] == values_of(run, "loss")
    assert "can't be started" in run.attributes["system/capture"]


def test_where_no_thread_can_be_started(tmp_path: Path) -> None:
    """No child stays behind, and everything is logged."""
    script = Script(
        tmp_path,
        """
        import metrana, threading, os
        def refuse(self): raise RuntimeError("can't start new thread")
        threading.Thread.start = refuse
        metrana.init(run_name="r")
        metrana.log("loss", 1.0)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            print("no child")
        """,
    )
    assert "no child" in script.run()
    assert [1.0] == values_of(script.stored(), "loss")


def test_in_a_daemonic_worker_of_a_pool(tmp_path: Path) -> None:
    """Daemonic processes may not have children of multiprocessing's; ours isn't one."""
    script = Script(
        tmp_path,
        BODY + "def work(i):\n    train().close()\n    return i\n"
        "if __name__ == '__main__':\n"
        "    import multiprocessing\n"
        "    with multiprocessing.get_context('fork').Pool(1) as pool: print(pool.map(work, [7]))\n",
    )
    out = script.run()
    assert "[7]" in out
    check(script, out)


def test_in_a_program_that_joins_all_its_children(tmp_path: Path) -> None:
    """multiprocessing doesn't know the child, and the start method is still the script's to choose."""
    script = Script(
        tmp_path,
        BODY + "train()\nimport multiprocessing\n"
        "for child in multiprocessing.active_children(): child.join()\n"
        "multiprocessing.set_start_method('spawn')\n",
    )
    check(script, script.run())


def test_with_sigchld_ignored(tmp_path: Path) -> None:
    """The kernel reaps the child by itself."""
    script = Script(tmp_path, "import signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n" + BODY + "train()\n")
    check(script, script.run())


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give it up")
def test_in_a_program_that_gives_up_root(public_path: Path) -> None:
    """It can't signal its child any more; the child leaves by itself."""
    script = Script(public_path, BODY + "run = train()\nos.setgid(65534)\nos.setuid(65534)\nrun.close()\n")
    check(script, script.run())


def test_an_exit_code_is_kept(tmp_path: Path) -> None:
    """sys.exit(3) is 3."""
    script = Script(tmp_path, BODY + "train()\nsys.exit(3)\n")
    check(script, script.run(code=3))


def test_an_exception_shows_only_its_own_traceback(tmp_path: Path) -> None:
    """Nothing of metrana's, nothing of multiprocessing's."""
    script = Script(tmp_path, BODY + "train()\nraise ValueError('user error')\n")
    process = script.start()
    _, err = process.communicate(timeout=DEADLINE_SECS)
    assert "user error" in err
    assert "metrana" not in err
    assert "multiprocessing" not in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM])
def test_a_signal_to_the_whole_group_is_the_trainings_affair(tmp_path: Path, number: signal.Signals) -> None:
    """The child prints nothing, goes on, and takes its last sample when the training closes the run."""
    script = Script(
        tmp_path,
        BODY + "import signal\ngot = []\n"
        f"signal.signal({int(number)}, lambda *_: got.append(1))\n"
        "run = train()\nprint('up', flush=True)\nwhile not got: time.sleep(0.01)\nrun.close()\nprint('got it')\n",
    )
    process = script.start(start_new_session=True)
    try:
        out = read_line(process) + read_line(process)
        (child,) = children_of(process.pid)
        # The child has its own memory of the signal only if it lives on: nothing can be awaited but the end.
        os.killpg(process.pid, number)
        rest, err = process.communicate(timeout=DEADLINE_SECS)
    finally:
        process.kill()
    assert (0, "") == (process.returncode, err)
    assert "got it" in rest
    check(script, out)
    assert "system/capture" not in script.stored().attributes
    assert not is_alive(child)


def test_a_stopped_child_does_not_hold_up_the_exit(tmp_path: Path) -> None:
    """It's killed within the two seconds that close() may take; what was logged is there, and no lock file is left."""
    script = Script(
        tmp_path,
        BODY + "run = train()\nimport signal\n"
        "import psutil\n(child,) = [child.pid for child in psutil.Process().children()]\n"
        "os.kill(child, signal.SIGSTOP)\n"
        "while open(f'/proc/{child}/stat').read().rpartition(')')[2].split()[0] != 'T': time.sleep(0.01)\n"
        "metrana.log('loss', 7.0)\nrun.close()\nprint('child', os.path.exists(f'/proc/{child}'))\n",
    )
    out = script.run()
    assert "child False" in out
    assert 7.0 == values_of(script.stored(), "loss")[-1]
    assert [] == script.lock_files()


def test_the_child_goes_when_its_parent_becomes_another_program(tmp_path: Path) -> None:
    """exec keeps the pid; the end of the control pipe tells."""
    script = Script(tmp_path, BODY + "train()\nprint('up', flush=True)\nos.execv('/bin/sleep', ['sleep', '600'])\n")
    process = script.start()
    try:
        assert ["training\n", "up\n"] == [read_line(process), read_line(process)]
        wait_until(lambda: not children_of(process.pid), "the child's end")
    finally:
        process.kill()
        process.communicate()


def test_the_child_goes_although_a_forked_copy_lives_on(tmp_path: Path) -> None:
    """The copy holds every descriptor of the original: only the process's own end counts."""
    script = Script(
        tmp_path,
        BODY + "train()\nimport warnings\nwarnings.simplefilter('ignore')\n"
        "import psutil\n(child,) = [child.pid for child in psutil.Process().children()]\n"
        "if os.fork() == 0:\n"
        "    end = time.monotonic() + 100\n"
        "    while os.path.exists(f'/proc/{child}') and time.monotonic() < end: time.sleep(0.02)\n"
        "    print('left', os.path.exists(f'/proc/{child}'), flush=True)\n"
        "os._exit(0)\n",
    )
    assert "left False" in script.run()


def test_a_child_that_is_killed_at_the_end_costs_nothing(tmp_path: Path) -> None:
    """The training goes on, and the run closes in order, without lock files."""
    script = Script(
        tmp_path,
        BODY + "run = train()\nimport signal\n"
        "import psutil\n(child,) = [child.pid for child in psutil.Process().children()]\n"
        "os.kill(child, signal.SIGKILL)\n"
        "while os.path.exists(f'/proc/{child}'): time.sleep(0.01)\n"
        "metrana.log('loss', 7.0)\n",
    )
    script.run()
    run = script.stored()
    assert (7.0, "closed") == (values_of(run, "loss")[-1], run.info.status)
    assert values_of(run, "system/memory/used_bytes")
    assert [] == script.lock_files()


def test_nothing_of_the_process_is_changed(tmp_path: Path) -> None:
    """Signal mask and handlers, module path, environment, hooks: as before, during the run and after it."""
    script = Script(
        tmp_path,
        BODY + "import gc, locale, multiprocessing, signal, threading, warnings\n"
        "PUBLISHED = {'METRANA_ORCHESTRATION_ID', 'METRANA_ATTEMPT'}\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1})\n"
        "def state():\n"
        "    umask = os.umask(0o22); os.umask(umask)\n"
        "    main = sys.modules['__main__']\n"
        "    environ = {k: v for k, v in os.environ.items() if k not in PUBLISHED}\n"
        "    return dict(mask=signal.pthread_sigmask(signal.SIG_BLOCK, []), path=list(sys.path), environ=environ,\n"
        "        handlers={s: signal.getsignal(s) for s in signal.valid_signals()}, cwd=os.getcwd(),\n"
        "        umask=umask,\n"
        "        start=multiprocessing.get_start_method(allow_none=True), main=(id(main), main.__file__),\n"
        "        hooks=(sys.excepthook, threading.excepthook, sys.unraisablehook), filters=list(warnings.filters),\n"
        "        locale=locale.setlocale(locale.LC_ALL), switch=sys.getswitchinterval(),\n"
        "        wake=signal.set_wakeup_fd(-1),\n"
        "        limit=sys.getrecursionlimit(), nice=os.getpriority(os.PRIO_PROCESS, 0), meta=list(sys.meta_path))\n"
        "before = state(); run = train(); during = state(); run.close(); gc.collect(); after = state()\n"
        "for key in before:\n"
        "    if not before[key] == during[key] == after[key]:\n"
        "        print('CHANGED', key, before[key], during[key], after[key])\n"
        "print('published', not PUBLISHED.isdisjoint(os.environ))\n",
    )
    out = script.run()
    assert "CHANGED" not in out
    assert "published False" in out


@pytest.mark.parametrize("runs", [20, pytest.param(200, marks=pytest.mark.once)])
def test_many_runs_leave_nothing_behind(tmp_path: Path, runs: int) -> None:
    """As many threads, descriptors, children and entries in /dev/shm as before."""
    script = Script(
        tmp_path,
        """
        import metrana, os, threading, time
        def count():
            # A thread that has been joined may yet have to leave the kernel.
            while len(os.listdir("/proc/self/task")) > threading.active_count(): time.sleep(0.01)
            children = [p for p in os.listdir("/proc") if p.isdigit() and _parent(p) == os.getpid()]
            own = f"/dev/shm/metrana-{os.geteuid()}"
            shm = [run_id for run_id in ids if os.path.exists(f"{own}/{run_id}")]
            threads, descriptors = os.listdir("/proc/self/task"), os.listdir("/proc/self/fd")
            return threading.active_count(), len(threads), len(descriptors), children, shm
        def _parent(pid):
            try: return int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
            except OSError: return 0
        ids = []
        def once(i):
            ids.append(metrana.init(run_name=f"r{i % 3}").id); metrana.log("loss", 1.0); metrana.close()
        once(0)
        before = count()
        for i in range(int(os.environ["RUNS"])): once(i)
        after = count()
        print("same" if before == after else f"{before} {after}")
        """,
    )
    process = script.start(environ={"RUNS": str(runs)})
    out, err = process.communicate(timeout=4 * DEADLINE_SECS)
    assert ("same\n", "", 0) == (out, err, process.returncode)
    assert runs + 1 == len(script.infos())


def test_ticks_keep_coming_while_the_training_holds_the_interpreter(tmp_path: Path) -> None:
    """A call that keeps the GIL for five seconds stops the training process's threads, and not the child's grid."""
    script = Script(
        tmp_path,
        BODY + "import ctypes\nrun = train()\n"
        "start = time.time()\n"
        "ctypes.PyDLL(None).sleep(5)\nprint('held', start, time.time())\nrun.close()\n",
    )
    out = script.run()
    (line,) = [line for line in out.splitlines() if line.startswith("held")]
    start, end = map(float, line.split()[1:])
    (series,) = [s for (name, _), s in script.stored().series.items() if name == "system/disk/total_bytes"]
    held = [t for t in series.timestamps if start <= t <= end]
    assert len(held) >= 5
    assert list(range(len(series.steps))) == list(series.steps)
    # Off the grid by less than half an interval: a tick that had waited for the interpreter would be off by seconds.
    first = series.timestamps[0]
    assert all(abs((t - first) - round(t - first)) < 0.5 for t in held)
    assert [round(t - first) for t in held] == list(range(round(held[0] - first), round(held[0] - first) + len(held)))


def test_capture_that_is_off_starts_nothing(tmp_path: Path) -> None:
    """No child, no thread for it, no attribute of it."""
    script = Script(
        tmp_path,
        """
        import metrana, os
        metrana.init(run_name="r", capture_system_metrics=False)
        metrana.log("loss", 1.0)
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            print("no child")
        """,
    )
    assert "no child" in script.run()
    run = script.stored()
    assert (["loss"], {}) == ([name for name, _ in run.series], run.attributes)


def test_under_gevent(tmp_path: Path) -> None:
    """Real threads read and write: greenlets would freeze the program, or never run."""
    pytest.importorskip("gevent", reason="needs gevent")
    script = Script(
        tmp_path,
        "from gevent import monkey\nmonkey.patch_all()\n" + BODY + "import gevent\nrun = train()\n"
        "gevent.sleep(0.1)\nrun.close()\n",
    )
    check(script, script.run())


def test_close_waits_for_a_child_that_is_still_starting(tmp_path: Path) -> None:
    """A run shorter than its child's start has its two samples all the same, or says that the start took too long."""
    script = Script(tmp_path, "import metrana\nmetrana.init(run_name='r')\nmetrana.close()\n")
    script.run()
    run = script.stored()
    if NEVER_STARTED != run.attributes.get("system/capture"):
        assert 2 == len(values_of(run, "system/disk/total_bytes"))


def test_a_child_that_never_starts_holds_up_no_end(tmp_path: Path) -> None:
    """Its interpreter isn't up within the time that close() takes: the run is closed, and says so."""
    interpreter = tmp_path / "python"
    interpreter.write_text(f"#!/bin/sh\necho $$ > '{tmp_path / 'pid'}'\nexec sleep {DEADLINE_SECS}\n")
    interpreter.chmod(0o755)
    script = Script(
        tmp_path,
        f"""
        import metrana
        from metrana.system import spawn
        spawn.find_interpreter = lambda: {str(interpreter)!r}
        metrana.init(run_name="r")
        metrana.log("loss", 1.0)
        metrana.close()
        """,
    )
    script.run()
    run = script.stored()
    assert ("closed", NEVER_STARTED) == (run.info.status, run.attributes["system/capture"])
    assert [1.0] == values_of(run, "loss")
    assert not is_alive(int((tmp_path / "pid").read_text()))


def test_a_run_of_many_ranks_has_every_process_in_it(tmp_path: Path) -> None:
    """One launcher, four ranks, one of which fails: one run, and nothing left running."""
    script = Script(
        tmp_path,
        """
        import os, subprocess, sys, time
        if "RANK" not in os.environ:
            ranks = [subprocess.Popen([sys.executable, __file__], env=dict(os.environ, RANK=str(i))) for i in range(4)]
            ranks[0].wait()
            for rank in ranks[1:]: rank.terminate()
            for rank in ranks[1:]: rank.wait()
        else:
            import metrana
            metrana.init(run_name="r")
            metrana.log("loss", float(os.environ["RANK"]))
            metrana.flush()
            open(os.environ["RANK"], "w").close()
            while not all(os.path.exists(str(i)) for i in range(4)): time.sleep(0.02)
            if os.environ["RANK"] == "0": raise SystemExit(1)
            time.sleep(600)
        """,
    )
    script.run()
    run = script.stored()
    assert 4 == len(run.info.writers)
    assert [0.0, 1.0, 2.0, 3.0] == sorted(values_of(run, "loss"))


def test_the_child_runs_the_same_metrana_as_its_parent(tmp_path: Path) -> None:
    """Another release that lies beside psutil isn't taken."""
    site = tmp_path / "site"
    for name in ("psutil", "portalocker"):
        shutil.copytree(Path(__import__(name).__file__ or "").parent, site / name)
    (site / "metrana").mkdir()
    (site / "metrana" / "__init__.py").write_text("raise SystemExit('the wrong one')\n")
    script = Script(tmp_path, BODY + "train()\n")
    path = os.pathsep.join([PACKAGES, str(site)])
    check(script, script.run(sys.executable, "-S", str(script.path), environ={"PYTHONPATH": path}))


def test_a_monitor_without_a_run_reports_through_its_callbacks(tmp_path: Path) -> None:
    """Started twice it's one child; a callback that raises costs its batch and is told; it can be started again."""
    script = Script(
        tmp_path,
        """
        import os, threading
        from metrana.system import SystemMonitor
        seen, attributes, enough = [], {}, threading.Event()
        def take(batch):
            seen.append(batch)
            if len(seen) == 1: raise ValueError("not now")
            if len(seen) >= 3: enough.set()
        monitor = SystemMonitor(on_batch=take, on_attributes=attributes.update, interval_secs=1.0)
        for _ in range(2):
            monitor.start()
            monitor.start()
            assert enough.wait(100)
            monitor.stop()
            monitor.stop()
            seen.append(None); seen.append(None); enough.clear()
        print(attributes["system/capture/cpu"], "system/capture" in attributes)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            print("no child")
        """,
    )
    process = script.start()
    out, err = process.communicate(timeout=DEADLINE_SECS)
    assert "ok False\nno child\n" == out
    assert 1 == len(err.splitlines())
    assert err.endswith("raised ValueError\n")


NOTHING_LEFT = """
import psutil, time
end = time.monotonic() + 100
while psutil.Process().children() and time.monotonic() < end: time.sleep(0.01)

assert not psutil.Process().children()
threads = {thread.name for thread in threading.enumerate()}
assert "metrana-drain" not in threads, threads
print("nothing left")
"""


def test_an_interrupt_at_the_end_of_the_start_leaves_nothing(tmp_path: Path) -> None:
    """Ctrl-C while the drain thread comes up: it's there already, and launches no other child."""
    script = Script(
        tmp_path,
        """
import threading
from metrana.system import SystemMonitor
real = threading.Thread.start
def start(thread):
    real(thread)
    if thread.name == "metrana-drain": raise KeyboardInterrupt
threading.Thread.start = start
batches = []
monitor = SystemMonitor(batches.append, interval_secs=1.0)
try:
    monitor.start()
except KeyboardInterrupt:
    print("interrupted")
threading.Thread.start = real
"""
        + NOTHING_LEFT
        + 'monitor.start()\nwhile not batches: time.sleep(0.01)\nmonitor.stop()\nprint("again")\n',
    )
    assert ["interrupted", "nothing left", "again"] == script.run().split("\n")[:3]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_signal_handler_that_closes_while_init_launches(tmp_path: Path, moment: str) -> None:
    """The run is closed, and its child isn't forgotten."""
    script = Script(
        tmp_path,
        f"""
import os, signal, threading, time
import metrana
from metrana.system.supervisor import Supervisor
batches = []
signal.signal(signal.SIGUSR1, lambda *_: metrana.close())
real = Supervisor._launch
def launch(supervisor):
    if {moment == "before"}: os.kill(os.getpid(), signal.SIGUSR1)
    real(supervisor)
    if {moment == "after"}: os.kill(os.getpid(), signal.SIGUSR1)
Supervisor._launch = launch
run = metrana.init(run_name="r", system_metrics_interval_secs=1)
assert run.is_closed
"""
        + NOTHING_LEFT,
    )
    assert "nothing left\n" == script.run()
