"""What crosses between the training process and the sampling child: known to both, importing neither side."""

from __future__ import annotations

import _socket
import importlib
import json
import os

from metrana.descriptors import OwnDescriptor

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


# The kinds of message on the queue, child to parent: (kind, content). A batch is (timestamp, step, values) of the
# series that were told last: they change rarely, and unpickling them each time would cost more than all the rest.
STARTED = "started"  # with the time at which the grid of the ticks began: a child's successor goes on with it
SERIES = "series"
BATCH = "batch"
ATTRIBUTES = "attributes"
WARNING = "warning"
FAILED = "failed"
ENDED = "ended"  # the last message of a child that leaves in order: its exit may be held up by a driver

# The one message the other way, beside what the parent learns of the devices: see metrana.system.devices.
STOP = "stop"

# Attributes that the training process itself goes by, too.
DROPPED_ATTRIBUTE = "system/capture_dropped_batches"
MODE_ATTRIBUTE = "system/arbitration_mode"

ORDER_BYTES = 64 * 1024  # the longest order that's received


class OrderSender:
    """The training process's end of the way to the child. Whole messages or nothing, never a wait, never a signal.

    A socket and not a pipe: writing to a pipe whose reader has died raises SIGPIPE, which ends a process that has set
    it back to its default, as many scripts do.
    """

    def __init__(self) -> None:
        self._socket, self._other = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        self._socket.setblocking(False)
        self._own = OwnDescriptor(self._socket.fileno())

    def send(self, order: dict[str, Any]) -> bool:
        """False where the child doesn't take it: it's gone, or has stopped reading."""
        if not self._own.is_ours():
            return False
        try:
            self._socket.send(json.dumps(order).encode("ascii"), _socket.MSG_NOSIGNAL | _socket.MSG_DONTWAIT)
        except OSError:
            return False
        return True

    def receiver(self) -> OrderReceiver:
        """The child's end, to be sent to it at its launch."""
        return OrderReceiver(self._other.fileno())

    def fileno(self) -> int:
        """Readable when the child has hung up."""
        return self._socket.fileno()

    def close_receiver(self) -> None:
        """Once the child has its own copy: then its death, and this process's, are an end of file to the other."""
        self._other.close()

    def close(self) -> None:
        self._other.close()
        self._own.close()
        self._socket.detach()  # closed, or the number is somebody else's now


class OrderReceiver:
    """The child's end: ``receive()`` an order, or EOFError when the training process is gone."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickled while the child is launched, which passes it the descriptor.
        from multiprocessing import reduction

        return (_receive_end, (reduction.DupFd(self._fd),))

    def fileno(self) -> int:
        return self._fd

    def hang_up(self) -> None:
        """Tell the training process that all is said: a driver may hold up the exit that would tell it otherwise."""
        try:
            _socket.socket(fileno=self._fd).shutdown(_socket.SHUT_RDWR)
        except OSError:
            pass  # it's gone itself

    def receive(self) -> dict[str, Any]:
        """The next order; an empty one where it can't be read. Raises EOFError, OSError."""
        data = os.read(self._fd, ORDER_BYTES)
        if not data:
            raise EOFError
        try:
            order = json.loads(data)
        except ValueError:
            return {}
        return order if isinstance(order, dict) else {}


def _receive_end(duplicate: Any) -> OrderReceiver:
    return OrderReceiver(duplicate.detach())
