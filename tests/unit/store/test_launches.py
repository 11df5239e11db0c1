"""A launcher's id may outlive a launch: which run is this launch's own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from metrana.identity import Identity
from metrana.procstat import read_start_ticks
from metrana.store.launches import is_another_launch
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
) -> str:
    process = WriterProcess(host, rank, local_rank, launcher, is_forked=forked, pid=GONE if gone else None)
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
