"""A launcher's id may outlive a launch: which run is this launch's own, and which attempt at a run that's continued."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from metrana.identity import Identity
from metrana.procstat import read_start_ticks
from metrana.store.launches import choose_attempt, is_another_launch
from metrana.store.process import WriterProcess
from metrana.store.writer import Writer

HOST = os.uname().nodename
GONE = 2**22 + 1  # above every pid that Linux gives out


def write(
    store: Path,
    rank: int | None = None,
    launcher: str = "mine",
    gone: bool = False,
    host: str = HOST,
    local_rank: int | None = None,
    forked: bool = False,
    attempt: int = 0,
    launch: str | None = None,
) -> str:
    pid = GONE if gone else None
    process = WriterProcess(host, rank, local_rank, launcher, is_forked=forked, pid=pid, attempt=attempt, launch=launch)
    if gone:
        process.pid_start = 5
    writer = Writer(str(store), Identity("a", "b", "c", "d", "launch"), process)
    writer.open(0.0)
    writer.close()
    return writer.run_path


def look(
    path: str,
    rank: int | None = None,
    launcher: str = "mine",
    local_rank: int | None = None,
    inherited: bool = False,
) -> bool:
    # A process of its own, unlike those written by this one.
    process = WriterProcess(HOST, rank, local_rank, launcher, pid=os.getppid())
    return is_another_launch(path, process, inherited)


def choose(path: str, rank: int | None = None, launch: str | None = None) -> int:
    return choose_attempt(path, WriterProcess(HOST, rank, pid=os.getppid(), launch=launch))


def test_a_run_without_writers_is_at_its_first_attempt(tmp_path: Path) -> None:
    """A job that was requeued may begin a run all the same."""
    assert 0 == choose(str(tmp_path / "nowhere"), launch="slurm:7:0+0+1")


def test_ranks_of_one_launch_make_one_attempt(tmp_path: Path) -> None:
    """Also where one of them is gone before the next looks; a rank that's there already is of another launch."""
    path = write(tmp_path, rank=0, gone=True, launch="job+0+0")
    write(tmp_path, rank=1, gone=True, launch="job+0+0")
    assert [1, 1] == [choose(path, rank, "job+1+0") for rank in (0, 1)]
    write(tmp_path, rank=1, gone=True, attempt=1, launch="job+1+0")
    assert [1, 2] == [choose(path, rank, "job+1+0") for rank in (0, 1)]
    assert [2, 2] == [choose(path, rank, "job+2+0") for rank in (0, 1)]


def test_a_process_that_a_living_rank_has_started_is_of_its_attempt(tmp_path: Path) -> None:
    """It has the rank's number in its environment."""
    assert 3 == choose(write(tmp_path, rank=0, attempt=3, launch="job+0+0"), 0, "job+0+0")


def test_another_launch_is_another_attempt_while_the_one_before_lives(tmp_path: Path) -> None:
    """As a job that was started once more by mistake does."""
    path = write(tmp_path, rank=0, launch="slurm:7:0+0+0")
    assert 1 == choose(path, 1, "slurm:8:0+0+0")


def test_without_a_launch_living_writers_of_this_host_are_joined(tmp_path: Path) -> None:
    """And ended ones are followed, also those of a version that knew of no attempts."""
    path = write(tmp_path, gone=True)
    assert 1 == choose(path)
    write(tmp_path, attempt=1)
    assert 1 == choose(path)


def test_without_a_launch_in_common_ranks_of_other_hosts_are_joined_while_they_are_new(tmp_path: Path) -> None:
    """Each host has a launcher of its own, and nothing says that they belong together."""
    other = f"{HOST}-2"
    path = write(tmp_path, rank=0, host=other, attempt=1, launch="launcher:a+0+0")
    assert [2, 1, 2] == [choose(path, rank, "launcher:b+0+0") for rank in (0, 1, None)]
    for segment in Path(path).glob("*/*"):
        os.utime(segment, (1.0, 1.0))
    assert 2 == choose(path, 1, "launcher:b+0+0")


def test_a_rank_that_was_there_and_is_gone_means_another_launch(tmp_path: Path) -> None:
    """Its own rank, not another's: ranks of one launch end at different times."""
    path = write(tmp_path, rank=3, gone=True)
    assert [True, False] == [look(path, rank=3), look(path, rank=4)]


def test_a_rank_that_still_writes_shares_its_run(tmp_path: Path) -> None:
    """A helper that a rank has started inherits its rank."""
    assert not look(write(tmp_path, rank=3), rank=3)


def test_a_larger_launch_is_not_split(tmp_path: Path) -> None:
    """A rank that the launch before didn't have: all are gone, and another process has started them."""
    path = write(tmp_path, rank=0, gone=True)
    assert look(path, rank=1, launcher="next")
    write(tmp_path, rank=2)
    assert not look(path, rank=1, launcher="next")


def test_processes_without_a_rank_count_as_one(tmp_path: Path) -> None:
    """Two lines of a batch script, one after the other, are two runs."""
    assert look(write(tmp_path, gone=True))


def test_workers_without_a_rank_come_and_go(tmp_path: Path) -> None:
    """While one of them lives, the run does."""
    path = write(tmp_path, gone=True)
    write(tmp_path)
    assert not look(path)


def test_an_inherited_id_is_another_launch_only_when_all_are_gone(tmp_path: Path) -> None:
    """A driver's workers have its rank in their environment, and end before it does; its trainings end one by one."""
    path = write(tmp_path, rank=0, gone=True)
    assert look(path, rank=0, inherited=True)
    write(tmp_path, rank=0)
    assert not look(path, rank=0, inherited=True)


def test_a_process_that_opens_a_run_again_has_closed_the_one_before(tmp_path: Path) -> None:
    """Folds of a cross-validation in one process are runs of their own."""
    path = write(tmp_path, rank=0)
    assert is_another_launch(path, WriterProcess(HOST, 0, None, "mine"), False)


def test_local_ranks_stand_in_for_ranks(tmp_path: Path) -> None:
    """Where a launcher gives nothing else."""
    path = write(tmp_path, local_rank=1, gone=True)
    assert [True, False] == [look(path, local_rank=1), look(path, local_rank=2)]


def test_other_hosts_and_forked_copies_say_nothing(tmp_path: Path) -> None:
    """Nobody here can see whether the first live; the second end when they like."""
    path = write(tmp_path, rank=3, gone=True, host=f"{HOST}-2")
    write(tmp_path, rank=3, gone=True, forked=True)
    assert not look(path, rank=3)


@pytest.mark.parametrize("junk", [b"", b"{", b"[]", b'{"writer": 5}', b'{"writer": {}}', b"\xff\n"])
def test_unreadable_writers_say_nothing(tmp_path: Path, junk: bytes) -> None:
    """Nor does a run that isn't there."""
    path = write(tmp_path, rank=3)
    folder = Path(path) / f"{HOST}-1-1"
    folder.mkdir()
    (folder / "000001.jsonl").write_bytes(junk)
    assert not look(path, rank=3)
    assert not look(str(tmp_path / "nowhere"), rank=3)


def test_the_start_of_a_process_tells_it_from_a_later_one() -> None:
    """Clock ticks since boot; None for a process that isn't there."""
    assert read_start_ticks(os.getpid()) == read_start_ticks(os.getpid()) is not None
    assert read_start_ticks(GONE) is None
