"""The one light thread of the training process that empties the child's queue and sends the child its hints."""

from __future__ import annotations

import os
import select
import sys
import time

from metrana import report
from metrana.system import devices
from metrana.system.channel import OrderSender
from metrana.system.hints import find_hint
from metrana.threads import Bell, Worker, original

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

HINT_PERIOD_SECS = 5.0
# Waking is what a message costs, ten times the work on it. So with short intervals several are taken at a time; until
# then they lie in the pipe, where the child's death doesn't touch them.
REST_SECS = 3.0
EAGER_SECS = 4.0  # at first everything is taken as it comes: one wants to see the charts begin


class Drain:
    """Reads until the queue's end: the child's exit, or its death in the middle of a message.

    ``handlers`` by kind of message and ``on_end()`` are called in the thread. The thread owns the queue's reading end
    and closes it.
    """

    def __init__(
        self,
        queue: Any,
        orders: OrderSender,
        handlers: Mapping[str, Callable[[Any], None]],
        on_end: Callable[[], None],
        interval_secs: float,
    ) -> None:
        self._queue = queue
        self._orders = orders
        self._handlers = handlers
        self._on_end = on_end
        self._is_frequent = interval_secs < REST_SECS
        self._is_hurried = False
        self._rest = Bell()
        self._sent = find_knowledge(own_thread=True)
        self._worker = Worker(self._run, "metrana-drain")

    @property
    def knowledge(self) -> dict[str, Any]:
        """What the child should know of the training process at its start."""
        return self._sent

    def start(self) -> None:
        """Raises RuntimeError where no thread can be started."""
        self._worker.start()

    def hurry(self) -> None:
        """Take what comes as it comes, to the queue's end."""
        self._is_hurried = True
        self._rest.ring()

    def join(self, timeout_secs: float) -> bool:
        return self._worker.join(timeout_secs)

    def _run(self) -> None:
        poller = original("select", "poll")()
        poller.register(self._queue._reader.fileno(), select.POLLIN)
        next_look = 0.0
        rest_from = time.monotonic() + EAGER_SECS
        try:
            while True:
                # With short intervals each message is an occasion to look, and a wait with a limit would cost more.
                if self._is_frequent or poller.poll(HINT_PERIOD_SECS * 1000):
                    self._take()
                    while poller.poll(0):
                        self._take()
                if time.monotonic() >= next_look:
                    self._send_knowledge()
                    next_look = time.monotonic() + HINT_PERIOD_SECS
                if self._is_frequent and not self._is_hurried and time.monotonic() > rest_from:
                    self._rest.wait(REST_SECS)
        except (EOFError, OSError):
            pass  # the child is gone
        except Exception:  # a message that can't be unpickled ends capture, not the training
            pass
        finally:
            self._queue._reader.close()
            self._on_end()

    def _take(self) -> None:
        kind, content = self._queue.get()
        try:
            self._handlers[kind](content)
        except Exception as error:  # the receiver is anybody's code: its fault costs the message, and is told
            report.warn(f"what takes the samples of the hardware raised {type(error).__name__}: {error}")

    def _send_knowledge(self) -> None:
        knowledge = find_knowledge(own_thread=False)
        if knowledge["hint"] is None:
            # Once a framework runs, CUDA has read its environment, and a later change of it means nothing.
            knowledge["hint"] = self._sent["hint"]
        elif self._sent["hint"] is not None:
            knowledge["environ"] = self._sent["environ"]
        if knowledge == self._sent:
            return
        if self._orders.send(knowledge):  # else the next turn tries again
            self._sent = knowledge


def find_knowledge(own_thread: bool) -> dict[str, Any]:
    """What only the training process knows of its devices: its environment as it is now, and its framework's device."""
    hint = find_hint(sys.modules, own_thread)
    environ = {name: value for name in devices.ENVIRONMENT if (value := os.environ.get(name)) is not None}
    return {"environ": environ, "hint": hint.to_dict() if hint else None}
