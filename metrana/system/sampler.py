"""The loop in the child: one tick at each point of a grid that doesn't drift."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from functools import partial

from metrana.errors import ReadFailed
from metrana.model import Batch, Labels, Sample, Scope, labels_of
from metrana.system.channel import MODE_ATTRIBUTE
from metrana.system.claims import Claims, Sole
from metrana.system.collectors import COLLECTORS, Collector, HandingDown, Row, build
from metrana.system.device_reader import DeviceReader, DeviceReading
from metrana.system.devices import Hint
from metrana.system.grid import Grid
from metrana.system.health import Health
from metrana.system.host import Host
from metrana.system.status import Status
from metrana.system.vitals import LOOP, Vitals

LOOP_LIMIT_SECS = 15.0
"""How long one reading of the loop may take before the child counts as hung; none of them waits for anything."""
DEVICE_SHARE, DEVICE_WAIT_SECS = 0.25, 0.25
"""How long a tick waits for the driver: a share of the interval, and no longer than that. What comes later is sent by
itself, with the tick's own timestamp."""
_TICK = "sampling of the hardware"


class Sampler:
    """Builds the collectors, ticks, and tells what it found.

    ``emit_batch`` takes each tick's Batch, ``emit_attributes`` the facts of the run as they turn up, ``warn`` a
    warning. ``first_step`` is the first tick's step, ``start`` the time of ``host.monotonic`` at which the grid begins.
    ``claims`` say what this process is to report. ``left_out`` are collectors not to be built, each with its reason.
    ``on_start`` takes the start of the grid, and ``wake`` ends the wait of ``run`` from another thread.
    """

    def __init__(
        self,
        host: Host,
        interval_secs: float,
        emit_batch: Callable[[Batch], None],
        emit_attributes: Callable[[dict[str, object]], None],
        warn: Callable[[str], None],
        first_step: int = 0,
        collectors: tuple[Row, ...] = COLLECTORS,
        claims: Claims | Sole | None = None,
        vitals: Vitals | None = None,
        left_out: Mapping[str, str] | None = None,
        start: float | None = None,
        on_start: Callable[[float], None] = lambda start: None,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self._host = host
        self._interval_secs = interval_secs
        self._emit_batch = emit_batch
        self._emit_attributes = emit_attributes
        self._health = Health(warn)
        self._step = first_step
        self._start = start
        self._on_start = on_start
        self._claims: Claims | Sole = claims or Sole()
        self._mode = ""
        self._vitals = vitals or Vitals(-1)
        self._node_labels = labels_of({"host": host.hostname})
        self._process_labels = labels_of({"host": host.hostname, "pid": str(host.pid)})
        self._label_sets: dict[Labels, Labels] = {(): self._node_labels}
        for name, reason in (left_out or {}).items():
            self._health.drop(name, reason)
        self._status = Status(collectors, self._health, self._claims, left_out or (), emit_attributes)
        self._rows = {scope: [row for row in collectors if row[2] is scope] for scope in Scope}
        self._own = self._build(Scope.PROCESS)
        self._node: list[Collector] = []
        self._devices = DeviceReader(host, self._health, self._vitals, self._rows[Scope.DEVICE], self._claims, wake)

    def run(self, wait: Callable[[float], bool]) -> str | None:
        """Tick on the grid, see Grid, until ``wait(until)``, a time of ``host.monotonic``, says to stop.

        A tick that outlasts its interval, or a machine that slept, skips the points of the grid it missed. One last
        tick follows the stop, so that a run shorter than an interval has two. Returns None after it, or why capture has
        ended before.
        """
        self._emit_attributes({"system/platform": platform.platform()})
        now = self._host.monotonic
        start = now() if self._start is None else self._start
        self._on_start(start)
        grid = Grid(start, self._interval_secs, now())
        self._attempt_tick()
        while self._is_alive():
            due = grid.advance(now())
            self._health.is_counting = not grid.is_dense  # a bad start of some seconds mustn't drop anything
            self._vitals.rest(LOOP, due + LOOP_LIMIT_SECS)
            is_over = wait(due)
            while not is_over and now() < due:
                self._take_late_devices()
                is_over = wait(due)
            self._attempt_tick(is_last=is_over)
            if is_over:
                self._take_late_devices()
                self._devices.drop_if_busy()
                self._status.tell(self._node + self._own, self._devices)
                return None
        return self._health.dropped(_TICK) or "nothing is left that can be read"

    def update(self, environ: dict[str, str], hint: Hint | None) -> None:
        """Hand on what the training process has learned of its devices since."""
        self._devices.update(environ, hint)

    def tick(self, is_last: bool = False) -> Batch:
        """One pass over the collectors. Raises ReadFailed where every one of them failed."""
        self._take_late_devices()
        if not self._devices.is_alive():
            self._claims.release_cards()  # another process may have a better way to them
        self._claims.tick(is_last)
        if self._claims.mode != self._mode:  # at the start, and where somebody has deleted the lock files
            self._mode = self._claims.mode
            self._emit_attributes({MODE_ATTRIBUTE: self._mode})
        if self._claims.holds_node:
            self._take_node()
        else:
            self._node = []  # the claim was lost: somebody has deleted the lock files
        timestamp = self._host.time()
        step, self._step = self._step, self._step + 1
        # What reads the driver does so at the same time, and only there may a reading take long.
        is_read = self._devices.begin(timestamp, step)
        series, values, answered = self._collect(self._node + self._own)
        if self._node:
            self._hand_down()
        if is_read or is_last:
            share = self._interval_secs if is_last else DEVICE_SHARE * self._interval_secs
            self._devices.wait(min(DEVICE_WAIT_SECS, share))
        while (reading := self._devices.take()) is not None:
            if reading.step == step:
                self._add(reading.samples, series, values)
            else:
                self._emit_late(reading)
        self._status.tell(self._node + self._own, self._devices)
        if not answered and not values and any(self._health.dropped(c.name) is None for c in self._node + self._own):
            raise ReadFailed("no collector could read anything")
        return Batch(timestamp, step, tuple(series), tuple(values))

    def _attempt_tick(self, is_last: bool = False) -> None:
        batch = self._health.attempt(_TICK, partial(self.tick, is_last))
        if batch is not None and batch.values:
            self._emit_batch(batch)

    def _take_late_devices(self) -> None:
        """Send what the driver said after its tick was over."""
        is_any = False
        while (reading := self._devices.take()) is not None:
            is_any = True
            self._emit_late(reading)
        if is_any:
            self._status.tell(self._node + self._own, self._devices)

    def _emit_late(self, reading: DeviceReading) -> None:
        series: list[tuple[str, Labels]] = []
        values: list[float] = []
        self._add(reading.samples, series, values)
        if values:
            self._emit_batch(Batch(reading.timestamp, reading.step, tuple(series), tuple(values)))

    def _take_node(self) -> None:
        """This process reports the node from now on, going on from what the one before has handed down."""
        left = self._claims.inherited()
        if not self._node:
            self._node = self._build(Scope.NODE)
        for collector in self._node:
            if collector.name in left and isinstance(collector, HandingDown):
                collector.resume(left[collector.name])

    def _hand_down(self) -> None:
        handing = [collector for collector in self._node if isinstance(collector, HandingDown)]
        if handing:
            self._claims.hand_down({collector.name: collector.hand_down() for collector in handing})

    def _is_alive(self) -> bool:
        """False once capture has ended: five ticks failed in a row, or nothing is left to read."""
        if self._health.dropped(_TICK) is not None:
            return False
        is_waiting = bool(self._rows[Scope.NODE]) and not self._claims.holds_node and self._claims.may_report_devices
        return (
            is_waiting
            or self._devices.is_alive()
            or any(self._health.dropped(collector.name) is None for collector in self._node + self._own)
        )

    def _collect(self, collectors: list[Collector]) -> tuple[list[tuple[str, Labels]], list[float], bool]:
        """The series and values of some collectors, and whether any of them answered."""
        series: list[tuple[str, Labels]] = []
        values: list[float] = []
        answered = False
        for collector in collectors:
            self._vitals.enter(LOOP, collector.name, LOOP_LIMIT_SECS)
            samples = self._health.attempt(collector.name, collector.collect)
            if samples is not None:
                answered = True
                self._add(samples, series, values)
        self._vitals.rest(LOOP, self._host.monotonic() + LOOP_LIMIT_SECS)
        return series, values, answered

    def _add(self, samples: list[Sample], series: list[tuple[str, Labels]], values: list[float]) -> None:
        series += [(sample.metric.name, self._label(sample)) for sample in samples]
        values += [sample.value for sample in samples]

    def _build(self, scope: Scope) -> list[Collector]:
        built = (
            self._health.attempt(row[0], partial(build, row, self._host, self._health)) for row in self._rows[scope]
        )
        return [collector for collector in built if collector is not None]

    def _label(self, sample: Sample) -> Labels:
        if sample.metric.scope is Scope.PROCESS:
            return self._process_labels
        labels = self._label_sets.get(sample.labels)
        if labels is None:
            labels = self._label_sets[sample.labels] = tuple(sorted(self._node_labels + sample.labels))
        return labels
