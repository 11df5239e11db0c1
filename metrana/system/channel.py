"""What crosses between the training process and the sampling child: known to both, importing neither side."""

from __future__ import annotations

import importlib
import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class NullLock:
    """Stands in for a semaphore of the queue.

    One process writes and one thread reads, so nothing needs guarding across processes. Without semaphores the queue
    leaves nothing in /dev/shm and starts no resource tracker.
    """

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        return True

    def release(self) -> None:
        pass

    def __enter__(self) -> bool:
        return True

    def __exit__(self, *exc_info: object) -> None:
        pass


class NullContext:
    """The part of a multiprocessing context that a queue asks for."""

    @staticmethod
    def Lock() -> NullLock:
        return NullLock()

    @staticmethod
    def BoundedSemaphore(value: int = 1) -> NullLock:
        return NullLock()


class Entry:
    """A function named by its module, so that it can be sent to the child without importing it here."""

    def __init__(self, module: str, function: str) -> None:
        self.module = module
        self.function = function

    def __call__(self, *args: Any) -> None:
        getattr(importlib.import_module(self.module), self.function)(*args)


# The kinds of message on the queue, child to parent: (kind, content).
BATCH = "batch"
ATTRIBUTES = "attributes"
WARNING = "warning"
FAILED = "failed"

# The one message the other way, beside what the parent learns of the devices: see metrana.system.devices.
STOP = "stop"

CONTROL_LIMIT_BYTES = 4096  # PIPE_BUF: a write up to this is whole or not at all, also on a non-blocking pipe


def encode_control(message: dict[str, Any]) -> bytes:
    """A control message, parent to child. Raises ValueError where it's too long to be written in one piece."""
    data = json.dumps(message).encode("ascii")
    if len(data) > CONTROL_LIMIT_BYTES - 4:
        raise ValueError(f"control message of {len(data)} bytes")
    return data


def decode_control(data: bytes) -> dict[str, Any]:
    message = json.loads(data)
    return message if isinstance(message, dict) else {}
