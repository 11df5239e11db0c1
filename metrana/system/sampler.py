"""The loop in the child: one tick at each point of a grid that doesn't drift."""

from __future__ import annotations

import importlib
import math
import platform
from collections.abc import Callable
from functools import partial

from metrana.errors import ReadFailed, Unavailable, describe_error
from metrana.model import Batch, Labels, Sample, Scope, labels_of
from metrana.system.collectors import COLLECTORS, Collector, DeviceCollector
from metrana.system.devices import Hint
from metrana.system.health import Health
from metrana.system.host import Host

CAPTURE_ATTRIBUTE = "system/capture/"
OK = "ok"
STARTING = "the driver hasn't answered yet"
SLOW_TO_START = ("gpu",)  # a driver may take half a minute to wake its cards, or hang
_TICK = "sampling of the hardware"


class Sampler:
    """Builds the collectors, ticks, and tells what it found.

    ``emit_batch`` takes each tick's Batch, ``emit_attributes`` the facts of the run as they turn up, ``warn`` a
    warning. ``first_step`` is the first tick's step.
    """

    def __init__(
        self,
        host: Host,
        interval_secs: float,
        emit_batch: Callable[[Batch], None],
        emit_attributes: Callable[[dict[str, object]], None],
        warn: Callable[[str], None],
        first_step: int = 0,
        collectors: tuple[tuple[str, str], ...] = COLLECTORS,
    ) -> None:
        self._host = host
        self._interval_secs = interval_secs
        self._emit_batch = emit_batch
        self._emit_attributes = emit_attributes
        self._health = Health(warn)
        self._step = first_step
        self._status: dict[str, str] = {}
        self._node_labels = labels_of({"host": host.hostname})
        self._process_labels = labels_of({"host": host.hostname, "pid": str(host.pid)})
        self._label_sets: dict[Labels, Labels] = {(): self._node_labels}
        self._names = [name for name, _ in collectors]
        self._slow = [row for row in collectors if row[0] in SLOW_TO_START]
        self._knowledge: tuple[dict[str, str], Hint | None] | None = None
        self._collectors = self._build([row for row in collectors if row not in self._slow])

    def run(self, wait: Callable[[float], bool]) -> str | None:
        """Tick on the grid start + n x interval until ``wait(until)``, a time of ``host.monotonic``, says to stop.

        A tick that outlasts its interval, or a machine that slept, skips the points of the grid it missed. One last
        tick follows the stop, so that a run shorter than an interval has two. Returns None after it, or why capture has
        ended before.
        """
        self._emit_attributes({"system/platform": platform.platform(), "system/arbitration_mode": "none"})
        start = self._host.monotonic()
        point = 0
        self._start_slow(self._attempt_tick(), start + self._interval_secs)
        while self._is_alive():
            point = max(point + 1, math.ceil((self._host.monotonic() - start) / self._interval_secs))
            is_over = wait(start + point * self._interval_secs)
            self._attempt_tick()
            if is_over:
                return None
        return self._health.dropped(_TICK) or "nothing is left that can be read"

    def update(self, environ: dict[str, str], hint: Hint | None) -> None:
        """Hand on what the training process has learned of its devices since."""
        self._knowledge = environ, hint
        for collector in self._collectors:
            if isinstance(collector, DeviceCollector):
                collector.update(environ, hint)
                self._status.pop(collector.name, None)  # have its facts told again

    def tick(self) -> Batch:
        """One pass over the collectors. Raises ReadFailed where every one of them failed."""
        timestamp = self._host.time()
        series, values, answered = self._collect(self._collectors)
        self._emit_status()
        alive = [c for c in self._collectors if self._health.dropped(c.name) is None]
        if alive and not answered:
            raise ReadFailed("no collector could read anything")
        batch = Batch(timestamp, self._step, tuple(series), tuple(values))
        self._step += 1
        return batch

    def _attempt_tick(self) -> Batch | None:
        batch = self._health.attempt(_TICK, self.tick)
        if batch is not None and batch.values:
            self._emit_batch(batch)
        return batch

    def _is_alive(self) -> bool:
        """False once capture has ended: five ticks failed in a row, or nothing is left to read."""
        if self._health.dropped(_TICK) is not None:
            return False
        return any(self._health.dropped(collector.name) is None for collector in self._collectors)

    def _start_slow(self, first: Batch | None, until: float) -> None:
        """Build what may take long or never come back, now that the others' first samples and the reasons are out.

        Its own first samples belong to the first tick, unless the next one is due before they can be had.
        """
        slow = self._build(self._slow)
        self._slow = []
        self._collectors += slow
        if self._knowledge is not None:
            self.update(*self._knowledge)
        if slow and first is not None and self._host.monotonic() < until:
            series, values, _ = self._collect(slow)
            if values:
                self._emit_batch(Batch(first.timestamp, first.step, tuple(series), tuple(values)))
        self._emit_status()

    def _collect(self, collectors: list[Collector]) -> tuple[list[tuple[str, Labels]], list[float], bool]:
        """The series and values of some collectors, and whether any of them answered."""
        series: list[tuple[str, Labels]] = []
        values: list[float] = []
        answered = False
        for collector in collectors:
            samples = self._health.attempt(collector.name, collector.collect)
            if samples is not None:
                answered = True
                series += [(sample.metric.name, self._label(sample)) for sample in samples]
                values += [sample.value for sample in samples]
        return series, values, answered

    def _build(self, rows: list[tuple[str, str]]) -> list[Collector]:
        built = (self._health.attempt(name, partial(self._build_one, class_path)) for name, class_path in rows)
        return [collector for collector in built if collector is not None]

    def _build_one(self, class_path: str) -> Collector:
        module, _, name = class_path.partition(":")
        try:
            collector: Collector = getattr(importlib.import_module(module), name)(self._host, self._health)
        except Unavailable:
            raise
        except ImportError as error:
            raise Unavailable(f"{error.name or 'a module'} can't be imported: {error}") from error
        except Exception as error:  # one that can't even be built is a fault of its own, and won't mend by itself
            raise Unavailable(f"can't be started: {describe_error(error)}") from error
        return collector

    def _label(self, sample: Sample) -> Labels:
        if sample.metric.scope is Scope.PROCESS:
            return self._process_labels
        labels = self._label_sets.get(sample.labels)
        if labels is None:
            labels = self._label_sets[sample.labels] = tuple(sorted(self._node_labels + sample.labels))
        return labels

    def _emit_status(self) -> None:
        """``system/capture/<collector>``: ok, or why its chart is missing, and with it the collector's own facts."""
        found: dict[str, object] = {}
        alive = {collector.name: collector for collector in self._collectors}
        for name in self._names:
            collector = alive.get(name)
            status = self._health.dropped(name)
            if status is None and collector is None:
                status = STARTING
            elif status is None:
                status = (collector.reason() if isinstance(collector, DeviceCollector) else None) or OK
            if self._status.get(name) != status:
                self._status[name] = status
                found[CAPTURE_ATTRIBUTE + name] = status
                if collector is not None:
                    found.update(self._health.attempt(f"{name}/attributes", collector.attributes) or {})
        for key, reason in self._health.dropped_since_last():
            # Parts of a collector: a card, a reading. The collectors themselves have had their turn.
            if key.count("/") and not key.endswith("/attributes"):
                found[CAPTURE_ATTRIBUTE + key] = reason
        if found:
            self._emit_attributes(found)
