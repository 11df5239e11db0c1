"""Reading a long run with several processes at once.

They're started as programs and not through ``multiprocessing``, so that nobody's ``__main__`` is imported again,
whatever script reads the run.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any

from metrana.store.index.files import SUFFIX, ColumnsFile, PieceRow
from metrana.store.index.intake import Harvest, SegmentPosition
from metrana.store.index.worker import decode_harvest, decode_positions, encode_job
from metrana.store.reader import SeriesKey

MOST_WORKERS = 8
_PROGRAM = "import sys; sys.path[:] = sys.argv[2:]; from metrana.store.index.worker import main; main(sys.argv[1])"


class Result:
    """What a worker found in one writer's segments. ``pieces`` stand in ``file``, each described by its row."""

    def __init__(self, answer: dict[str, Any], file: ColumnsFile) -> None:
        self.writer: int = answer["writer"]
        self.file = file
        self.harvest: Harvest = decode_harvest(answer)
        self.positions: dict[str, SegmentPosition] = decode_positions(answer["segments"])
        self.unreadable: list[str] = answer["unreadable"]
        self.pieces: list[tuple[SeriesKey, PieceRow]] = [
            ((name, tuple((key, value) for key, value in labels)), row) for name, labels, row in answer["pieces"]
        ]


class Crew:
    """Workers that leave their files in a folder, and in ``left`` the writers that are still to be read."""

    def __init__(self, jobs: list[tuple[int, dict[str, SegmentPosition]]], folder: str) -> None:
        self.left = {writer for writer, _ in jobs}
        self._jobs = deque(jobs)
        self._folder = folder
        self._selector = selectors.DefaultSelector()
        self._workers: list[_Worker] = []
        count = min(count_cpus(), MOST_WORKERS, len(jobs))
        self._finalizer = weakref.finalize(self, _end, self._workers, self._selector)
        try:
            for _ in range(count):
                worker = _Worker(folder)
                self._workers.append(worker)
                self._selector.register(worker.stdout, selectors.EVENT_READ, worker)
        except OSError:
            pass  # as many as there are; the caller reads what none of them does

    def results(self, end: float | None) -> Iterator[Result]:
        """What has been read, as it comes, until all is or ``end`` on the monotonic clock has passed.

        Writers that stay in ``left`` when no worker is left are for the caller to read.
        """
        while self.left and self._workers:
            ready = self._selector.select(None if end is None else max(0.0, end - time.monotonic()))
            for key, _ in ready:
                result = self._hear(key.data)
                if result is not None:
                    yield result
            if not ready or (end is not None and time.monotonic() >= end):
                break
        if not self.left or not self._workers:
            self.close()

    @property
    def pids(self) -> list[int]:
        """The workers that are still there."""
        return [worker.pid for worker in self._workers]

    @property
    def is_over(self) -> bool:
        return not self._finalizer.alive

    def close(self) -> None:
        """End the workers, whatever they're at."""
        self._finalizer()

    def _hear(self, worker: _Worker) -> Result | None:
        try:
            answer = json.loads(worker.stdout.readline())
            if worker.token:
                result = Result(answer, self._map(worker, answer["size"]))
                self.left.discard(result.writer)
            else:
                worker.token, result = answer["token"], None
            if self._jobs:
                worker.ask(*self._jobs.popleft())
            return result
        except (OSError, ValueError, KeyError, TypeError):  # it ended: out of memory, a full disk
            self._selector.unregister(worker.stdout)
            self._workers.remove(worker)
            worker.end()
            return None

    def _map(self, worker: _Worker, size: int) -> ColumnsFile:
        path = os.path.join(self._folder, worker.token + SUFFIX)
        return ColumnsFile(path, worker.token, size)


class _Worker:
    def __init__(self, folder: str) -> None:
        self.token = ""
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, folder, *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="ascii",
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self.pid = self._process.pid
        self._stdin, self.stdout = self._process.stdin, self._process.stdout

    def ask(self, writer: int, positions: dict[str, SegmentPosition]) -> None:
        self._stdin.write(encode_job(writer, positions) + "\n")
        self._stdin.flush()

    def end(self) -> None:
        self._process.kill()
        for pipe in (self._stdin, self.stdout):
            try:
                pipe.close()
            except OSError:
                pass  # what was to be written has no reader any more
        self._process.wait()


def can_start() -> bool:
    """Whether other processes would be of use: there's a CPU for them, and the program is a Python that takes ``-c``.

    A frozen application would start itself once more.
    """
    is_python = not getattr(sys, "frozen", False) and "python" in os.path.basename(sys.executable or "").lower()
    return is_python and count_cpus() > 1


def count_cpus() -> int:
    """The CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _end(workers: list[_Worker], selector: selectors.BaseSelector) -> None:
    for worker in workers:
        worker.end()
    workers.clear()
    selector.close()
