"""The runs of one store as the page sees them, and the indexes of those that were looked at last."""

from __future__ import annotations

import hashlib
import re
import secrets
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass

from metrana.errors import MetranaError, RunNotFoundError, describe_error
from metrana.model import Labels
from metrana.store.catalog import CatalogReader
from metrana.store.index import RunIndex, SeriesInfo
from metrana.store.run_info import RunInfo

_PLAIN_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
# What's kept open beside the run that was asked for last: points of all of them together, and runs.
_MOST_POINTS = 40_000_000
_MOST_RUNS = 8
# Reading the catalog of a store of many runs takes a while: it's done for at most this share of the time.
_CATALOG_SHARE = 0.1
_CATALOG_PAUSE_SECS = 1.0
_TOKEN_DIGITS = 18


@dataclass(frozen=True)
class Listing:
    """Runs by key, newest first, as changed since an earlier listing; ``token`` names this one.

    ``is_whole`` says that it holds all runs and not only what changed. ``problem`` says why the store can't be read.
    """

    token: str
    is_whole: bool
    runs: dict[str, RunInfo]
    removed: tuple[str, ...]
    unreadable: tuple[str, ...]
    problem: str | None


class Shelf:
    """Looks runs up by their key, which is never made into a path. May be used from several threads."""

    def __init__(self, store_dir: str) -> None:
        self.store_dir = store_dir
        self._catalog = CatalogReader(store_dir)
        self._runs: dict[str, RunInfo] = {}
        self._keys: dict[str, str] = {}  # by folder, so that a run keeps its key
        self._changed: dict[str, int] = {}
        self._removed: dict[str, int] = {}
        self._unreadable: tuple[str, ...] = ()
        self._problem: str | None = None
        self._revision = 0
        self._era = secrets.token_hex(4)
        self._next_reading = 0.0
        self._reading = threading.Lock()
        self._open: OrderedDict[str, OpenRun] = OrderedDict()
        self._opening = threading.Lock()

    def list_runs(self, since: str = "") -> Listing:
        """What has changed since the listing of that token; everything for a token that isn't known."""
        with self._reading:
            if time.monotonic() >= self._next_reading:
                self._read_catalog()
            era, _, number = since.partition("-")
            is_whole = era != self._era or not number.isdecimal() or len(number) > _TOKEN_DIGITS
            known = -1 if is_whole else int(number)
            runs = {key: info for key, info in self._runs.items() if self._changed[key] > known}
            removed = () if is_whole else tuple(key for key, at in self._removed.items() if at > known)
            return Listing(f"{self._era}-{self._revision}", is_whole, runs, removed, self._unreadable, self._problem)

    def find_info(self, key: str) -> RunInfo:
        """The run with that key, as it was last read. Raises RunNotFoundError."""
        info = self._runs.get(key)
        if info is None:
            self.list_runs()
            info = self._runs.get(key)
        if info is None:
            raise RunNotFoundError("no such run: it may have been removed from the folder")
        return info

    def open_run(self, key: str) -> OpenRun:
        """The run with that key and its index, not yet refreshed. Raises RunNotFoundError."""
        info = self.find_info(key)
        with self._opening:
            run = self._open.get(key)
            if run is None or run.index.info.folder != info.folder:
                run = OpenRun(RunIndex(info))
            self._open[key] = run
            self._open.move_to_end(key)
            self._make_room()
            return run

    def close(self) -> None:
        """End what's still being read in the background."""
        with self._opening:
            for run in self._open.values():
                run.index.close()

    def _make_room(self) -> None:
        points = sum(run.point_count for run in self._open.values())
        while len(self._open) > 1 and (points > _MOST_POINTS or len(self._open) > _MOST_RUNS):
            _, oldest = self._open.popitem(last=False)
            points -= oldest.point_count
            oldest.index.close()

    def _read_catalog(self) -> None:
        begin = time.monotonic()
        try:
            catalog = self._catalog.read()
        except MetranaError as error:
            self._problem = describe_error(error)
        else:
            self._problem, self._unreadable = None, catalog.unreadable
            self._take(catalog.runs)
        took = time.monotonic() - begin
        self._next_reading = begin + max(_CATALOG_PAUSE_SECS, took / _CATALOG_SHARE)

    def _take(self, found: tuple[RunInfo, ...]) -> None:
        self._revision += 1
        before = self._runs
        runs: dict[str, RunInfo] = {}
        for info in found:
            key = self._keys.get(info.folder) or self._make_key(info, runs)
            runs[key] = info
            if before.get(key) != info:
                self._changed[key] = self._revision
                self._removed.pop(key, None)
        for key in before.keys() - runs.keys():
            self._removed[key] = self._revision
        self._runs = runs

    def _make_key(self, info: RunInfo, taken: dict[str, RunInfo]) -> str:
        """The run's id; a copy of a run in another folder gets one of its own."""
        key = info.id
        if not _PLAIN_ID.fullmatch(key) or key in taken or key in self._runs:
            key = hashlib.sha256(info.folder.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        self._keys[info.folder] = key
        return key


class OpenRun:
    """A run's index, its series numbered in the order in which they turned up."""

    def __init__(self, index: RunIndex) -> None:
        self.index = index
        self.series: list[SeriesInfo] = []
        self.superseded: list[SeriesInfo | None] = []  # of each series what doesn't count any more
        self.changed: list[int] = []
        self.revision = 0
        self.point_count = 0
        self._era = secrets.token_hex(4)
        self._numbers: dict[tuple[str, Labels], int] = {}
        self._seen: tuple[SeriesInfo, ...] = ()
        self._lock = threading.Lock()

    @property
    def token(self) -> str:
        return f"{self._era}-{self.revision}"

    def refresh(self, budget_secs: float) -> None:
        """Take in what was appended to the run, for about that long."""
        self.index.refresh(budget_secs)
        with self._lock:
            seen = self.index.series
            if seen is self._seen:
                return
            self._seen = seen
            self.revision += 1
            self.point_count = sum(info.count for info in seen)
            for info in seen:
                number = self._numbers.setdefault((info.name, info.labels), len(self.series))
                superseded = self.index.find_superseded(info)
                if number == len(self.series):
                    self.series.append(info)
                    self.superseded.append(superseded)
                    self.changed.append(self.revision)
                elif self.series[number] != info or self.superseded[number] != superseded:
                    self.series[number], self.superseded[number] = info, superseded
                    self.changed[number] = self.revision

    def list_series(self, since: str) -> tuple[str, dict[int, SeriesInfo]]:
        """The series that have changed since the listing of that token, all for an unknown one; and the new token."""
        with self._lock:
            era, _, number = since.partition("-")
            known = int(number) if era == self._era and number.isdecimal() else 0
            changed = {n: info for n, info in enumerate(self.series) if self.changed[n] > known}
            return self.token, changed
