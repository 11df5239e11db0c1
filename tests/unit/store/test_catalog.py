from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from metrana.errors import RunNotFoundError, StoreError
from metrana.store.catalog import find_run, find_runs, read_catalog, reread_run
from tests.unit.store.build import GOLDEN, T0, declare, end, head, line, make_host, points, put

NOW = T0 + 1000


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def status(store: Path, *processes: tuple[int, int, str], written: float = NOW) -> str:
    """The status of the run ``train`` on a machine where these processes live."""
    for path in store.rglob("*.jsonl"):
        os.utime(path, (written, written))
    (info,) = find_runs(str(store), make_host(store.parent / "machine", *processes, now=NOW))
    return info.status


def test_golden_runs_are_listed_newest_first(tmp_path: Path) -> None:
    """Order is by start; times, status and processes come from heads and tails."""
    infos = find_runs(str(GOLDEN), make_host(tmp_path, now=T0 + 10**9))
    assert [
        ("garbage", 500.0, 505.0, "ended without a close", 1),
        ("killed", 400.0, 401.0, "ended without a close", 1),
        ("rotated", 300.0, 306.0, "closed", 1),
        ("not-finite", 200.0, 210.0, "closed", 1),
        ("torn-lines", 100.0, 102.0, "unknown", 1),
        ("two-writers", 0.0, 41.0, "closed", 2),
    ] == [(i.run_name, i.started - T0, i.last - T0, i.status, len(i.writers)) for i in infos]


def test_writers_carry_rank_host_and_pid(tmp_path: Path) -> None:
    """Each process of a run can be told."""
    info = find_run(str(GOLDEN), "two-writers", make_host(tmp_path))
    assert [(0, "node7", 4242), (1, "node8", 17)] == [(w.rank, w.host, w.pid) for w in info.writers]
    assert ("acme", "research", "llm") == (info.organization, info.workspace_name, info.project_name)


def test_a_store_that_is_not_there_has_no_runs(store: Path) -> None:
    """Nobody has to make the folder first."""
    assert [] == find_runs(str(store))


def test_a_store_that_is_a_file_is_a_clear_error(store: Path) -> None:
    """The message names it and the way out."""
    store.write_text("")
    with pytest.raises(StoreError, match=r"store: .*--dir"):
        find_runs(str(store))


def test_what_is_no_run_is_passed_over(store: Path) -> None:
    """Files, hidden folders and folders that no writer wrote into are no runs and no trouble."""
    put(store, head())
    (store / ".gitignore").write_text("*\n")
    (store / ".git" / "a" / "b" / "c@d" / "e").mkdir(parents=True)
    (store / "default" / "default" / "default" / "empty@1" / "node7-1-1").mkdir(parents=True)
    (store / "default" / "default" / "default" / "stray").mkdir()
    catalog = read_catalog(str(store))
    assert ["train"] == [info.run_name for info in catalog.runs]
    assert () == catalog.unreadable


def test_a_living_process_makes_a_run_running(store: Path) -> None:
    """Without an end record, what counts on this host is the process, with its start time."""
    put(store, head(pid=42, pid_start=900))
    assert "running" == status(store, (42, 900, "S"), written=0)


@pytest.mark.parametrize("process", [(41, 900, "S"), (42, 901, "S"), (42, 900, "Z")])
def test_a_process_that_is_gone_ended_without_a_close(store: Path, process: tuple[int, int, str]) -> None:
    """Gone is gone: no such process, another one with its number, or one that only waits to be reaped."""
    put(store, head(pid=42, pid_start=900))
    assert "ended without a close" == status(store, process)


def test_a_process_of_unknown_start_is_known_by_its_number(store: Path) -> None:
    """Where the head has no start time, the number alone decides."""
    put(store, head(pid=42, pid_start=None))
    assert "running" == status(store, (42, 5, "R"), written=0)


@pytest.mark.parametrize(("age", "expected"), [(5.0, "running"), (119.0, "running"), (121.0, "unknown")])
def test_a_writer_elsewhere_is_judged_by_its_files(store: Path, age: float, expected: str) -> None:
    """A process of another host can't be looked up: two minutes without a write and nothing is known."""
    put(store, head(host="elsewhere", pid=42))
    assert expected == status(store, (42, 900, "S"), written=NOW - age)


def test_a_run_is_closed_when_all_its_writers_are(store: Path) -> None:
    """One that failed, or was killed, leaves the run without a close; one that lives keeps it running."""
    put(store, head(), end(T0 + 1))
    assert "closed" == status(store)
    put(store, head(pid=43), end(T0 + 1, "failed"), writer="node7-43-1")
    assert "ended without a close" == status(store)
    put(store, head(pid=44), writer="node7-44-1")
    assert "running" == status(store, (44, 900, "S"))


def test_the_end_is_found_behind_a_long_line(store: Path) -> None:
    """A batch longer than what's read at first hides neither the time nor the end."""
    many: dict[int, object] = dict.fromkeys(range(30_000), 1.5)
    path = put(store, head(), points(T0 + 7, 0, many))
    (info,) = find_runs(str(store))
    assert (T0, T0 + 7) == (info.started, info.last)
    path.write_bytes(path.read_bytes() + end(T0 + 9))
    assert "closed" == status(store)


def test_times_of_a_torn_head_come_from_the_points(store: Path) -> None:
    """A run without any head still has a start."""
    put(store, declare(1, "x"), points(T0 + 3, 0, {1: 1.0}), points(T0 + 5, 0, {1: 1.0}))
    (info,) = find_runs(str(store))
    assert (T0 + 5, T0 + 5) == (info.started, info.last)


def test_a_torn_head_is_made_up_for_by_a_later_segment(store: Path) -> None:
    """Every segment has one."""
    put(store, b'{"v":1,"run', run="folder", id="1")
    put(store, head("its name", id="its id"), run="folder", id="1", number=2)
    (info,) = find_runs(str(store))
    assert ("its name", "its id") == (info.run_name, info.id)


def test_a_run_is_found_by_id_and_by_name(store: Path) -> None:
    """An id is exact, a name means the newest run of that name, project and so on may stand in front."""
    put(store, head("a", T0, id="1"), run="a", id="1")
    put(store, head("a", T0 + 9, id="2"), run="a", id="2")
    put(store, head("a", T0 + 5, id="3", project="p"), run="a", id="3")
    put(store, head("1", T0 + 20, id="4", organization="o/x"), run="1", id="4")
    found = {name: find_run(str(store), name).id for name in ("1", "a", "p/a", "default/p/a", "o/x/default/default/1")}
    assert {"1": "1", "a": "2", "p/a": "3", "default/p/a": "3", "o/x/default/default/1": "4"} == found
    with pytest.raises(RunNotFoundError, match="'q/a'"):
        find_run(str(store), "q/a")


def test_odd_timestamps_do_not_upset_the_order(store: Path) -> None:
    """Whatever a user logged as a timestamp, the listing stands."""
    put(store, head("a", -1e300), line(t=1e308, s=0, i=[], v=[]), run="a")
    put(store, head("b", 5), run="b")
    assert ["b", "a"] == [info.run_name for info in find_runs(str(store))]


def test_a_later_format_is_told_and_listed(store: Path) -> None:
    """What says the same is taken; a head that says nothing we know has its version all the same."""
    put(store, head().replace(b'"v": 1', b'"v": 3'), end(T0 + 1))
    put(store, line(v=2, job={}), declare(1, "x"), run="other", id="other-id", writer="node7-43-1")
    assert {"train": 3, "other": 2} == {info.run_name: info.newest_version for info in find_runs(str(store))}


def test_a_run_is_read_again_by_itself(store: Path) -> None:
    """Who follows a run needn't list the store."""
    path = put(store, head(pid=42, pid_start=900))
    host = make_host(store.parent / "machine", (42, 900, "S"))
    info = find_run(str(store), "train", host)
    assert "running" == info.status
    with open(path, "ab") as file:
        file.write(end(T0 + 5))
    assert ("closed", T0 + 5) == (reread_run(info, host).status, reread_run(info, host).last)
    path.unlink()
    assert replace(info, status="unknown") == reread_run(info, host)


def test_a_pipe_among_the_segments_keeps_nobody_waiting(tmp_path: Path) -> None:
    """Opening one waits for a writer; it's no segment."""
    path = put(tmp_path, head(), declare(1, "x"), points(T0, 0, {1: 1.0}))
    os.mkfifo(path.with_name("000009.jsonl"))
    (info,) = find_runs(str(tmp_path))
    assert (1, ()) == (len(info.writers[0].segments), info.unreadable)


@pytest.mark.parametrize("odd", [-2208988800.0, 4102444800.0, T0 * 1000])
@pytest.mark.parametrize("is_closed", [True, False])
def test_a_runs_end_is_that_of_its_processes_whatever_times_its_points_have(
    tmp_path: Path, odd: float, is_closed: bool
) -> None:
    """Points of the year 1900, of 2100, and of milliseconds that were taken for seconds."""
    lines = [head(t=T0), declare(1, "loss"), points(T0 + 5, 0, {1: 0.5}), points(odd, 1, {1: 0.5})]
    path = put(tmp_path, *lines, *([end(T0 + 5)] if is_closed else []))
    os.utime(path, (T0 + 5, T0 + 5))
    info = find_run(str(tmp_path), "train")
    assert (T0, T0 + 5) == (info.started, info.last)


def test_where_no_line_tells_a_time_of_its_life_the_files_change_does(tmp_path: Path) -> None:
    """All points carry the times of an old recording."""
    path = put(tmp_path, head(t=T0), declare(1, "loss"), points(1000.0, 0, {1: 0.5}))
    with path.open("ab") as file:
        file.write(b"".join(points(1000.0 + step, step, {1: 0.5}) for step in range(1000)))
    os.utime(path, (T0 + 77, T0 + 77))
    assert T0 + 77 == find_run(str(tmp_path), "train").last


@pytest.mark.parametrize("odd", [1000.0, T0 + 3600])
def test_a_copy_of_the_files_leaves_a_killed_writers_end_as_it_was(tmp_path: Path, odd: float) -> None:
    """Its last line says when it was written, though its points have times of the user's own."""
    record = json.loads(head(t=T0))
    record["writer"]["attempt"] = 0
    last = line(t=odd, s=1, i=[1], v=[0.5], w=T0 + 40)
    path = put(tmp_path, line(**record), declare(1, "loss"), points(odd, 0, {1: 0.5}), last)
    for changed in (T0 + 40, T0 + 9000):
        os.utime(path, (changed, changed))
        assert T0 + 40 == find_run(str(tmp_path), "train").last


def test_a_writer_without_a_readable_head_started_when_its_folder_says(tmp_path: Path) -> None:
    """A user's timestamp is no start."""
    put(tmp_path, declare(1, "x"), points(1000.0, 0, {1: 1.0}), writer=f"node7-42-{int(T0) * 10**9:x}")
    assert T0 == find_run(str(tmp_path), "train").started
