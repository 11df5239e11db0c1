"""Which runs a store holds: their identity and status from the heads and tails of segments, never from whole files."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from dataclasses import dataclass, replace

from metrana.errors import RunNotFoundError, StoreError
from metrana.store.ends import CLOSED, ENDED, RUNNING, UNKNOWN, WriterInfo, read_writer, unescape_name
from metrana.store.layout import FORMAT_VERSION, SEGMENT_SUFFIX
from metrana.system.host import Host


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


@dataclass(frozen=True)
class Catalog:
    """The runs of a store, newest first, and the folders in it that can't be read."""

    runs: tuple[RunInfo, ...]
    unreadable: tuple[str, ...]


def find_runs(store_dir: str, host: Host | None = None) -> list[RunInfo]:
    """The runs of a store, newest first; none where there's no such folder. Raises StoreError."""
    return list(read_catalog(store_dir, host).runs)


def find_run(store_dir: str, run: str, host: Host | None = None) -> RunInfo:
    """The run with that id, else the newest with that name, ``project/name`` and so on up to the organization.

    Raises RunNotFoundError, StoreError.
    """
    runs = find_runs(store_dir, host)
    for found in runs:
        if found.id == run:
            return found
    for found in runs:
        if run in _names(found):
            return found
    where = os.path.abspath(store_dir)
    missing = "" if os.path.isdir(where) else " (no such folder)"
    raise RunNotFoundError(
        f"no run {run!r} in {where}{missing}: 'metrana runs' lists the runs, --dir names another folder"
    )


def read_catalog(store_dir: str, host: Host | None = None) -> Catalog:
    """What a store holds. ``host`` is the machine that says which writers still live. Raises StoreError."""
    host = host or Host(hostname=platform.node())
    unreadable: dict[str, None] = {}
    try:
        organizations = _list_folders(os.path.abspath(store_dir))
    except FileNotFoundError:
        return Catalog((), ())
    except OSError as error:
        raise StoreError(
            f"can't read the folder {os.path.abspath(store_dir)}: {error.strerror}; --dir names another one"
        ) from error
    folders = organizations
    for _ in ("workspace", "project", "run"):
        folders = [inner for outer in folders for inner in _try_list(outer, unreadable)]
    infos = (_read_run_info(folder, host) for folder in folders if "@" in os.path.basename(folder))
    runs = [info for info in infos if info is not None]
    runs.sort(key=lambda info: (info.started, info.id), reverse=True)
    return Catalog(tuple(runs), tuple(unreadable))


def reread_run(info: RunInfo, host: Host | None = None) -> RunInfo:
    """A run as it stands now; as it was, its status unknown, where nothing of it can be read any more."""
    read = _read_run_info(info.folder, host or Host(hostname=platform.node()))
    return read or replace(info, status=UNKNOWN)


def list_segments(info: RunInfo, unreadable: dict[str, None]) -> list[tuple[str, list[str]]]:
    """The writers' folders of a run as it stands now, those of ``info`` first, and their segments, oldest first."""
    known = [writer.folder for writer in info.writers]
    folders = [*known, *(path for path in _try_list(info.folder, unreadable) if path not in set(known))]
    return [(path, _try_list(path, unreadable, _list_segments)) for path in folders]


def _names(info: RunInfo) -> list[str]:
    parts = [info.organization, info.workspace_name, info.project_name, info.run_name]
    return ["/".join(parts[start:]) for start in range(len(parts))]


def _read_run_info(folder: str, host: Host) -> RunInfo | None:
    """One run, or None for a folder that no writer has written into."""
    unreadable: dict[str, None] = {}
    found = []
    for path in _try_list(folder, unreadable):
        segments = _try_list(path, unreadable, _list_segments)
        if segments:
            found.append(read_writer(path, segments, host, unreadable))
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


def _join_status(writers: tuple[WriterInfo, ...]) -> str:
    """A run's status from its writers', which are in the order in which they started.

    Forked copies don't count, since workers are often just killed, nor does what had ended before the run was resumed.
    """
    counted = [writer for writer in writers if not writer.is_forked] or list(writers)
    statuses = {
        writer.status
        for index, writer in enumerate(counted)
        if writer.status == RUNNING
        or not any(later.is_resumed and later.started >= writer.last for later in counted[index + 1 :])
    }
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
