"""``system/capture/<collector>``: ok, or in words why a chart is missing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from metrana.model import Scope
from metrana.system.claims import Claims, Sole
from metrana.system.collectors import NOT_CHOSEN, DeviceCollector, Row

if TYPE_CHECKING:
    from metrana.system.collectors import Collector
    from metrana.system.device_reader import DeviceReader
    from metrana.system.health import Health

CAPTURE_ATTRIBUTE = "system/capture/"
OK = "ok"
STARTING = "the driver hasn't answered yet"
HUNG = "the driver doesn't answer"


class Status:
    """Tells each collector's state when it has changed, and with it the collector's own facts.

    Attributes are the run's: what another process reports is left to it to tell.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        health: Health,
        claims: Claims | Sole,
        left_out: Collection[str],
        emit_attributes: Callable[[dict[str, object]], None],
    ) -> None:
        self._rows = rows
        self._left_out = left_out
        self._health = health
        self._claims = claims
        self._emit_attributes = emit_attributes
        self._told: dict[str, str] = {}
        self._has_reported: dict[str, bool] = {}  # devices, at their last answer: a hanging driver gives none

    def tell(self, collectors: Sequence[Collector], devices: DeviceReader) -> None:
        """Emit what has changed. ``collectors`` are those of the loop."""
        found: dict[str, object] = {}
        alive: dict[str, Collector] = {collector.name: collector for collector in collectors}
        if not devices.is_busy:
            if devices.take_news():
                for name in devices.names:
                    self._told.pop(name, None)
            alive.update((collector.name, collector) for collector in devices.collectors)
        for name, _, scope in self._rows:
            status = self._find_status(name, scope, alive.get(name), devices)
            if status is None or self._told.get(name) == status:
                continue
            self._told[name] = status
            found[CAPTURE_ATTRIBUTE + name] = status
            if name in alive:
                found.update(self._health.attempt(f"{name}/attributes", alive[name].attributes) or {})
        for key, reason in self._health.dropped_since_last():
            # Parts of a collector: a card, a reading. The collectors themselves have had their turn.
            if key.count("/") and not key.endswith("/attributes"):
                found[CAPTURE_ATTRIBUTE + key] = reason
        if found:
            self._emit_attributes(found)

    def _find_status(self, name: str, scope: Scope, collector: Collector | None, devices: DeviceReader) -> str | None:
        """The status in words; None where it's another process's to tell, or not to be known at the moment."""
        dropped = self._health.dropped(name)
        if name in self._left_out:
            return dropped
        if scope is not Scope.PROCESS and not self._claims.may_report_devices:
            return self._claims.reason
        if scope is Scope.NODE and not self._claims.holds_node:
            return None
        if scope is not Scope.DEVICE:
            return dropped or OK
        if isinstance(collector, DeviceCollector):
            self._has_reported[name] = collector.is_reporting()
        if not self._has_reported.get(name, False) and not self._claims.holds_node:
            return None
        if dropped is not None:
            return dropped
        if devices.is_hung:
            return HUNG
        if isinstance(collector, DeviceCollector):
            reason = collector.reason() or OK
            # That others report is theirs to tell: said by the node's reporter at first, when perhaps nobody else will.
            is_theirs = reason == NOT_CHOSEN and self._told.get(name) not in (None, STARTING, HUNG)
            return None if is_theirs else reason
        return None if name in self._told else STARTING
