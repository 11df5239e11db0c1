"""What a stalled training process doesn't take is counted."""

from __future__ import annotations

from typing import Any

from metrana.model import Batch
from metrana.system.channel import DROPPED_ATTRIBUTE
from metrana.system.child import BUFFER_LIMIT, _Outbox


class Queue:
    """A queue whose reader is stalled, or not."""

    _thread = None

    def __init__(self) -> None:
        self._buffer: list[object] = []
        self.sent: list[tuple[str, Any]] = []

    def put(self, message: tuple[str, Any]) -> None:
        self.sent.append(message)

    def told(self) -> list[int]:
        return [content[DROPPED_ATTRIBUTE] for kind, content in self.sent if kind == "attributes"]


BATCH = Batch(0.0, 0, (("a", ()),), (1.0,))


def test_the_count_goes_on_from_child_to_child() -> None:
    """A successor adds to what the one before has told, and the last ones are told at the end."""
    queue: Any = Queue()
    outbox = _Outbox(queue, None, dropped=100)  # type: ignore[arg-type]
    outbox.put_batch(BATCH)
    outbox.tell_dropped()
    assert [] == queue.told()
    queue._buffer = [None] * BUFFER_LIMIT
    for _ in range(3):
        outbox.put_batch(BATCH)
    queue._buffer = []
    outbox.put_batch(BATCH)
    assert [103] == queue.told()
    queue._buffer = [None] * BUFFER_LIMIT
    outbox.put_batch(BATCH)
    outbox.tell_dropped()
    outbox.tell_dropped()
    assert [103, 104] == queue.told()
