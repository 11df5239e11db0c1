"""The launch stands on a few of multiprocessing's insides: they must be there, in every Python that's supported."""

from __future__ import annotations

import inspect
import os
import pickle
import signal
import sys
from multiprocessing import connection, context, popen_fork, queues, reduction, spawn
from pathlib import Path

import pytest

from metrana.system import packages
from metrana.system.channel import Entry, NullContext, NullLock, decode_control, encode_control
from metrana.system.spawn import BLOCKED_SIGNALS, TERMINATE, CannotLaunch, find_interpreter


def test_what_is_used_of_multiprocessing_is_there() -> None:
    """A Python that has lost one of these must fail here and not in somebody's training."""
    assert callable(popen_fork.Popen)
    assert callable(context.set_spawning_popen)
    assert callable(reduction.dump)
    assert {"pipe_handle", "tracker_fd"} <= set(inspect.signature(spawn.spawn_main).parameters)
    queue = queues.Queue(5, ctx=NullContext())
    try:
        assert isinstance(queue._reader, connection.Connection)
        assert isinstance(queue._writer, connection.Connection)
        assert {"_buffer", "_thread", "_ignore_epipe"} <= set(vars(queue))
    finally:
        queue._reader.close()
        queue._writer.close()


def test_the_interpreter_is_this_one() -> None:
    """sys.executable, since nothing embeds Python here."""
    assert os.path.realpath(sys.executable) == os.path.realpath(find_interpreter())


def test_a_frozen_application_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its executable is the application."""
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    with pytest.raises(CannotLaunch, match="frozen"):
        find_interpreter()


def test_terminating_gets_through_what_is_blocked() -> None:
    """The child is deaf to a group's signals, not to ours."""
    assert signal.SIGTERM in BLOCKED_SIGNALS
    assert TERMINATE not in BLOCKED_SIGNALS


def test_a_control_message_comes_through_and_is_written_in_one_piece() -> None:
    """A longer one could block the training process, or be torn."""
    assert {"stop": True} == decode_control(encode_control({"stop": True}))
    assert {} == decode_control(b"[1]")
    with pytest.raises(ValueError, match="control message"):
        encode_control({"environ": {"CUDA_VISIBLE_DEVICES": "x" * 5000}})


def test_locks_and_entries_are_sent_by_name() -> None:
    """Nothing of what the child runs is imported to send it."""
    assert isinstance(pickle.loads(pickle.dumps(NullLock())), NullLock)
    entry = pickle.loads(pickle.dumps(Entry("os.path", "basename")))
    assert ("os.path", "basename") == (entry.module, entry.function)


def test_the_child_gets_the_folders_of_its_packages() -> None:
    """Each package's own, and metrana's last."""
    folders = packages.find_folders()
    import metrana

    assert str(Path(metrana.__file__).parent.parent) in folders
    for name in ("psutil", "portalocker"):
        assert any((Path(folder) / name / "__init__.py").exists() for folder in folders)
