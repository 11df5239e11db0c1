"""NVIDIA GPUs: utilization, memory, temperature, power and clock of the cards that this process reports.

Utilization is the share of the last second or less in which any kernel ran, however small. Memory utilization is how
full the card is, not how busy its bus. https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from metrana.errors import ReadFailed, Unavailable
from metrana.model import Kind, Metric, Sample, Scope
from metrana.system.collectors import NOT_CHOSEN
from metrana.system.devices import resolve
from metrana.system.sources.nvml import CardFailed, DriverFailed, DriverUnusable, Nvml

if TYPE_CHECKING:
    from metrana.system.collectors import Choose
    from metrana.system.devices import Hint, Resolution
    from metrana.system.health import Health
    from metrana.system.host import Host
    from metrana.system.sources.nvml import Card

T = TypeVar("T")

UTILIZATION = Metric(
    "system/gpu/utilization", "percent", Kind.GAUGE, Scope.DEVICE, "Share of the time in which a kernel ran."
)
MEMORY_USED = Metric(
    "system/gpu/memory_used_bytes", "bytes", Kind.GAUGE, Scope.DEVICE, "Memory in use, as nvidia-smi shows it."
)
MEMORY_UTILIZATION = Metric(
    "system/gpu/memory_utilization", "percent", Kind.GAUGE, Scope.DEVICE, "How full the card's memory is."
)
TEMPERATURE = Metric("system/gpu/temperature_celsius", "celsius", Kind.GAUGE, Scope.DEVICE, "Temperature of the chip.")
POWER = Metric("system/gpu/power_watts", "watts", Kind.GAUGE, Scope.DEVICE, "Power that the card draws.")
SM_CLOCK = Metric("system/gpu/sm_clock_mhz", "mhz", Kind.GAUGE, Scope.DEVICE, "Clock of the streaming multiprocessors.")
METRICS = (UTILIZATION, MEMORY_USED, MEMORY_UTILIZATION, TEMPERATURE, POWER, SM_CLOCK)

PARTITION_CHECK_SECS = 60.0


def _read_memory(source: Nvml, card: Card) -> tuple[float, ...]:
    total, used = source.memory(card)
    return float(used), 100.0 * used / total


# One call of the driver each; what a call can't give is lost to its own series alone.
READINGS: dict[str, tuple[tuple[Metric, ...], Callable[[Nvml, Card], tuple[float, ...]]]] = {
    "utilization": ((UTILIZATION,), lambda source, card: (source.utilization(card),)),
    "memory": ((MEMORY_USED, MEMORY_UTILIZATION), _read_memory),
    "temperature": ((TEMPERATURE,), lambda source, card: (source.temperature(card),)),
    "power": ((POWER,), lambda source, card: (source.power(card),)),
    "sm_clock": ((SM_CLOCK,), lambda source, card: (source.sm_clock(card),)),
}


class GpuCollector:
    """The cards that this process is to report. ``select`` says who chooses them."""

    name = "gpu"
    metrics = METRICS

    def __init__(self, host: Host, health: Health, source: Nvml | None = None) -> None:
        """Raises Unavailable with the reason. A driver that may answer later is started by collect()."""
        self._host = host
        self._health = health
        self._source = Nvml(host) if source is None else source
        self._environ: Mapping[str, str] = host.environ
        self._hint: Hint | None = None
        self._choose: Choose | None = None
        self._chosen: Mapping[int, str] = {}
        self._check_due = 0.0
        self.resolution: Resolution = resolve(self._environ, ())
        try:
            self._start()
        except ReadFailed:
            pass  # collect() tries again and says why it fails

    def update(self, environ: Mapping[str, str], hint: Hint | None) -> None:
        """What's known about the training process by now; what's reportable follows from it."""
        self._environ, self._hint = environ, hint
        self._resolve()

    def select(self, choose: Choose) -> None:
        """Have ``choose`` say in each reading which cards to read, whoever drives them, and their labels."""
        self._choose = choose

    def is_reporting(self) -> bool:
        """Whether any card was this process's to report in the last reading."""
        return bool(self._chosen)

    def attributes(self) -> dict[str, object]:
        """The run's attributes about GPUs; none while the driver hasn't answered yet."""
        if not self._source.started:
            return {}
        return {
            "system/gpu/driver_version": self._source.driver_version or "unknown",
            "system/gpu/visible_count": len(self.resolution.visible),
            "system/gpu/host_device_count": len(self._source.cards),
            "system/gpu/mig_partitioned_count": self.resolution.partitioned_count,
        }

    def reason(self) -> str | None:
        """Why there's no chart, in words; None where there's one."""
        reason = _find_reason(self._source, self.resolution)
        if reason is not None or not self._source.started:
            return reason
        if self._choose is not None and not self._chosen:
            return NOT_CHOSEN
        lost = [self._find_loss(index) for index in self._chosen or self.resolution.reportable]
        return None if None in lost else lost[0]

    def collect(self) -> list[Sample]:
        """The samples of one tick. Raises Unavailable, and ReadFailed where no card answers at all."""
        if not self._source.started:
            self._start()
        self._check_partitions()
        samples: list[Sample] = []
        outcomes: dict[str, ReadFailed | Unavailable | None] = {}
        for card in self._find_cards():
            key = f"gpu/{card.device.index}"
            try:
                samples += self._read_card(card)
                outcomes[key] = None
            except DriverFailed:
                raise
            except (ReadFailed, Unavailable) as error:
                outcomes[key] = error
        failures = [outcome for outcome in outcomes.values() if isinstance(outcome, ReadFailed)]
        if failures and len(failures) == len(outcomes):
            # Eight cards that fail as one are one failure of the driver, with one warning.
            raise DriverFailed(str(failures[0]) if len(failures) == 1 else f"every GPU failed: {failures[0]}")
        for key, outcome in outcomes.items():
            self._health.attempt(key, partial(_settle, outcome))
        return samples

    def _start(self) -> None:
        try:
            self._source.start()
        except DriverUnusable as error:
            self._health.warn(f"no GPU charts: {error}")
            raise
        self._check_due = self._host.monotonic() + PARTITION_CHECK_SECS
        self._resolve()

    def _resolve(self) -> None:
        self.resolution = resolve(self._environ, self._source.devices(), self._hint)

    def _find_cards(self) -> list[Card]:
        if self._choose is None:
            self._chosen = {index: str(index) for index in self.resolution.reportable}
        else:
            self._chosen = self._choose(self.resolution, self._source.devices())
        return [self._source.cards[index] for index in self._chosen if not self._health.dropped(f"gpu/{index}")]

    def _check_partitions(self) -> None:
        now = self._host.monotonic()
        if now >= self._check_due:
            self._check_due = now + PARTITION_CHECK_SECS
            for card in self._source.cards:
                self._refresh_partitions(card)

    def _refresh_partitions(self, card: Card) -> None:
        if self._source.refresh_partitions(card):
            key = f"gpu/{card.device.index}"
            for forgotten in (key, *(f"{key}/{reading}" for reading in READINGS)):
                self._health.forget(forgotten)
            self._resolve()

    def _find_loss(self, index: int) -> str | None:
        """Why a card gives no sample, or None where it gives some."""
        key = f"gpu/{index}"
        losses = [self._health.dropped(f"{key}/{reading}") for reading in READINGS]
        loss = self._health.dropped(key) or (None if None in losses else losses[0])
        return None if loss is None else f"GPU {index}: {loss}"

    def _read_card(self, card: Card) -> list[Sample]:
        """One card's samples. Raises DriverFailed, CardFailed, and what the driver says to opening the card."""
        if card.handle is None:
            self._source.open(card)
            # Now its UUID and its MIG mode are known, which can change what this process sees and drives.
            self._resolve()
            if card not in self._find_cards():
                return []
        key = f"gpu/{card.device.index}"
        outcomes: dict[str, tuple[float, ...] | ReadFailed | Unavailable] = {}
        for reading, (_, read) in READINGS.items():
            if self._health.dropped(f"{key}/{reading}"):
                continue
            try:
                outcomes[reading] = read(self._source, card)
            except (CardFailed, DriverFailed):
                raise
            except (ReadFailed, Unavailable) as error:
                outcomes[reading] = error
                if reading == "utilization" and isinstance(error, Unavailable):
                    self._refresh_partitions(card)  # a card that's cut up at run time shows it here first
                    if card.device.partitioned:
                        return []
        failures = [outcome for outcome in outcomes.values() if isinstance(outcome, ReadFailed)]
        if len(failures) > 1 and not any(isinstance(outcome, tuple) for outcome in outcomes.values()):
            # A card that fell off the bus often answers "unknown error" to everything: one loss, not five.
            raise CardFailed(f"no reading of the GPU works: {failures[0]}")
        samples: list[Sample] = []
        labels = (("gpu", self._chosen.get(card.device.index, str(card.device.index))),)
        for reading, outcome in outcomes.items():
            metrics, _ = READINGS[reading]
            values = self._health.attempt(f"{key}/{reading}", partial(_settle, outcome))
            if values is not None:
                samples += [
                    Sample(metric, value, labels) for metric, value in zip(READINGS[reading][0], values, strict=True)
                ]
        return samples


def describe(host: Host, hint: Hint | None = None) -> dict[str, object]:
    """What GPU capture would do on this machine, and why. Never raises an Exception."""
    source = Nvml(host)
    failure: str | None = None
    try:
        source.start()
    except (Unavailable, ReadFailed) as error:
        failure = str(error)
    resolution = resolve(host.environ, source.devices(), hint)
    return {
        "driver_version": source.driver_version,
        "host_count": len(source.cards),
        "visible": list(resolution.visible),
        "owned": resolution.owned,
        "basis": resolution.basis,
        "mig_count": resolution.partitioned_count,
        "reason": failure or _find_reason(source, resolution),
    }


def _find_reason(source: Nvml, resolution: Resolution) -> str | None:
    if not source.started:
        return "the NVIDIA driver hasn't answered yet"
    if not source.cards:
        return "the NVIDIA driver shows no GPU"
    if not resolution.visible:
        return resolution.basis
    if not resolution.whole:
        return "every visible GPU is MIG-partitioned"
    failures = [source.cards[index].failure for index in resolution.reportable]
    return None if None in failures else f"GPU {resolution.reportable[0]}: {failures[0]}"


def _settle(outcome: T | ReadFailed | Unavailable) -> T:
    """An outcome of before as health.attempt counts it."""
    if isinstance(outcome, (ReadFailed, Unavailable)):
        raise outcome
    return outcome
