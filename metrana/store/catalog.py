"""Which runs a store holds: their identity and status from the heads and tails of segments, never from whole files."""

from __future__ import annotations

import os
import platform
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

from metrana.errors import StoreError
from metrana.store.ends import (
    CLOSED,
    ENDED,
    RUNNING,
    UNKNOWN,
    WriterInfo,
    judge_writer,
    read_ends,
    unescape_name,
)
from metrana.store.layout import SEGMENT_SUFFIX
from metrana.store.lines import Head
from metrana.store.naming import choose_run
from metrana.store.remembered import Remembered, describe_state
from metrana.store.run_info import RunInfo
from metrana.system.host import Host


@dataclass(frozen=True)
class Catalog:
    """The runs of a store, newest first, and the folders in it that can't be read."""

    runs: tuple[RunInfo, ...]
    unreadable: tuple[str, ...]


def find_runs(store_dir: str, host: Host | None = None) -> list[RunInfo]:
    """The runs of a store, newest first; none where there's no such folder. Raises StoreError."""
    return list(read_catalog(store_dir, host).runs)


def find_run(store_dir: str, run: str | None = None, host: Host | None = None) -> RunInfo:
    """The run with that id, or the newest with that name; see ``choose_run``. Raises RunNotFoundError, StoreError."""
    return choose_run(find_runs(store_dir, host), run, os.path.abspath(store_dir))


def read_catalog(store_dir: str, host: Host | None = None) -> Catalog:
    """What a store holds. ``host`` is the machine that says which writers still live. Raises StoreError."""
    return CatalogReader(store_dir).read(host)


class CatalogReader:
    """Reads what a store holds, again and again; only what has changed since the last time is opened.

    ``remembered`` is what's known of the writers, None for a reading that neither uses nor saves anything. May be used
    from several threads.
    """

    def __init__(self, store_dir: str, remembered: Remembered | None = None, *, remembers: bool = True) -> None:
        self._store_dir = os.path.abspath(store_dir)
        self._remembered = remembered or (Remembered(self._store_dir) if remembers else None)
        self._lock = threading.Lock()

    def read(self, host: Host | None = None) -> Catalog:
        """The store as it stands now. Raises StoreError."""
        with self._lock:
            return self._read(host or Host(hostname=platform.node()))

    def _read(self, host: Host) -> Catalog:
        unreadable: dict[str, None] = {}
        try:
            folders = _list_folders(self._store_dir)
        except FileNotFoundError:
            return Catalog((), ())
        except OSError as error:
            raise StoreError(
                f"can't read the folder {self._store_dir}: {error.strerror}; --dir names another one"
            ) from error
        for _ in ("workspace", "project", "run"):
            folders = [inner for outer in folders for inner in _try_list(outer, unreadable)]
        infos = [_read_run_info(path, host, self._remembered) for path in folders if "@" in os.path.basename(path)]
        if self._remembered is not None:
            self._remembered.end_reading()
        runs = [info for info in infos if info is not None]
        runs.sort(key=lambda info: (info.started, info.id), reverse=True)
        return Catalog(tuple(runs), tuple(unreadable))


def reread_run(info: RunInfo, host: Host | None = None) -> RunInfo:
    """A run as it stands now; as it was, its status unknown, where nothing of it can be read any more."""
    read = _read_run_info(info.folder, host or Host(hostname=platform.node()), None)
    return read or replace(info, status=UNKNOWN)


def list_segments(info: RunInfo, unreadable: dict[str, None]) -> list[tuple[str, list[str]]]:
    """The writers' folders of a run as it stands now, those of ``info`` first, and their segments, oldest first."""
    known = [writer.folder for writer in info.writers]
    folders = [*known, *(path for path in _try_list(info.folder, unreadable) if path not in set(known))]
    return [(path, _try_list(path, unreadable, _list_segments)) for path in folders]


def _read_run_info(folder: str, host: Host, remembered: Remembered | None) -> RunInfo | None:
    """One run, or None for a folder that no writer has written into."""
    unreadable: dict[str, None] = {}
    found = []
    for path in _try_list(folder, unreadable):
        segments = _try_list(path, unreadable, _list_segments)
        if segments:
            found.append(_read_writer(path, segments, host, remembered, unreadable))
    if not found:
        return None
    found.sort(key=lambda pair: (pair[1].started, pair[1].folder))
    writers = tuple(writer for _, writer in found)
    head = next((head for head, _ in found if head is not None), None)
    if head is None:
        *parents, own = folder.split(os.sep)
        run_name, _, run_id = own.rpartition("@")
        names = [unescape_name(name) for name in [*parents[-3:], run_name]]
        organization, workspace_name, project_name, run_name, orchestration_id = *names, None
    else:
        organization, workspace_name, project_name = head.organization, head.workspace_name, head.project_name
        run_name, run_id, orchestration_id = head.run_name, head.id, head.orchestration_id
    return RunInfo(
        folder=folder,
        id=run_id,
        organization=organization,
        workspace_name=workspace_name,
        project_name=project_name,
        run_name=run_name,
        orchestration_id=orchestration_id,
        started=writers[0].started,
        last=max(writer.last for writer in writers),
        status=_join_status(writers),
        writers=writers,
        unreadable=tuple(unreadable),
        newest_version=max(writer.version for writer in writers),
    )


def _read_writer(
    folder: str, segments: list[str], host: Host, remembered: Remembered | None, unreadable: dict[str, None]
) -> tuple[Head | None, WriterInfo]:
    # The state comes first: what's written while the segments are read shows in the next one.
    looked_ns = time.time_ns()
    state, written = describe_state(segments)
    ends = None if remembered is None else remembered.find(folder, state)
    if ends is None:
        known = len(unreadable)
        ends = read_ends(segments, written, unreadable)
        if remembered is not None and len(unreadable) == known:
            remembered.keep(folder, state, ends, looked_ns)
    return ends.head, judge_writer(folder, tuple(segments), ends, written, host)


def _join_status(writers: tuple[WriterInfo, ...]) -> str:
    """A run's status from its writers', which are in the order in which they started.

    Forked copies don't count, since workers are often just killed, nor does what had ended before the run was resumed.
    """
    counted = [writer for writer in writers if not writer.is_forked] or list(writers)
    statuses = set()
    resumed = -inf  # when the last of the later writers that resumed the run started
    for writer in reversed(counted):
        if writer.status == RUNNING or resumed < writer.last:
            statuses.add(writer.status)
        if writer.is_resumed:
            resumed = max(resumed, writer.started)
    return next(status for status in (RUNNING, ENDED, UNKNOWN, CLOSED) if status in statuses)


def _list_folders(path: str) -> list[str]:
    with os.scandir(path) as entries:
        return sorted(entry.path for entry in entries if not entry.name.startswith(".") and entry.is_dir())


def _list_segments(path: str) -> list[str]:
    with os.scandir(path) as entries:
        names = [entry.name for entry in entries if entry.name.endswith(SEGMENT_SUFFIX) and _is_openable(entry)]
    return [os.path.join(path, name) for name in sorted(names, key=lambda name: (len(name), name))]


def _is_openable(entry: os.DirEntry[str]) -> bool:
    """False for a pipe or a socket, whose opening would wait for ever; what fails at once says so when it's read."""
    return entry.is_file() or entry.is_dir() or not os.path.exists(entry.path)


def _try_list(
    path: str, unreadable: dict[str, None], list_folder: Callable[[str], list[str]] = _list_folders
) -> list[str]:
    try:
        return list_folder(path)
    except OSError:
        unreadable[path] = None
        return []
