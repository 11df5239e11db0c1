"""Empties a child's queue, sends the child its hints, and sees it end or fall silent: the training process's one light
thread runs this."""

from __future__ import annotations

import os
import select
import sys
import time

from metrana import report
from metrana.system import devices
from metrana.system.channel import ENDED
from metrana.system.hints import find_hint
from metrana.threads import original

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from metrana.system.connection import Connection
    from metrana.system.vitals import Sign

LOOK_PERIOD_SECS = 5.0
# Waking is what a message costs, ten times the work on it. So with short intervals several are taken at a time; until
# then they lie in the pipe, where the child's death doesn't touch them. The training process's death does: so not where
# other processes of the run would take over, and the gap would be longer than the one tick that a takeover costs.
REST_SECS = 3.0
EAGER_SECS = 4.0  # from the first message on everything is taken as it comes: one wants to see the charts begin

GONE, SILENT = "gone", "silent"


class Drain:
    """Takes what children send, one child after the other. ``handlers`` by kind of message are called in its thread.

    ``is_alone`` says that the run has no other process on this node.
    """

    def __init__(self, handlers: Mapping[str, Callable[[Any], None]], interval_secs: float, is_alone: bool) -> None:
        self._handlers = handlers
        self._rests = is_alone and interval_secs < REST_SECS
        self._sent = find_knowledge(own_thread=True)
        self._eager_until: float | None = None

    @property
    def knowledge(self) -> dict[str, Any]:
        """What the child should know of the training process at its start."""
        return self._sent

    def empty(self, connection: Connection) -> str:
        """Take all that a child sends until its end: ENDED in order, GONE otherwise, or SILENT while it lives."""
        queue_poller = original("select", "poll")()
        queue_poller.register(connection.queue._reader.fileno(), select.POLLIN)
        next_look = 0.0
        overdue: Sign | None = None
        try:
            while True:
                is_readable = queue_poller.poll(LOOK_PERIOD_SECS * 1000)
                while True:
                    # Asked without a message too: what has the number now may never be readable.
                    if not connection.is_intact:
                        return GONE
                    if not is_readable:
                        break
                    if self._take(connection.queue) == ENDED:
                        return ENDED
                    is_readable = queue_poller.poll(0)
                now = time.monotonic()
                if self._eager_until is None:
                    self._eager_until = now + EAGER_SECS
                if now >= next_look:
                    next_look = now + LOOK_PERIOD_SECS - 1.0  # or the timer's grain would make it every other turn
                    self._send_knowledge(connection)
                    # Twice: a process that was stopped together with its child looks before the child has moved.
                    before, overdue = overdue, find_overdue(connection, now)
                    if overdue is not None and overdue == before:
                        return SILENT
                if self._rests and now > self._eager_until:
                    connection.wait_for_end(REST_SECS)
        except (EOFError, OSError):
            return GONE
        except Exception:  # a message that can't be unpickled ends this child, not the training
            return GONE

    def _take(self, queue: Any) -> str:
        kind, content = queue.get()
        handler = self._handlers.get(kind)
        if handler is not None:
            try:
                handler(content)
            except Exception as error:  # the receiver is anybody's code: its fault costs the message, and is told
                report.warn(f"what takes the samples of the hardware raised {type(error).__name__}")
                report.note(f"what takes the samples of the hardware: {error!r}")
        return str(kind)

    def _send_knowledge(self, connection: Connection) -> None:
        knowledge = find_knowledge(own_thread=False)
        if knowledge["hint"] is None:
            # Once a framework runs, CUDA has read its environment, and a later change of it means nothing.
            knowledge["hint"] = self._sent["hint"]
        elif self._sent["hint"] is not None:
            knowledge["environ"] = self._sent["environ"]
        if knowledge == self._sent:
            return
        if connection.orders is not None and connection.orders.send(knowledge):  # else the next turn tries again
            self._sent = knowledge


def find_overdue(connection: Connection, now: float) -> Sign | None:
    """The sign of a place in the child whose next one is overdue."""
    signs = connection.vitals.read() if connection.vitals is not None else ()
    return next((sign for sign in signs if 0.0 < sign.until < now), None)


def find_knowledge(own_thread: bool) -> dict[str, Any]:
    """What only the training process knows of its devices: its environment as it is now, and its framework's device."""
    hint = find_hint(sys.modules, own_thread)
    environ = {name: value for name in devices.ENVIRONMENT if (value := os.environ.get(name)) is not None}
    return {"environ": environ, "hint": hint.to_dict() if hint else None}
