"""What the ends of writers' segments said, kept for as long as the segments are the same: a cache that may be deleted.

::

    <dir>/.catalog/catalog.json     a line with a checksum; for each writer the state of its segments, and its ends

A file is replaced as a whole. One that's torn, damaged, of another version, another user's or a link counts for
nothing, and a writer whose segments have another state than the one beside its ends is read again.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
import time
import zlib
from collections.abc import Sequence
from math import isfinite
from typing import Any

from metrana.store.ends import WriterEnds
from metrana.store.lines import Head
from metrana.store.place import find_place
from metrana.store.writer import keep_out_of_git

FOLDER = ".catalog"
NAME = "catalog.json"
SAVED_WRITERS = 100  # fewer are read again as fast as a file of them
_FORMAT = b"metrana catalog 1"
_LARGEST_BYTES = 1 << 30
_SHARE_TO_SAVE = 0.01
_LITTER_SECS = 3600.0
# A segment that changed so recently may change once more without its state showing it: clocks of file systems stand
# still for some milliseconds, those that count whole seconds for up to two.
UNSETTLED_NS = 500_000_000
_UNSETTLED_COARSE_NS = 2_500_000_000
_SECOND_NS = 1_000_000_000
# The fields of Head, in its order.
_RUN = ("id", "organization", "workspace_name", "project_name", "run_name", "orchestration_id")
_WRITER = (
    *("host", "pid", "pid_start", "rank", "timestamp", "pid_namespace", "is_resumed", "is_forked"),
    *("attempt", "version"),
)
_NONE = type(None)
_RUN_TYPES = ((str,), (str,), (str,), (str,), (str,), (str, _NONE))
_WRITER_TYPES = (
    *((str,), (int,), (int, _NONE), (int, _NONE), (float,), (int, _NONE), (bool,), (bool,)),
    *((int, _NONE), (int,)),
)

State = list[list[Any]]
"""The segments of a writer: name, inode, size, and when contents and inode changed, in nanoseconds."""


class Remembered:
    """The ends of a store's writers by their folders.

    ``least`` is from how many writers on they're saved, ``unsettled_ns`` for how long after a change they aren't kept.
    """

    def __init__(self, store_dir: str, least: int = SAVED_WRITERS, unsettled_ns: int = UNSETTLED_NS) -> None:
        self._store_dir = store_dir
        self._prefix = os.path.join(store_dir, "")
        self._least = least
        self._unsettled_ns = unsettled_ns
        self._rows: dict[str, Any] | None = None  # as they were saved, each checked when it's asked for
        self._runs: list[Any] = []
        self._known: dict[str, tuple[State, WriterEnds]] = {}
        self._seen: dict[str, tuple[State, WriterEnds]] = {}
        self._news = 0

    def find(self, folder: str, state: State) -> WriterEnds | None:
        """What was read of a writer when its segments had that state; None where that's not known."""
        known = self._known.get(folder)
        if known is None:
            known = self._recall(folder)
        if known is None or known[0] != state:
            return None
        self._seen[folder] = known
        return known[1]

    def keep(self, folder: str, state: State, ends: WriterEnds, looked_ns: int) -> None:
        """Remember what was read of a writer whose segments had that state at a time, in nanoseconds."""
        if state and all(
            _is_settled(changed, written, looked_ns, self._unsettled_ns) for _, _, _, written, changed in state
        ):
            self._seen[folder] = state, ends
            self._news += 1

    def end_reading(self) -> None:
        """Forget the writers that weren't seen since the last time, and save the others where that's worth it."""
        self._known, self._seen = self._seen, {}
        self._rows = {}
        if len(self._known) >= self._least and self._news >= len(self._known) * _SHARE_TO_SAVE:
            self._news = 0
            place = find_place(self._store_dir, FOLDER, NAME)
            if place is not None:
                try:
                    _write(place, _encode(self._known, self._prefix))
                except OSError:
                    pass  # a full disk, another process that was first: it's made the next time, or never needed

    def _recall(self, folder: str) -> tuple[State, WriterEnds] | None:
        if self._rows is None:
            self._rows, self._runs = _load(self._store_dir)
        row = self._rows.get(folder[len(self._prefix) :]) if self._rows else None
        try:
            return None if row is None else _decode(row, self._runs)
        except (ValueError, TypeError, IndexError):
            return None


def describe_state(paths: Sequence[str]) -> tuple[State, float]:
    """The state of a writer's segments, and when the newest one was written, in seconds since the epoch.

    An empty state, which is never remembered, where one of them is gone.
    """
    state: State = []
    written = 0.0
    is_whole = True
    for path in paths:
        try:
            found = os.stat(path)
        except OSError:
            is_whole, written = False, 0.0
            continue
        written = found.st_mtime
        state.append([os.path.basename(path), found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns])
    return state if is_whole else [], written


def _is_settled(changed: int, written: int, now: int, unsettled_ns: int) -> bool:
    if os.name == "nt":  # where the other one is the time of creation
        changed = written
    return now - changed > (unsettled_ns if changed % _SECOND_NS else _UNSETTLED_COARSE_NS)


def _load(store_dir: str) -> tuple[dict[str, Any], list[Any]]:
    place = find_place(store_dir, FOLDER, NAME)
    try:
        if place is None or not stat.S_ISDIR(os.lstat(place).st_mode):
            return {}, []
        # No link is followed and no pipe waited for, whoever has put it there.
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        with open(os.open(os.path.join(place, NAME), flags), "rb") as file:
            found = os.fstat(file.fileno())
            is_own = not hasattr(os, "geteuid") or found.st_uid == os.geteuid()
            if not stat.S_ISREG(found.st_mode) or not is_own or found.st_size > _LARGEST_BYTES:
                return {}, []
            first, _, body = file.read().partition(b"\n")
        if first != _FORMAT + b" %08x" % zlib.crc32(body):
            return {}, []
        record = json.loads(body)
        rows, runs = record["writers"], record["runs"]
        for run in runs:
            _check(run, _RUN_TYPES)
        return (rows, runs) if type(rows) is dict else ({}, [])
    except Exception:  # whatever stands in a damaged file: all is read anew from the lines
        return {}, []


def _decode(row: Any, runs: list[Any]) -> tuple[State, WriterEnds]:
    """A writer as it was saved. Raises ValueError, TypeError, IndexError for what no writer of ours has saved."""
    state, run, writer, version, started, last, end = row
    if run is None:
        head = None
    else:
        _check(writer, _WRITER_TYPES)
        head = Head(*runs[run], *writer)
        if not isfinite(head.timestamp):
            raise ValueError("no timestamp")
    if type(state) is not list or not state or type(version) is not int or end not in (None, "closed", "failed"):
        raise ValueError("not a writer")
    if not all(type(at) is float and isfinite(at) for at in (started, last)):
        raise ValueError("no timestamp")
    return state, WriterEnds(head, version, started, last, end)


def _check(fields: Any, types: tuple[tuple[type, ...], ...]) -> None:
    if type(fields) is not list or len(fields) != len(types):
        raise ValueError("not the fields")
    for field, allowed in zip(fields, types):  # noqa: B905 - of equal length
        if type(field) not in allowed:
            raise ValueError("not a field")


def _encode(known: dict[str, tuple[State, WriterEnds]], prefix: str) -> bytes:
    runs: dict[tuple[Any, ...], int] = {}
    rows = {}
    for folder, (state, ends) in known.items():
        run, writer = None, None
        if ends.head is not None:
            identity = tuple(getattr(ends.head, name) for name in _RUN)
            run = runs.setdefault(identity, len(runs))
            writer = [getattr(ends.head, name) for name in _WRITER]
        rows[folder[len(prefix) :]] = [state, run, writer, ends.version, ends.started, ends.last, ends.end]
    body = json.dumps({"runs": list(runs), "writers": rows}, separators=(",", ":")).encode("ascii")
    return _FORMAT + b" %08x\n" % zlib.crc32(body) + body


def _write(place: str, data: bytes) -> None:
    """Put the file there in whole, or not at all. Raises OSError."""
    os.makedirs(place, mode=0o700, exist_ok=True)
    if not stat.S_ISDIR(os.lstat(place).st_mode):
        return  # a link: what it points to isn't ours
    keep_out_of_git(place)
    part = os.path.join(place, f"{NAME}.{secrets.token_hex(8)}.part")
    try:
        with open(
            os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600), "wb"
        ) as file:
            file.write(data)
        os.replace(part, os.path.join(place, NAME))
    except BaseException:  # an interrupt, too: no part stays behind
        if os.path.lexists(part):
            os.unlink(part)
        raise
    now = time.time()
    for entry in os.scandir(place):
        if entry.name.endswith(".part") and now - entry.stat(follow_symlinks=False).st_mtime > _LITTER_SECS:
            os.unlink(entry.path)
