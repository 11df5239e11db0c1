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
from metrana.system.channel import Entry, NullContext, NullLock, OrderReceiver, OrderSender
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


def test_orders_come_through_whole_or_not_at_all() -> None:
    """Sending never waits and never raises, also where nobody reads any more."""
    sender = OrderSender()
    receiver = sender.receiver()
    assert sender.send({"stop": True})
    assert {"stop": True} == receiver.receive()
    order = {"environ": {"CUDA_VISIBLE_DEVICES": "0," * 4000}}
    taken = 0
    while sender.send(order) and taken < 10_000:
        taken += 1
    assert 0 < taken < 10_000
    assert [order] * taken == [receiver.receive() for _ in range(taken)]
    sender.close_receiver()
    assert not sender.send({"stop": True})
    sender.close()


def test_the_end_of_the_training_process_is_an_end_of_file() -> None:
    """What the child waits for beside its orders; an order that can't be read is none."""
    sender = OrderSender()
    receiver = OrderReceiver(os.dup(sender.receiver().fileno()))
    sender._socket.send(b"[1]")
    sender._socket.send(b"{")
    sender.close()
    assert [{}, {}] == [receiver.receive(), receiver.receive()]
    with pytest.raises(EOFError):
        receiver.receive()
    os.close(receiver.fileno())


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
