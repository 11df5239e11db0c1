"""What the sampling child runs. Everything that may crash, hang or exit is imported in here, behind main()."""

from __future__ import annotations

import os
import select
import threading
import time
from multiprocessing import queues as mp_queues
from queue import Empty, SimpleQueue
from typing import Any

from metrana.model import Batch, Labels
from metrana.system.channel import ATTRIBUTES, BATCH, FAILED, SERIES, STOP, WARNING, OrderReceiver

BUFFER_LIMIT = 64  # batches that wait for a stalled parent; what comes later is dropped and counted
_LONGEST_WAIT_SECS = 3600.0  # an interval may be longer than what the C library can wait
_PARENT_POLL_MS = 500  # where there's no pidfd


def main(queue: Any, receiver: OrderReceiver, options: dict[str, Any]) -> None:
    """Sample until told to stop or the training process ends. Never returns: leaves by ``os._exit``.

    ``os._exit`` because an orderly exit could wait for a driver's thread or run a library's exit handler.
    """
    queue._reader.close()  # else our own copy would keep the pipe open when the training process is gone
    queue._ignore_epipe = True
    parent_pid = options["pid"]
    orders: SimpleQueue[dict[str, Any]] = SimpleQueue()
    watcher = threading.Thread(target=_watch, args=(parent_pid, receiver, orders), name="watch", daemon=True)
    watcher.start()
    outbox = _Outbox(queue)
    try:
        _settle_in()
        _sample(outbox, orders, options)
    except BaseException as error:  # a library may raise anything, SystemExit too: tell the parent, print nothing
        outbox.put(FAILED, f"{type(error).__name__}: {error}")
    outbox.close()
    os._exit(0)


def _sample(outbox: _Outbox, orders: SimpleQueue[dict[str, Any]], options: dict[str, Any]) -> None:
    from metrana.system.devices import Hint
    from metrana.system.host import Host
    from metrana.system.sampler import Sampler

    host = Host(pid=options["pid"], environ={**os.environ, **options["environ"]})
    sampler = Sampler(
        host,
        options["interval_secs"],
        emit_batch=outbox.put_batch,
        emit_attributes=lambda attributes: outbox.put(ATTRIBUTES, attributes),
        warn=lambda message: outbox.put(WARNING, message),
        first_step=options["first_step"],
    )

    def take(order: dict[str, Any]) -> None:
        if "environ" in order:
            sampler.update(order["environ"], Hint.from_dict(order.get("hint")))

    def wait(until: float) -> bool:
        while True:
            try:
                order = orders.get(timeout=min(_LONGEST_WAIT_SECS, max(0.0, until - time.monotonic())))
            except Empty:
                if time.monotonic() < until:
                    continue
                return False
            if STOP in order:
                return True
            take(order)

    if options.get("hint"):
        take(options)
    reason = sampler.run(wait)
    if reason is not None:
        outbox.put(FAILED, reason)


class _Outbox:
    """The writing end of the queue, bounded: a stalled parent costs batches, counted and told, never memory."""

    def __init__(self, queue: mp_queues.Queue[Any]) -> None:
        self._queue: Any = queue
        self._series: tuple[tuple[str, Labels], ...] = ()
        self._dropped = 0

    def put_batch(self, batch: Batch) -> None:
        if len(self._queue._buffer) >= BUFFER_LIMIT:
            self._dropped += 1
            return
        if self._dropped:
            lost, self._dropped = self._dropped, 0
            self.put(WARNING, f"the training process didn't take {lost} samples of the hardware in time: they are lost")
        if batch.series != self._series:
            self._series = batch.series
            self.put(SERIES, batch.series)
        self.put(BATCH, (batch.timestamp, batch.step, batch.values))

    def put(self, kind: str, content: object) -> None:
        thread = self._queue._thread
        if thread is not None and not thread.is_alive():
            os._exit(0)  # the feeder met a broken pipe: nobody reads any more
        self._queue.put((kind, content))

    def close(self) -> None:
        """Wait until all is in the pipe: the parent's deadline is the limit, it kills a child that doesn't end."""
        self._queue.close()
        self._queue.join_thread()


def _watch(parent_pid: int, receiver: OrderReceiver, orders: SimpleQueue[dict[str, Any]]) -> None:
    """Hand on the parent's orders; leave at once when the parent is gone, also while a driver call hangs.

    The pidfd sees the parent's end however it comes and whoever holds copies of its descriptors. The receiver's end of
    file sees a parent that became another program by exec.
    """
    poller = select.poll()
    poller.register(receiver.fileno(), select.POLLIN)
    timeout_ms: int | None = None
    try:
        pidfd = os.pidfd_open(parent_pid)
        poller.register(pidfd, select.POLLIN)
    except (AttributeError, OSError):
        pidfd = -1
        timeout_ms = _PARENT_POLL_MS
    while os.getppid() == parent_pid:
        for fd, _ in poller.poll(timeout_ms):
            if fd == pidfd:
                os._exit(0)
            try:
                orders.put(receiver.receive())
            except (EOFError, OSError):
                os._exit(0)
    os._exit(0)


def _settle_in() -> None:
    """Be a polite guest of the machine: named, and the first to go when memory runs out."""
    for path, text in (("/proc/self/comm", "metrana-sampler"), ("/proc/self/oom_score_adj", "1000")):
        try:
            with open(path, "w") as file:
                file.write(text)
        except OSError:
            pass  # a sandbox without them
