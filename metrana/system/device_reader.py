"""Reads the devices in a thread of its own: a driver may keep a call waiting for seconds, or for ever."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NoReturn, TypeVar

from metrana.errors import ReadFailed
from metrana.model import Sample
from metrana.system.claims import Claims, Sole
from metrana.system.collectors import DeviceCollector, Row, build
from metrana.system.devices import Hint
from metrana.system.health import Health
from metrana.system.host import Host
from metrana.system.lane import Lane
from metrana.system.vitals import DEVICES, Vitals

T = TypeVar("T")

START_LIMIT_SECS = 90.0
"""How long a driver may take for its first answer: without persistence mode it wakes its cards, one after the other."""
READ_LIMIT_SECS = 20.0
"""How long a later reading may take before the child counts as hung."""
HUNG_SECS = 3.0
"""A call that has gone on for so long deserves a word."""


class DeviceReading:
    """What one reading found: its tick's timestamp and step, and the samples."""

    __slots__ = ("timestamp", "step", "samples")

    def __init__(self, timestamp: float, step: int) -> None:
        self.timestamp = timestamp
        self.step = step
        self.samples: list[Sample] = []


class DeviceReader:
    """The collectors of devices, built and read in one thread, one reading at a time."""

    def __init__(
        self,
        host: Host,
        health: Health,
        vitals: Vitals,
        rows: list[Row],
        claims: Claims | Sole,
        wake: Callable[[], None],
    ) -> None:
        self._host = host
        self._health = health
        self._vitals = vitals
        self._unbuilt = rows
        self._claims = claims
        self._lane: Lane[DeviceReading] = Lane(wake)
        self._answered: set[str] = set()
        self._knowledge: tuple[dict[str, str], Hint | None] | None = None
        self._has_news = False
        self.collectors: list[DeviceCollector] = []
        self.names = [row[0] for row in rows]

    @property
    def is_hung(self) -> bool:
        """Whether the driver has kept a call waiting for so long that it's worth a word."""
        secs = self._lane.busy_secs
        return secs is not None and secs >= HUNG_SECS

    @property
    def is_busy(self) -> bool:
        return self._lane.busy_secs is not None

    def take_news(self) -> bool:
        """Whether the facts may have changed since the last call: the training process has told something."""
        has_news, self._has_news = self._has_news, False
        return has_news

    def is_alive(self) -> bool:
        """Whether there's anything to read, now or later."""
        return self._claims.may_report_devices and any(self._health.dropped(name) is None for name in self.names)

    def begin(self, timestamp: float, step: int) -> bool:
        """Begin a tick's reading; False while the one before goes on, or with nothing to read."""
        if self.is_busy or not self.is_alive():
            return False
        self._lane.submit(partial(self._read, DeviceReading(timestamp, step)))
        return True

    def wait(self, secs: float) -> None:
        self._lane.wait(secs)

    def take(self) -> DeviceReading | None:
        """A reading that has ended, once."""
        return self._lane.take()

    def update(self, environ: dict[str, str], hint: Hint | None) -> None:
        """What has become known about the training process; it counts from the next reading on."""
        self._knowledge = environ, hint

    def drop_if_busy(self) -> None:
        """The run ends while the driver keeps a call waiting: say so, with a warning where that's no slow start."""
        secs = self._lane.busy_secs
        if secs is None or secs < 1.0:
            return  # it has had no time to answer yet
        reason = f"the driver hasn't answered for {secs:.0f} s"
        for name in self.names:
            self._health.drop(name, reason)
        if secs >= HUNG_SECS:
            self._health.warn(f"no more GPU charts: {reason}")

    def _read(self, reading: DeviceReading) -> DeviceReading:
        unbuilt, self._unbuilt = self._unbuilt, []
        for row in unbuilt:
            self._vitals.enter(DEVICES, row[0], START_LIMIT_SECS)
            collector = self._attempt(row[0], partial(build, row, self._host, self._health))
            if collector is not None:
                if not isinstance(self._claims, Sole):
                    collector.select(self._claims.choose)
                self.collectors.append(collector)
        knowledge, self._knowledge = self._knowledge, None
        for collector in self.collectors:
            name = collector.name
            if knowledge is not None:
                collector.update(*knowledge)
                self._has_news = True
            self._vitals.enter(DEVICES, name, READ_LIMIT_SECS if name in self._answered else START_LIMIT_SECS)
            samples = self._attempt(name, collector.collect)
            if samples is not None:
                self._answered.add(name)
                reading.samples += samples
        self._vitals.rest(DEVICES)
        return reading

    def _attempt(self, key: str, call: Callable[[], T]) -> T | None:
        """health.attempt, for libraries that raise what isn't an Exception: the thread must live on."""
        try:
            return self._health.attempt(key, call)
        except BaseException as error:  # a library's SystemExit would end the one thread that reads
            return self._health.attempt(key, partial(_fail, f"raised {type(error).__name__}"))


def _fail(reason: str) -> NoReturn:
    raise ReadFailed(reason)
