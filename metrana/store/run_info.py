"""A run as a listing has it."""

from __future__ import annotations

from dataclasses import dataclass

from metrana.store.ends import WriterInfo
from metrana.store.layout import FORMAT_VERSION


@dataclass(frozen=True)
class RunInfo:
    """A run without its points. Times in seconds since the epoch; ``last`` is when a writer last wrote.

    ``writers`` are in the order in which they started; ``unreadable`` holds the paths that couldn't be read;
    ``newest_version`` is the newest version of the format that a writer wrote.
    """

    folder: str
    id: str
    organization: str
    workspace_name: str
    project_name: str
    run_name: str
    orchestration_id: str | None
    started: float
    last: float
    status: str
    writers: tuple[WriterInfo, ...]
    unreadable: tuple[str, ...]
    newest_version: int = FORMAT_VERSION

    @property
    def names(self) -> list[str]:
        """What the run is called: all four names with slashes between, then with ever fewer of them, then its own."""
        parts = [self.organization, self.workspace_name, self.project_name, self.run_name]
        return ["/".join(parts[start:]) for start in range(len(parts))]
