"""What has been read of a run at one moment: the pieces by series, how far each segment, and what came beside."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from metrana.store.index.holding import SeriesPieces
from metrana.store.index.intake import SegmentPosition
from metrana.store.layout import FORMAT_VERSION
from metrana.store.reader import SeriesKey


@dataclass
class Snapshot:
    """``writers`` numbers the writers' folders; ``positions`` are by a segment's path, a writer's oldest first."""

    by_key: dict[SeriesKey, SeriesPieces] = field(default_factory=dict)
    writers: dict[str, int] = field(default_factory=dict)
    positions: dict[str, SegmentPosition] = field(default_factory=dict)
    attributes: dict[str, tuple[float, Any]] = field(default_factory=dict)
    skipped_lines: int = 0
    newest_version: int = FORMAT_VERSION

    def freeze(self) -> Snapshot:
        """This moment, while the reading goes on."""
        positions = {
            path: replace(at, declared=None if at.declared is None else dict(at.declared))
            for path, at in self.positions.items()
        }
        return replace(self, writers=dict(self.writers), positions=positions)
