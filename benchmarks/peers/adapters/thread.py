"""What one writes oneself: a thread that reads psutil, and two CSV files."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import csv
    import threading
    import time
    from collections.abc import Sequence
    from typing import Any, TextIO

    import psutil


class ThreadAdapter:
    def __init__(self) -> None:
        self._files: list[TextIO] = []
        self._thread: threading.Thread | None = None
        self._step = 0

    def load(self) -> None:
        global csv, psutil, threading, time
        import csv
        import threading
        import time

        import psutil

    def open(self, folder: str, interval_secs: float | None) -> None:
        self._write = self._make_writer(os.path.join(folder, "metrics.csv"))
        self._stop = threading.Event()
        if interval_secs is not None:
            write = self._make_writer(os.path.join(folder, "system.csv"))
            self._thread = threading.Thread(target=self._sample, args=(write, interval_secs), daemon=True)
            self._thread.start()

    def _make_writer(self, path: str) -> Any:
        file = open(path, "a", newline="")  # noqa: SIM115 - closed by close()
        self._files.append(file)
        return csv.writer(file).writerow

    def _sample(self, write: Any, interval_secs: float) -> None:
        process = psutil.Process()
        psutil.cpu_percent()
        process.cpu_percent()
        while not self._stop.wait(interval_secs):
            memory, disk = psutil.virtual_memory(), psutil.disk_usage("/")
            values = {
                "cpu": psutil.cpu_percent(),
                "memory_used": memory.used,
                "memory": memory.percent,
                "disk_total": disk.total,
                "disk_free": disk.free,
                "disk": disk.percent,
                "process_rss": process.memory_info().rss,
                "process_cpu": process.cpu_percent(),
            }
            now = time.time()
            for name, value in values.items():
                write((now, name, value))
            for file in self._files:
                file.flush()

    def log(self, name: str, value: float) -> None:
        self._step += 1
        self._write((time.time(), self._step, name, value))

    def log_many(self, values: dict[str, float]) -> None:
        self._step += 1
        for name, value in values.items():
            self._write((time.time(), self._step, name, value))

    def log_series(self, name: str, values: Sequence[float]) -> None:
        for value in values:
            self.log(name, value)

    def close(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        for file in self._files:
            file.close()

    def read(self, folder: str, name: str) -> int:
        times, steps, values = [], [], []
        with open(os.path.join(folder, "metrics.csv"), newline="") as file:
            for row in csv.reader(file):
                if len(row) == 4 and row[2] == name:
                    times.append(float(row[0]))
                    steps.append(int(row[1]))
                    values.append(float(row[3]))
        return len(values)

    count = read

    def read_system(self, folder: str) -> dict[str, list[float]]:
        found: dict[str, list[float]] = {}
        with open(os.path.join(folder, "system.csv"), newline="") as file:
            for timestamp, name, _ in csv.reader(file):
                found.setdefault(name, []).append(float(timestamp))
        return found


ADAPTER = ThreadAdapter()
