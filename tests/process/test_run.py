"""A run in a real process: everything logged is in the store, whatever way the script ends."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from metrana.errors import NoRunError
from metrana.store.reader import read_run
from tests.scripts import (
    DEADLINE_SECS,
    Script,
    children_of,
    is_alive,
    needs_namespaces,
    read_line,
    values_of,
    wait_until,
)

OFF = {"METRANA_CAPTURE_SYSTEM_METRICS": "0"}


def test_what_the_api_promises_is_in_the_store(tmp_path: Path) -> None:
    """Automatic steps, given steps, labels, timestamps, attributes, NaN and infinities."""
    script = Script(
        tmp_path,
        """
        import metrana
        with metrana.init(organization="acme", workspace_name="r/d", project_name="llm", run_name="pré train",
                          config={"lr": 3e-4}, tags=["baseline"]) as run:
            metrana.log("loss", 0.5)
            metrana.log("loss", 0.25)
            metrana.log({"loss": 0.125, "lr": 1}, step=40)
            metrana.log("loss", True)
            metrana.log("reward", 1.0, labels={"policy": "greedy"}, timestamp=1767225600.0)
            for value in (float("nan"), float("inf"), float("-inf")):
                run.log("odd", value)
            metrana.log_attributes({"dataset": "c4", "seed": 1})
        """,
    )
    script.run(environ=OFF)
    run = script.stored()
    loss = run.series["loss", ()]
    assert ([0.5, 0.25, 0.125, 1.0], [0, 1, 40, 41]) == (list(loss.values), list(loss.steps))
    assert [40] == list(run.series["lr", ()].steps)
    reward = run.series["reward", (("policy", "greedy"),)]
    assert ([1.0], [1767225600.0]) == (list(reward.values), list(reward.timestamps))
    odd = run.series["odd", ()].values
    assert math.isnan(odd[0])
    assert [math.inf, -math.inf] == list(odd[1:])
    assert {"config/lr": 3e-4, "tags": ["baseline"], "dataset": "c4", "seed": 1} == run.attributes
    info = run.info
    assert ("acme", "r/d", "llm", "pré train", "closed") == (
        info.organization,
        info.workspace_name,
        info.project_name,
        info.run_name,
        info.status,
    )


def test_a_script_that_forgets_to_close_loses_nothing(tmp_path: Path) -> None:
    """The interpreter's exit closes the run, with a last sample of the hardware."""
    script = Script(
        tmp_path,
        """
        import metrana
        metrana.init(run_name="r")
        metrana.log("loss", 1.0)
        """,
    )
    script.run()
    run = script.stored()
    assert ([1.0], "closed") == (values_of(run, "loss"), run.info.status)
    assert 2 == len(values_of(run, "system/memory/used_bytes"))


@pytest.mark.parametrize("end", ["raise ValueError('boom')", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"])
def test_a_crash_marks_the_run_as_ended_without_a_close(tmp_path: Path, end: str) -> None:
    """An exception that nobody caught, and a kill."""
    script = Script(
        tmp_path,
        f"""
        import metrana
        metrana.init(run_name="r")
        metrana.log("loss", 1.0)
        metrana.flush()
        {end}
        """,
    )
    process = script.start()
    process.communicate(timeout=DEADLINE_SECS)
    assert process.returncode != 0
    run = script.stored()
    assert ([1.0], "ended without a close") == (values_of(run, "loss"), run.info.status)


def test_an_exception_in_the_context_ends_the_run_without_a_close(tmp_path: Path) -> None:
    """The exception goes on, and everything logged is there."""
    script = Script(
        tmp_path,
        """
        import metrana
        try:
            with metrana.init(run_name="r") as run:
                run.log("loss", 1.0)
                raise KeyError("x")
        except KeyError:
            pass
        """,
    )
    script.run(environ=OFF)
    run = script.stored()
    assert ([1.0], "ended without a close") == (values_of(run, "loss"), run.info.status)


def test_a_killed_process_leaves_what_it_logged_and_no_child(tmp_path: Path) -> None:
    """kill -9: what was logged up to a second before is there, and the sampling child follows within two seconds."""
    script = Script(
        tmp_path,
        """
        import metrana, sys, time
        metrana.init(run_name="r", system_metrics_interval_secs=1)
        for i in range(500):
            metrana.log("loss", float(i))
        print(time.time(), flush=True)
        while True:
            metrana.log("tail", time.time())
            time.sleep(0.01)
        """,
    )
    process = script.start()
    try:
        logged_at = float(read_line(process))
        wait_until(lambda: children_of(process.pid), "the sampling child")
        wait_until(lambda: script.store.exists() and _last_time(script) > logged_at + 0.5, "the tail in the store")
        (child,) = children_of(process.pid)
        seen = _last_time(script)
        process.kill()
        process.wait(DEADLINE_SECS)
        wait_until(lambda: not is_alive(child), "the child's end")
    finally:
        process.kill()
        process.communicate()
    run = script.stored()
    assert [float(i) for i in range(500)] == values_of(run, "loss")
    assert _last_time(script) >= seen


def _last_time(script: Script) -> float:
    infos = script.infos()
    if not infos:
        return 0.0
    return max((t for s in script.stored().series.values() for t in s.timestamps), default=0.0)


def test_many_threads_lose_nothing(tmp_path: Path) -> None:
    """Every point of every thread is there, and no step twice."""
    script = Script(
        tmp_path,
        """
        import metrana, sys, threading
        sys.setswitchinterval(1e-5)
        metrana.init(run_name="r")
        def work():
            for i in range(20_000):
                metrana.log("shared", 1.0)
        threads = [threading.Thread(target=work) for _ in range(5)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        metrana.close()
        """,
    )
    script.run(environ=OFF)
    assert list(range(100_000)) == sorted(script.stored().series["shared", ()].steps)


def test_a_million_points_in_a_row_are_all_there(tmp_path: Path) -> None:
    """log() never waits for the disk, and nothing is lost for it."""
    script = Script(
        tmp_path,
        """
        import metrana
        metrana.init(run_name="r")
        for i in range(1_000_000):
            metrana.log("loss", float(i))
        """,
    )
    script.run(environ=OFF)
    series = script.stored().series["loss", ()]
    assert 1_000_000 == len(series.values)
    assert all(series.values[i] == i == series.steps[i] for i in range(0, 1_000_000, 997))


def test_a_value_that_is_no_number_is_one_clear_error(tmp_path: Path) -> None:
    """It names the metric, and nothing of the call is logged."""
    script = Script(
        tmp_path,
        """
        import metrana
        metrana.init(run_name="r")
        try:
            metrana.log({"good": 1.0, "bad": "high"}, step=1)
        except metrana.MetricError as error:
            print(error)
        metrana.log("good", 2.0)
        """,
    )
    assert "'bad'" in script.run(environ=OFF)
    assert [2.0] == values_of(script.stored(), "good")


def test_without_a_run_the_functions_say_so(tmp_path: Path) -> None:
    """Before init() and after close()."""
    script = Script(
        tmp_path,
        """
        import metrana
        def attempt(call):
            try: call()
            except metrana.NoRunError as error: print(error)
        attempt(lambda: metrana.log("loss", 1.0))
        run = metrana.init(run_name="r")
        metrana.log("loss", 1.0)
        metrana.close()
        run.close()
        for call in (lambda: metrana.log("loss", 1.0), metrana.flush, metrana.close,
                     lambda: metrana.log_attributes({}), lambda: run.log("loss", 2.0)):
            attempt(call)
        """,
    )
    lines = script.run(environ=OFF).splitlines()
    assert 6 == len(lines)
    assert all("metrana.init()" in line for line in lines)
    assert [1.0] == values_of(script.stored(), "loss")
    assert issubclass(NoRunError, RuntimeError)


def test_a_second_init_of_the_same_names_returns_the_open_run(tmp_path: Path) -> None:
    """A notebook cell that is run twice goes on with its run."""
    script = Script(
        tmp_path,
        """
        import metrana
        first = metrana.init(run_name="r")
        metrana.log("loss", 1.0)
        assert metrana.init(run_name="r", config={"late": 1}) is first
        metrana.log("loss", 2.0)
        """,
    )
    script.run(environ=OFF)
    run = script.stored()
    assert ([1.0, 2.0], {"config/late": 1}) == (values_of(run, "loss"), run.attributes)


def test_an_init_of_other_names_closes_the_open_run_and_says_so(tmp_path: Path) -> None:
    """One warning, and two closed runs."""
    script = Script(
        tmp_path,
        """
        import metrana
        metrana.init(run_name="one"); metrana.log("loss", 1.0)
        metrana.init(run_name="two"); metrana.log("loss", 2.0)
        """,
    )
    process = script.start(environ=OFF)
    _, err = process.communicate(timeout=DEADLINE_SECS)
    assert 1 == len(err.splitlines())
    assert "'one'" in err
    assert {("one", "closed"), ("two", "closed")} == {(info.run_name, info.status) for info in script.infos()}


def test_running_a_script_again_is_a_new_run_of_the_same_name(tmp_path: Path) -> None:
    """Never a mixture of two."""
    script = Script(tmp_path, "import metrana\nmetrana.init(run_name='r')\nmetrana.log('loss', 1.0)\n")
    for _ in range(2):
        script.run(environ=OFF)
    assert ["r", "r"] == [info.run_name for info in script.infos()]


def test_resume_continues_the_newest_run_of_that_name(tmp_path: Path) -> None:
    """Steps go on from where they stopped, those of the system series too."""
    script = Script(
        tmp_path,
        """
        import metrana, os, pathlib, time
        store = pathlib.Path(os.environ["METRANA_DIR"])
        before = set(store.rglob("*.jsonl"))
        metrana.init(run_name="r", resume=True)
        metrana.log("loss", 1.0); metrana.log("loss", 2.0); metrana.log("acc", 1.0, step=10, labels={"set": "dev"})
        metrana.log("acc", 2.0, labels={"set": "dev"})
        def is_sampled():
            metrana.flush()
            return any("system/disk/total_bytes" in path.read_text() for path in set(store.rglob("*.jsonl")) - before)
        while not is_sampled(): time.sleep(0.02)
        """,
    )
    for _ in range(2):
        script.run()
    run = script.stored()
    assert [0, 1, 2, 3] == list(run.series["loss", ()].steps)
    assert [10, 11] == list(run.series["acc", (("set", "dev"),)].steps)
    (disk,) = [s for (name, _), s in run.series.items() if name == "system/disk/total_bytes"]
    assert [0, 1, 2, 3] == list(disk.steps)


def test_processes_that_a_run_starts_join_it(tmp_path: Path) -> None:
    """The orchestration id is in their environment; afterwards it's gone from this process's own."""
    script = Script(
        tmp_path,
        """
        import metrana, os, subprocess, sys
        if sys.argv[1:] == ["worker"]:
            metrana.init(run_name="r"); metrana.log("worker", 1.0)
        else:
            metrana.init(run_name="r"); metrana.log("main", 1.0)
            subprocess.run([sys.executable, __file__, "worker"], check=True, env=dict(os.environ))
            metrana.close()
            assert "METRANA_ORCHESTRATION_ID" not in os.environ
            metrana.init(run_name="r"); metrana.log("again", 1.0)
        """,
    )
    script.run(environ=OFF)
    again, first = script.infos()
    assert (1, 2) == (len(again.writers), len(first.writers))


@pytest.mark.parametrize(
    ("environ", "runs"),
    [
        ([{"METRANA_ORCHESTRATION_ID": "x"}, {"METRANA_ORCHESTRATION_ID": "x"}], 1),
        ([{"METRANA_ORCHESTRATION_ID": "x"}, {"METRANA_ORCHESTRATION_ID": "y"}], 2),
        ([{"SLURM_JOB_ID": "7", "SLURM_PROCID": "0"}, {"SLURM_JOB_ID": "7", "SLURM_PROCID": "1"}], 1),
        ([{"SLURM_JOB_ID": "7", "SLURM_PROCID": "0"}, {"SLURM_JOB_ID": "8", "SLURM_PROCID": "1"}], 2),
        ([{"SLURM_JOB_ID": "7", "SLURM_PROCID": "0"}, {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0"}], 2),
        ([{"RANK": "0"}, {"RANK": "1"}], 1),
        ([{"RANK": "0"}, {"RANK": "0"}], 2),
        ([{"TORCHELASTIC_RUN_ID": "none"}, {"TORCHELASTIC_RUN_ID": "none"}], 2),
        ([{}, {}], 2),
    ],
)
def test_the_processes_of_one_launch_share_a_run(tmp_path: Path, environ: list[dict[str, str]], runs: int) -> None:
    """By explicit id, by the launcher's, by the common parent; a rank that comes again is a new launch."""
    script = Script(tmp_path, "import metrana\nmetrana.init(run_name='r')\nmetrana.log('loss', 1.0)\n")
    for extra in environ:
        script.run(environ={**OFF, **extra})
    assert runs == len(script.infos())


def test_forked_workers_log_into_the_same_run(tmp_path: Path) -> None:
    """A forked copy gets a writer of its own, and takes nothing from the original."""
    script = Script(
        tmp_path,
        """
        import multiprocessing, metrana, os, warnings
        warnings.simplefilter("ignore")
        run = metrana.init(run_name="r")
        metrana.log("loss", 1.0)
        def work(i):
            run.log("worker", float(i), step=i)
        workers = [multiprocessing.get_context("fork").Process(target=work, args=(i,)) for i in range(3)]
        for worker in workers: worker.start()
        for worker in workers: worker.join(20)
        assert [0, 0, 0] == [worker.exitcode for worker in workers]
        if os.fork() == 0:
            raise SystemExit  # a copy that has nothing to say
        os.wait()
        if os.fork() == 0:
            if os.fork() == 0:
                metrana.log("loss", 3.0)  # a copy of a copy: its steps go on from those of the original
            else:
                os.wait()
            raise SystemExit
        os.wait()
        metrana.log("loss", 2.0)
        """,
    )
    script.run(environ=OFF)
    run = script.stored()
    assert ([1.0, 3.0, 2.0], [0.0, 1.0, 2.0]) == (values_of(run, "loss"), sorted(values_of(run, "worker")))
    assert [0, 1, 1] == list(run.series["loss", ()].steps)
    assert (5, "closed") == (len(run.info.writers), run.info.status)


def test_a_full_disk_loses_nothing_that_fits_later(tmp_path: Path) -> None:
    """Writes that the kernel cuts short and refuses are done again when there's room; one warning tells of it."""
    script = Script(
        tmp_path,
        """
        import metrana, resource
        run = metrana.init(run_name="r")
        metrana.flush()
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, resource.RLIM_INFINITY))
        for i in range(1000):
            metrana.log("loss", float(i))
            if i % 50 == 0:
                try:
                    metrana.flush()
                except metrana.StoreError as error:
                    refused = error
        print(refused)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        """,
    )
    process = script.start(environ=OFF)
    out, err = process.communicate(timeout=DEADLINE_SECS)
    assert 1 == len(err.splitlines()), err
    assert "the store can't be written" in err
    assert "the store can't be written" in out
    run = script.stored()
    assert [float(i) for i in range(1000)] == values_of(run, "loss")
    assert 1 >= run.skipped_lines


def test_a_folder_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    """init() raises before the training has begun, naming the folder and the way out."""
    script = Script(
        tmp_path,
        """
        import metrana
        try:
            metrana.init(run_name="r", dir="/proc/nowhere")
        except metrana.StoreError as error:
            print(error)
        """,
    )
    out = script.run()
    assert "/proc/nowhere" in out
    assert "METRANA_DIR" in out


def test_the_store_keeps_itself_out_of_git(tmp_path: Path) -> None:
    """git doesn't see the folder."""
    script = Script(tmp_path, "import metrana\nmetrana.init(run_name='r')\n")
    script.run(environ=OFF)
    assert "*\n" == (script.store / ".gitignore").read_text()


def test_the_exported_run_is_complete(tmp_path: Path) -> None:
    """The command line gives every point back, ready for any tool."""
    script = Script(
        tmp_path, "import metrana\nmetrana.init(run_name='r')\nmetrana.log('a,b', 0.5, labels={'x': '\"'})\n"
    )
    script.run(environ=OFF)
    out = script.run(sys.executable, "-m", "metrana", "export", "r", "--format", "csv")
    head, row = out.splitlines()
    assert "name,labels,step,timestamp,value" == head
    assert row.startswith('"a,b"')
    assert row.endswith(",0.5")


def test_importing_metrana_loads_nothing_heavy(tmp_path: Path) -> None:
    """Neither psutil nor pynvml nor NumPy is loaded into the training process, nor is the driver mapped."""
    script = Script(
        tmp_path,
        """
        import json, sys, metrana
        metrana.init(run_name="r"); metrana.log("loss", 1.0); metrana.flush()
        maps = open("/proc/self/maps").read()
        heavy = [name for name in ("psutil", "pynvml", "numpy", "portalocker", "dataclasses") if name in sys.modules]
        print(json.dumps([heavy, "nvidia-ml" in maps]))
        """,
    )
    assert [[], False] == json.loads(script.run(sys.executable, "-I", "-S", "-c", _isolated(script)))


def _isolated(script: Script) -> str:
    """The script in an interpreter without site-packages' start-up files, which may import things of their own."""
    import metrana

    folder = str(Path(metrana.__file__).parent.parent)
    return f"import sys; sys.path.append({folder!r}); exec(open({str(script.path)!r}).read())"


def test_logging_to_a_closed_terminal_is_no_failure(tmp_path: Path) -> None:
    """A warning that can't be printed is lost, and nothing else."""
    script = Script(tmp_path, "import metrana\nmetrana.init(run_name='r')\nmetrana.log('loss', 1.0)\n")
    process = subprocess.run(
        ["sh", "-c", f'exec "{sys.executable}" "{script.path}" 2>&-'],
        env=script.environment({"METRANA_SYSTEM_METRICS_INTERVAL_SECS": "often"}),
        cwd=tmp_path,
        timeout=DEADLINE_SECS,
        check=False,
    )
    assert 0 == process.returncode
    assert [1.0] == values_of(script.stored(), "loss")


def test_a_terminated_script_leaves_no_child(tmp_path: Path) -> None:
    """SIGTERM without a handler ends Python at once; the child sees it."""
    script = Script(
        tmp_path,
        """
        import metrana, time
        metrana.init(run_name="r")
        print("up", flush=True)
        time.sleep(600)
        """,
    )
    process = script.start()
    try:
        read_line(process)
        wait_until(lambda: children_of(process.pid), "the sampling child")
        (child,) = children_of(process.pid)
        os.kill(process.pid, signal.SIGTERM)
        process.wait(DEADLINE_SECS)
        wait_until(lambda: not is_alive(child), "the child's end")
    finally:
        process.kill()
        process.communicate()


def test_restarted_workers_of_torchrun_go_on_in_their_run(tmp_path: Path) -> None:
    """The same id and rank again, but the launcher says that it's a restart: no new launch."""
    script = Script(tmp_path, "import metrana\nmetrana.init(run_name='r')\nmetrana.log('loss', 1.0)\n")
    launch = {**OFF, "TORCHELASTIC_RUN_ID": "job", "RANK": "0"}
    script.run(environ={**launch, "TORCHELASTIC_RESTART_COUNT": "0"})
    script.run(environ={**launch, "TORCHELASTIC_RESTART_COUNT": "0"})
    script.run(environ={**launch, "TORCHELASTIC_RESTART_COUNT": "1"})
    assert [2, 1] == [len(info.writers) for info in script.infos()]


def test_a_signal_handler_may_close_the_run_at_any_moment(tmp_path: Path) -> None:
    """Also while its own thread is inside flush(), as a pre-emption's SIGTERM finds it."""
    script = Script(
        tmp_path,
        """
        import metrana, os, signal, sys, threading
        run = metrana.init(run_name="r")
        def end(*_):
            metrana.flush(); metrana.close(); print("closed", flush=True); os._exit(0)
        signal.signal(signal.SIGTERM, end)
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM)).start()
        step = 0
        while True:
            metrana.log("loss", float(step)); step += 1
            metrana.flush()
        """,
    )
    assert "closed" in script.run(environ=OFF)
    assert "closed" == script.stored().info.status


def test_a_dead_child_and_a_default_sigpipe_do_not_end_the_training(tmp_path: Path) -> None:
    """Scripts that set SIGPIPE back are common."""
    script = Script(
        tmp_path,
        """
        import metrana, os, psutil, signal, time
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        metrana.init(run_name="r"); metrana.log("loss", 1.0)
        children = [child.pid for child in psutil.Process().children()]
        for child in children:
            os.kill(child, signal.SIGKILL)
            while os.path.exists(f"/proc/{child}"): time.sleep(0.01)
        metrana.close()
        print("here")
        """,
    )
    assert "here" in script.run()
    assert "closed" == script.stored().info.status


def test_an_interrupt_of_close_loses_nothing(tmp_path: Path) -> None:
    """Ctrl-C while close() waits for the child: the exit finishes what it began."""
    script = Script(
        tmp_path,
        """
        import metrana, os, psutil, signal, time, threading
        run = metrana.init(run_name="r")
        for i in range(1000): metrana.log("loss", float(i))
        children = [child.pid for child in psutil.Process().children()]
        for child in children: os.kill(child, signal.SIGSTOP)
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            metrana.close()
        except KeyboardInterrupt:
            print("interrupted")
        """,
    )
    assert "interrupted" in script.run()
    run = script.stored()
    assert (1000, "closed") == (len(values_of(run, "loss")), run.info.status)


def test_a_closed_run_takes_nothing_from_threads_that_were_logging(tmp_path: Path) -> None:
    """They get the error, and not silence."""
    script = Script(
        tmp_path,
        """
        import metrana, sys, threading
        sys.setswitchinterval(1e-6)
        run = metrana.init(run_name="r")
        results = []
        def work(n):
            i = 0
            try:
                while True:
                    run.log(f"m{n}.{i}", 1.0); i += 1
            except metrana.NoRunError:
                results.append(n)
        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads: thread.start()
        run.flush()
        run.close()
        for thread in threads: thread.join(20)
        print(sorted(results))
        """,
    )
    assert "[0, 1, 2, 3]" in script.run(environ=OFF)


def test_an_attribute_that_json_cannot_hold_costs_nothing_else(tmp_path: Path) -> None:
    """A number of five thousand digits, a thing that contains itself, one that can't be shown."""
    script = Script(
        tmp_path,
        """
        import metrana
        class Mute:
            def __str__(self): raise RuntimeError
            __repr__ = __str__
        loop = {}; loop["self"] = loop
        metrana.init(run_name="r", config={"big": 10**5000, "loop": loop, "mute": Mute()})
        metrana.log_attributes({"big": 10**5000, "loop": loop, "mute": Mute()})
        metrana.log("loss", 1.0)
        """,
    )
    script.run(environ=OFF)
    run = script.stored()
    assert [1.0] == values_of(run, "loss")
    assert hex(10**5000) == run.attributes["big"]
    assert "<Mute>" == run.attributes["mute"]


def test_three_runs_in_a_row_are_three_runs(tmp_path: Path) -> None:
    """The id that a run publishes for its children is none of the next run's."""
    script = Script(
        tmp_path,
        """
        import metrana
        for name in ("a", "b", "a"):
            metrana.init(run_name=name); metrana.log("loss", 1.0)
        """,
    )
    script.run(environ=OFF, stderr=None)
    assert ["a", "b", "a"] == [info.run_name for info in script.infos()]


def test_threads_that_open_the_same_run_share_it(tmp_path: Path) -> None:
    """One run, one child, whoever comes first."""
    script = Script(
        tmp_path,
        """
        import metrana, threading
        runs = []
        threads = [threading.Thread(target=lambda: runs.append(metrana.init(run_name="r"))) for _ in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(len(set(map(id, runs))))
        """,
    )
    assert "1\n" == script.run()
    assert 1 == len(script.stored().info.writers)


def test_the_same_names_in_another_folder_are_another_run(tmp_path: Path) -> None:
    """dir= is heeded, and the change is said."""
    script = Script(
        tmp_path,
        f"""
        import metrana
        metrana.init(run_name="r"); metrana.log("loss", 1.0)
        metrana.init(run_name="r", dir={str(tmp_path / "other")!r}); metrana.log("loss", 2.0)
        """,
    )
    script.run(environ=OFF, stderr=None)
    assert [1.0] == values_of(script.stored(), "loss")
    script.store = tmp_path / "other"
    assert [2.0] == values_of(script.stored(), "loss")


@pytest.mark.parametrize("bad", ["a\\0b", "\\ud800"])
def test_an_orchestration_id_that_no_environment_holds_is_one_clear_error(tmp_path: Path, bad: str) -> None:
    """Before anything was opened."""
    script = Script(
        tmp_path,
        f"""
        import metrana
        try:
            metrana.init(orchestration_id="{bad}")
        except metrana.SettingError as error:
            print("orchestration_id=" in str(error))
        """,
    )
    assert "True" in script.run(environ=OFF)
    assert not script.store.exists()


def test_resuming_a_crashed_run_mends_its_status(tmp_path: Path) -> None:
    """What counts is how the last launch ended."""
    script = Script(
        tmp_path,
        """
        import metrana, os, sys
        metrana.init(run_name="r", resume=True); metrana.log("loss", 1.0); metrana.flush()
        if sys.argv[1:] == ["crash"]: os._exit(1)
        """,
    )
    script.run(sys.executable, str(script.path), "crash", environ=OFF, code=1)
    assert "ended without a close" == script.stored().info.status
    script.run(environ=OFF)
    assert "closed" == script.stored().info.status


def test_a_killed_worker_does_not_make_a_closed_run_a_crashed_one(tmp_path: Path) -> None:
    """A pool just kills its forked workers."""
    script = Script(
        tmp_path,
        """
        import metrana, multiprocessing, warnings
        warnings.simplefilter("ignore")
        metrana.init(run_name="r"); metrana.log("loss", 1.0)
        def work(i):
            metrana.log("worker", float(i)); metrana.flush()
        with multiprocessing.get_context("fork").Pool(2) as pool: pool.map(work, range(4))
        """,
    )
    script.run(environ=OFF)
    assert "closed" == script.stored().info.status


def test_a_script_that_exits_in_the_context_has_closed_its_run(tmp_path: Path) -> None:
    """sys.exit() is an end that it chose."""
    script = Script(tmp_path, "import metrana, sys\nwith metrana.init(run_name='r'): sys.exit(0)\n")
    script.run(environ=OFF)
    assert "closed" == script.stored().info.status


CONTAINER = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
UNTIL_TOLD = """
import metrana, sys
metrana.init(run_name="r"); metrana.log("loss", 1.0); metrana.flush()
print("up", flush=True)
sys.stdin.read()
"""


def test_a_run_of_another_container_is_running_while_it_writes(tmp_path: Path) -> None:
    """Its pid means nothing here, although the host's name is the same."""
    needs_namespaces("--pid", "--fork")
    script = Script(tmp_path, UNTIL_TOLD)
    process = script.start(*CONTAINER, sys.executable, str(script.path), environ=OFF, stdin=subprocess.PIPE)
    try:
        assert "up\n" == read_line(process)
        assert "running" == script.stored().info.status
    finally:
        process.kill()
        process.communicate()


def test_threads_of_a_forked_worker_share_its_writer(tmp_path: Path) -> None:
    """They all begin at once; none may write where the original does."""
    script = Script(
        tmp_path,
        """
        import metrana, os, sys, threading, warnings
        warnings.simplefilter("ignore")
        sys.setswitchinterval(1e-6)
        run = metrana.init(run_name="r"); run.log("w", 0.0); run.flush()
        for _ in range(15):
            if os.fork() == 0:
                barrier = threading.Barrier(4)
                def work():
                    barrier.wait(); run.log("w", 1.0)
                threads = [threading.Thread(target=work) for _ in range(4)]
                for thread in threads: thread.start()
                for thread in threads: thread.join()
                run.close(); os._exit(0)
            os.wait()
        """,
    )
    script.run(environ=OFF)
    run = script.stored()
    assert (61, 16, "closed") == (len(values_of(run, "w")), len(run.info.writers), run.info.status)
    assert all(1 == len(writer.segments) for writer in run.info.writers)


@pytest.mark.once
def test_logging_without_a_pause_loses_nothing_and_stays_close_to_the_disk(tmp_path: Path) -> None:
    """Several threads log faster than their points can be encoded: they make room for it."""
    script = Script(
        tmp_path,
        """
        import metrana, threading
        run = metrana.init(run_name="r")
        most = 0
        def work():
            global most
            for i in range(300_000):
                metrana.log("x", 1.0)
                if i % 1000 == 0: most = max(most, len(run._spool.entries))
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        metrana.close()
        print(most)
        """,
    )
    most = int(script.run(environ=OFF))
    assert 1_200_000 == len(script.stored().series["x", ()].values)
    assert most < 400_000


def test_a_removed_store_is_made_anew(tmp_path: Path) -> None:
    """What's logged afterwards is there, and one warning tells of it."""
    script = Script(
        tmp_path,
        """
        import metrana, os, shutil
        metrana.init(run_name="r"); metrana.log("x", 1.0); metrana.flush()
        shutil.rmtree(os.environ["METRANA_DIR"])
        for i in range(5): metrana.log("x", float(i)); metrana.flush()
        """,
    )
    process = script.start(environ=OFF)
    _, err = process.communicate(timeout=DEADLINE_SECS)
    assert 1 == len(err.splitlines())
    assert [0.0, 1.0, 2.0, 3.0, 4.0] == values_of(script.stored(), "x")


def test_the_trainings_of_one_driver_are_runs_of_their_own(tmp_path: Path) -> None:
    """One after the other under one name; a worker under the driver's own name joins the driver."""
    script = Script(
        tmp_path,
        """
        import metrana, subprocess, sys
        if len(sys.argv) > 1:
            metrana.init(run_name=sys.argv[1]); metrana.log("loss", 1.0)
        else:
            metrana.init(run_name="sweep"); metrana.log("trial", 1.0)
            for name in ("train", "train", "sweep", "sweep"):
                subprocess.run([sys.executable, __file__, name], check=True)
        """,
    )
    script.run(environ=OFF)
    assert {("train", 1): 2, ("sweep", 3): 1} == Counter((i.run_name, len(i.writers)) for i in script.infos())


def test_folds_in_one_process_are_runs_of_their_own(tmp_path: Path) -> None:
    """Also where a launcher's id would make them one."""
    script = Script(
        tmp_path,
        """
        import metrana
        for _ in range(3):
            with metrana.init(run_name="fold") as run: run.log("loss", 1.0)
        """,
    )
    script.run(environ={**OFF, "SLURM_JOB_ID": "9", "SLURM_PROCID": "0"})
    assert [1, 1, 1] == [len(info.writers) for info in script.infos()]


def test_a_full_disk_is_told_at_once(tmp_path: Path) -> None:
    """Not only when the run is closed."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a small file system")
    script = Script(tmp_path, "")
    script.path.write_text(
        "import metrana, os\nstore = os.environ['METRANA_DIR']\n"
        "fd = os.open(os.path.join(store, 'filler'), os.O_CREAT | os.O_WRONLY)\n"
        "try:\n    while True: os.write(fd, bytes(4096))\nexcept OSError: pass\n"
        "metrana.init(run_name='r')\nmetrana.log('x', 1.0)\n"
        "try: metrana.flush()\nexcept metrana.StoreError as error: print('refused')\n"
        "os.ftruncate(fd, 0)\nmetrana.flush()\n"
    )
    script.store.mkdir()
    mount = f'mount -t tmpfs -o size=64k none "{script.store}" || exit 77; "{sys.executable}" train.py && '
    copy = f'cp -r "{script.store}" "{tmp_path}/copy"'
    process = script.start("unshare", "-m", "--propagation", "private", "sh", "-c", mount + copy, environ=OFF)
    out, err = process.communicate(timeout=DEADLINE_SECS)
    if process.returncode == 77:
        pytest.skip("no file system can be mounted here")
    assert (0, "refused\n") == (process.returncode, out), err
    assert "No space left" in err.splitlines()[0]
    script.store = tmp_path / "copy"
    assert [1.0] == values_of(script.stored(), "x")


def test_a_chosen_id_is_published_as_it_is(tmp_path: Path) -> None:
    """And taken as it is by whoever has it: also after everybody in the run has ended."""
    script = Script(
        tmp_path,
        """
        import metrana, os
        metrana.init(run_name="r", orchestration_id="mine")
        print(os.environ["METRANA_ORCHESTRATION_ID"])
        metrana.log("loss", 1.0)
        """,
    )
    for _ in range(2):
        assert "mine\n" == script.run(environ=OFF)
    assert 2 == len(script.stored().info.writers)


def test_on_another_system_capture_is_off_with_one_warning(tmp_path: Path) -> None:
    """Everything else works there."""
    script = Script(
        tmp_path,
        """
        import sys
        sys.platform = "darwin"
        import metrana
        for name in ("a", "b"):
            with metrana.init(run_name=name): metrana.log("loss", 1.0)
        """,
    )
    process = script.start()
    _, err = process.communicate(timeout=DEADLINE_SECS)
    assert 1 == len(err.splitlines()), err
    assert "darwin" in err
    assert ["closed", "closed"] == [info.status for info in script.infos()]
    assert "not on darwin" == read_run(script.infos()[0]).attributes["system/capture"]


def test_a_flush_beside_a_close_always_returns(tmp_path: Path) -> None:
    """Whoever waits for the store's thread is answered, also when that has just ended."""
    script = Script(
        tmp_path,
        """
        import metrana, threading
        for i in range(40):
            run = metrana.init(run_name=f"r{i}")
            def work():
                try:
                    while True: run.log("x", 1.0); run.flush()
                except (metrana.NoRunError, metrana.StoreError):
                    pass
            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads: thread.start()
            closers = [threading.Thread(target=run.close) for _ in range(3)]
            for closer in closers: closer.start()
            for thread in threads + closers: thread.join(20)
            assert not any(thread.is_alive() for thread in threads + closers), i
        """,
    )
    script.run(environ=OFF)
    assert {"closed"} == {info.status for info in script.infos()}


def test_ranks_in_containers_of_one_host_share_a_run(tmp_path: Path) -> None:
    """A pid of another namespace says nothing: its process isn't taken for gone."""
    needs_namespaces("--pid", "--fork")
    script = Script(tmp_path, UNTIL_TOLD)
    processes = []
    try:
        for rank, prefix in (("0", ()), ("1", CONTAINER)):
            process = script.start(
                *prefix,
                sys.executable,
                str(script.path),
                environ={**OFF, "TORCHELASTIC_RUN_ID": "job", "RANK": rank},
                stdin=subprocess.PIPE,
            )
            processes.append(process)
            assert "up\n" == read_line(process)
        assert 2 == len(script.stored().info.writers)
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def test_the_doctor_works_with_sigchld_ignored(tmp_path: Path) -> None:
    """The kernel then reaps the process apart by itself."""
    script = Script(tmp_path, "")
    out = script.run("sh", "-c", f'trap "" CHLD; exec "{sys.executable}" -m metrana doctor')
    assert "gpus" in out


def test_a_senseless_driver_timeout_is_one_clear_error(tmp_path: Path) -> None:
    """With exit status 2."""
    script = Script(tmp_path, "")
    for value in ("inf", "nan", "0", "-1"):
        command = (sys.executable, "-m", "metrana", "doctor", f"--driver-timeout={value}")
        script.run(
            *command,
            code=2,
            stderr=f"metrana: --driver-timeout {float(value):g} makes no sense: give seconds, up to a day\n",
        )


@pytest.mark.parametrize("end", ["metrana.close()", "metrana.flush(); os.kill(os.getpid(), signal.SIGKILL)"])
@pytest.mark.parametrize("labels", [None, {"policy": "greedy"}])
def test_a_training_resumed_from_checkpoints_has_each_step_once(
    tmp_path: Path, end: str, labels: dict[str, str] | None
) -> None:
    """Resumed twice before the end, after a close and after kill -9; without steps it goes on from what counts."""
    script = Script(
        tmp_path,
        f"""
        import metrana, os, signal, sys
        attempt, first, last = map(int, sys.argv[1:])
        metrana.init(run_name="r", resume=attempt > 0)
        for step in range(first, last):
            metrana.log("loss", attempt * 1000 + step, step=step, labels={labels!r})
        metrana.log("loss", attempt, labels={labels!r})
        {end}
        """,
    )
    for attempt, first, last in ((0, 0, 16), (1, 10, 30), (2, 20, 25)):
        arguments = [sys.executable, str(script.path), *map(str, (attempt, first, last))]
        with script.start(*arguments, environ=OFF) as process:
            process.communicate(timeout=60)
    key = ("loss", tuple((labels or {}).items()))
    found = script.stored().series[key]
    expected = [*range(10), *(1000 + step for step in range(10, 20)), *(2000 + step for step in range(20, 25)), 2]
    assert (expected, list(range(26))) == (list(found.values), list(found.steps))
    everything = script.stored().everything[key]
    assert 17 + 21 + 6 == len(everything.values)


def test_restarted_ranks_make_an_attempt_of_their_own(tmp_path: Path) -> None:
    """Two ranks of torchrun, one killed, both restarted from a checkpoint; a worker of one is of its attempt."""
    script = Script(
        tmp_path,
        """
        import metrana, os, subprocess, sys
        restarts, rank = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), int(os.environ["RANK"])
        metrana.init(run_name="r")
        for step in range(5 * restarts, 10 + 5 * restarts):
            metrana.log("loss", 100 * restarts + step, step=step, labels={"rank": rank})
        metrana.flush()
        worker = f"import metrana; metrana.init(run_name='r').log('worker{rank}', {restarts})"
        subprocess.run([sys.executable, "-c", worker], check=True)
        print("logged", flush=True)
        sys.stdin.read()
        """,
    )
    launch = {**OFF, "TORCHELASTIC_RUN_ID": "job", "WORLD_SIZE": "2"}
    for restarts in range(2):
        ranks = []
        try:
            for rank in range(2):
                own = {**launch, "TORCHELASTIC_RESTART_COUNT": str(restarts), "RANK": str(rank)}
                ranks.append(script.start(environ=own, stdin=subprocess.PIPE))
            for process in ranks:
                assert "logged\n" == read_line(process)
            ranks[1 - restarts].kill()
        finally:
            for process in ranks:
                process.communicate(timeout=60)
    run = script.stored()
    assert [0] * 4 + [1] * 4 == sorted(-1 if each.attempt is None else each.attempt for each in run.info.writers)
    assert [[1.0], [1.0]] == [values_of(run, f"worker{rank}") for rank in range(2)]
    for rank in range(2):
        series = run.series["loss", (("rank", str(rank)),)]
        assert list(range(15)) == list(series.steps)
        assert [*range(5), *range(105, 115)] == list(series.values)


def test_a_killed_process_has_told_when_it_last_wrote(tmp_path: Path) -> None:
    """Also where all its points carry the times of an old recording, one by one as in a burst."""
    script = Script(
        tmp_path,
        """
        import metrana, os, signal, time
        metrana.init(run_name="r")
        metrana.log("now", 1.0)
        metrana.flush()
        for step in range(100):
            metrana.log("burst", 1.0, timestamp=1000.0 + step)
        metrana.log("old", 1.0, timestamp=7.0)
        metrana.flush()
        os.kill(os.getpid(), signal.SIGKILL)
        """,
    )
    with script.start(environ=OFF) as process:
        process.communicate(timeout=60)
    run = script.stored()
    (segment,) = run.info.writers[0].segments
    records = [json.loads(line) for line in Path(segment).read_text().splitlines()]
    assert [("i", [3])] == [("i", record["i"]) for record in records if "w" in record]
    os.utime(segment, (run.info.last + 9000,) * 2)
    assert records[-1]["w"] == run.info.last == script.stored().info.last
    assert (0, 100) == (run.skipped_lines, len(values_of(run, "burst")))
