"""What the sampling child runs. Everything that may crash, hang or exit is imported in here, behind main()."""

from __future__ import annotations

import os
import resource
import select
import threading
import time
from multiprocessing import queues as mp_queues
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from metrana.model import Batch, Labels
from metrana.system.channel import (
    ATTRIBUTES,
    BATCH,
    DROPPED_ATTRIBUTE,
    ENDED,
    FAILED,
    SERIES,
    STARTED,
    STOP,
    WARNING,
    OrderReceiver,
)
from metrana.system.vitals import Vitals

if TYPE_CHECKING:
    from metrana.system.claims import Claims
    from metrana.system.host import Host

BUFFER_LIMIT = 64  # batches that wait for a stalled parent; what comes later is dropped and counted
HANDOVER_INTERVALS, HANDOVER_SECS = 2, 10.0  # see Claims
_LONGEST_WAIT_SECS = 3600.0  # an interval may be longer than what the C library can wait
_PARENT_POLL_MS = 500  # where there's no pidfd


def main(queue: Any, receiver: OrderReceiver, vitals: Vitals, options: dict[str, Any]) -> None:
    """Sample until told to stop or the training process ends. Never returns: leaves by ``os._exit``.

    ``os._exit`` because an orderly exit could wait for a driver's thread or run a library's exit handler.
    """
    queue._reader.close()  # else our own copy would keep the pipe open when the training process is gone
    queue._ignore_epipe = True
    parent_pid = options["pid"]
    orders: SimpleQueue[dict[str, Any]] = SimpleQueue()
    leaving = _Leaving()
    watcher = threading.Thread(target=_watch, args=(parent_pid, receiver, orders, leaving), name="watch", daemon=True)
    watcher.start()
    outbox = _Outbox(queue, leaving, options["dropped"])
    try:
        _settle_in()
        _sample(outbox, orders, vitals, options, leaving)
        outbox.tell_dropped()
        outbox.put(ENDED, None)
    except BaseException as error:  # a library may raise anything, SystemExit too: tell the parent, print nothing
        outbox.put(FAILED, f"{type(error).__name__}: {error}")
    outbox.close()
    receiver.hang_up()
    os._exit(0)


def _sample(
    outbox: _Outbox,
    orders: SimpleQueue[dict[str, Any]],
    vitals: Vitals,
    options: dict[str, Any],
    leaving: _Leaving,
) -> None:
    from metrana.system.claims import Sole
    from metrana.system.devices import Hint
    from metrana.system.host import Host
    from metrana.system.sampler import Sampler

    host = Host(pid=options["pid"], environ={**os.environ, **options["environ"]})
    claims: Claims | Sole = Sole()
    if options["run_id"]:
        leaving.claims = claims = _make_claims(host, options)
    sampler = Sampler(
        host,
        options["interval_secs"],
        emit_batch=outbox.put_batch,
        emit_attributes=lambda attributes: outbox.put(ATTRIBUTES, attributes),
        warn=lambda message: outbox.put(WARNING, message),
        first_step=options["first_step"],
        claims=claims,
        vitals=vitals,
        left_out=options["left_out"],
        start=options["start"],
        on_start=lambda start: outbox.put(STARTED, start),
        wake=lambda: orders.put({}),
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
            if not order:
                return False
            take(order)

    if options.get("hint"):
        take(options)
    reason = sampler.run(wait)
    claims.release()
    if reason is not None:
        outbox.put(FAILED, reason)


def _make_claims(host: Host, options: dict[str, Any]) -> Claims:
    from metrana.system.claims import Claims
    from metrana.system.lock_files import lock_places

    owner = {"pid": host.pid, "child": os.getpid(), "rank": options["rank"], "host": host.hostname}
    return Claims(
        options["run_id"],
        lock_places(host.environ),
        owner,
        host.monotonic,
        options["grace_secs"],
        min(HANDOVER_INTERVALS * options["interval_secs"], HANDOVER_SECS),
        options["abandoned"],
    )


class _Leaving:
    """The end of a child whose training process is gone: at once, and without a trace."""

    def __init__(self) -> None:
        self.claims: Claims | None = None

    def __call__(self) -> None:
        if self.claims is not None:
            self.claims.leave()
        os._exit(0)


class _Outbox:
    """The writing end of the queue, bounded: a stalled parent costs batches, counted and told, never memory."""

    def __init__(self, queue: mp_queues.Queue[Any], leaving: _Leaving, dropped: int) -> None:
        self._queue: Any = queue
        self._leaving = leaving
        self._series: tuple[tuple[str, Labels], ...] = ()
        self._dropped = self._told = dropped

    def put_batch(self, batch: Batch) -> None:
        if len(self._queue._buffer) >= BUFFER_LIMIT:
            self._dropped += 1
            return
        self.tell_dropped()
        if batch.series != self._series:
            self._series = batch.series
            self.put(SERIES, batch.series)
        self.put(BATCH, (batch.timestamp, batch.step, batch.values))

    def tell_dropped(self) -> None:
        if self._dropped > self._told:
            self._told = self._dropped
            self.put(WARNING, "the training process didn't take all samples of the hardware in time: some are lost")
            self.put(ATTRIBUTES, {DROPPED_ATTRIBUTE: self._dropped})

    def put(self, kind: str, content: object) -> None:
        thread = self._queue._thread
        if thread is not None and not thread.is_alive():
            self._leaving()  # the feeder met a broken pipe: nobody reads any more
        self._queue.put((kind, content))

    def close(self) -> None:
        """Wait until all is in the pipe: the parent's deadline is the limit, it kills a child that doesn't end."""
        self._queue.close()
        self._queue.join_thread()


def _watch(parent_pid: int, receiver: OrderReceiver, orders: SimpleQueue[dict[str, Any]], leaving: _Leaving) -> None:
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
                leaving()
            try:
                orders.put(receiver.receive())
            except (EOFError, OSError):
                leaving()
    leaving()


def _settle_in() -> None:
    """Be a polite guest of the machine: named, and the first to go when memory runs out."""
    for path, text in (("/proc/self/comm", "metrana-sampler"), ("/proc/self/oom_score_adj", "1000")):
        try:
            with open(path, "w") as file:
                file.write(text)
        except OSError:
            pass  # a sandbox without them
    try:
        # A driver that crashes leaves no image of this process: 1 keeps the kernel from piping one, too (core(5)).
        hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
        resource.setrlimit(resource.RLIMIT_CORE, (min(1, hard) if hard >= 0 else 1, hard))
    except (OSError, ValueError):
        pass
