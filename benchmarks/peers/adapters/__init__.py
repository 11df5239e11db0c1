"""One file a tool, named as it: the same few verbs, through the tool's public calls."""

from __future__ import annotations

import importlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    class Adapter(Protocol):
        """A tool as the rows use it. Everything it keeps lies below ``folder``."""

        def load(self) -> None:
            """Import the tool, and nothing before this."""

        def open(self, folder: str, interval_secs: float | None) -> None:
            """Open a run; ``interval_secs`` between samples of the system, None for no system metrics."""

        def log(self, name: str, value: float) -> None:
            """Log one scalar at the next step."""

        def log_many(self, values: dict[str, float]) -> None:
            """Log several scalars at the next step."""

        def log_series(self, name: str, values: Sequence[float]) -> None:
            """Log the values one after the other, by the fastest public call."""

        def close(self) -> None:
            """End the run."""

        def read(self, folder: str, name: str) -> int:
            """How many points of a metric the run has. Raises NotOfferedError; ``count`` is then asked."""

        def count(self, folder: str, name: str) -> int:
            """The same, by any way at all."""

        def read_system(self, folder: str) -> dict[str, list[float]]:
            """Times of the points of each system series, in seconds since the epoch."""


class NotOfferedError(Exception):
    """What a row asks for isn't offered by the tool; says why."""


def find_adapter(name: str) -> Adapter:
    """The adapter of a tool."""
    adapter: Adapter = importlib.import_module(f"benchmarks.peers.adapters.{name}").ADAPTER
    return adapter
