from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from metrana.system.host import Host
from tests.scripts import DEADLINE_SECS


def test_folders_of_a_played_machine(tmp_path: Path) -> None:
    """The folders in a folder are listed by name; files and links aren't."""
    (tmp_path / "a/c").mkdir(parents=True)
    (tmp_path / "a/b").mkdir()
    (tmp_path / "a/file").touch()
    (tmp_path / "a/link").symlink_to(tmp_path)
    assert ["b", "c"] == Host(root=str(tmp_path)).list_folders("/a")


def test_played_machine_has_no_affinity(tmp_path: Path) -> None:
    """What a process of a played machine may run on isn't known."""
    assert Host(root=str(tmp_path)).affinity() is None


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU can't be told from all")
def test_pinned_first_thread_is_not_the_process() -> None:
    """A first thread that's pinned to one core, as OpenMP does, doesn't stand for the others."""
    cpus = frozenset(os.sched_getaffinity(0))
    pinned = frozenset({min(cpus)})
    started, done = threading.Event(), threading.Event()

    def wait() -> None:
        started.set()
        done.wait(DEADLINE_SECS)

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        assert started.wait(DEADLINE_SECS)
        os.sched_setaffinity(os.getpid(), pinned)
        assert pinned == Host().affinity()
        assert cpus == Host().affinity(len(cpus))
    finally:
        os.sched_setaffinity(os.getpid(), cpus)
        done.set()
        thread.join(DEADLINE_SECS)
