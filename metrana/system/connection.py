"""One sampling child and this process's ends of all that leads to it."""

from __future__ import annotations

import select
import time
from multiprocessing import context

from metrana.descriptors import OwnDescriptor
from metrana.imports import StdlibFirst
from metrana.system.channel import Entry, NullContext, OrderSender
from metrana.system.packages import find_folders
from metrana.system.spawn import NAME, ChildProcess, StandardDescriptors
from metrana.system.vitals import LOOP, Vitals
from metrana.threads import original

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Never reached, since the child bounds its own buffer. A size of 0 would have the queue import more, and late.
_QUEUE_SIZE = 2**31 - 1
START_LIMIT_SECS = 60.0
"""Until a child's first own sign: its packages may lie on a slow file server, or on a dead one."""


class Connection:
    """``queue``, ``orders``, ``vitals`` and the ``child``, from ``open()`` to ``close()``.

    A script may close descriptors that aren't its own, as daemons do, and open others under the same numbers. Those are
    neither read nor written nor closed: each end is recognized before it's used.
    """

    def __init__(self) -> None:
        self.queue: Any = None
        self.orders: OrderSender | None = None
        self.vitals: Vitals | None = None
        self.child: ChildProcess | None = None
        self.opened_at = time.monotonic()
        self._reading_end: OwnDescriptor | None = None

    def open(self, options: dict[str, Any]) -> None:
        """Launch the child. Raises CannotLaunch, OSError, RuntimeError; ``close()`` then gives back what was opened."""
        # Not when metrana is imported: these are a third of all that it imports, and runs without capture need neither.
        with StdlibFirst():
            from multiprocessing import queues
        with StandardDescriptors():
            self.queue = queues.Queue(_QUEUE_SIZE, ctx=NullContext())
            self.orders = OrderSender()
            self.vitals = Vitals()
        self.vitals.enter(LOOP, "", START_LIMIT_SECS)
        self._reading_end = OwnDescriptor(self.queue._reader.fileno())
        process_object = context.SpawnProcess(
            target=Entry("metrana.system.child", "main"),
            args=(self.queue, self.orders.receiver(), self.vitals, options),
            name=NAME,
        )
        self.child = ChildProcess(process_object, find_folders())
        self.queue._writer.close()  # a dead child then means the end of the queue, also in mid-message
        self.orders.close_receiver()

    @property
    def is_intact(self) -> bool:
        """Whether the reading end is still the one that was opened."""
        return self._reading_end is not None and self._reading_end.is_ours()

    def wait_for_end(self, secs: float) -> None:
        """Return when the child has died or hung up, or after that time."""
        if self.orders is not None:
            # The child's end of this goes with it: no descriptor of its own is needed, which a script could close, or
            # a copy of this process keep.
            poller = original("select", "poll")()
            poller.register(self.orders.fileno(), select.POLLIN)
            poller.poll(secs * 1000)

    def close(self) -> None:
        """Give back every descriptor; in a forked copy of the training process, those of the original."""
        if self.queue is not None:
            if self._reading_end is not None:
                self._reading_end.close()
                self.queue._reader._handle = None  # closed, or the number is somebody else's now
            else:
                self.queue._reader.close()
            self.queue._writer.close()
        if self.orders is not None:
            self.orders.close()
        if self.vitals is not None:
            self.vitals.close()
        if self.child is not None:
            self.child.close()
