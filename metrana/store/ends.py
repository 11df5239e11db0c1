"""The two ends of a writer's segments: who wrote, from when to when, and whether it's still at it."""

from __future__ import annotations

import os
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass

from metrana.procstat import read_pid_namespace
from metrana.store.layout import FORMAT_VERSION, HEAD_BYTES
from metrana.store.lines import LONGEST_LINE_BYTES, Head, parse_end, parse_head, parse_line, parse_time, parse_version
from metrana.system.host import Host

RUNNING = "running"
CLOSED = "closed"
ENDED = "ended without a close"
UNKNOWN = "unknown"
STATUSES = (RUNNING, CLOSED, ENDED, UNKNOWN)
FRESH_SECS = 120.0
_HEAD_LINES = 64
_TAIL_BYTES = 16 * 1024


@dataclass(frozen=True)
class WriterInfo:
    """One process that wrote into a run. Times in seconds since the epoch; ``segments`` are paths, oldest first.

    ``is_resumed`` says that it continued the run of an earlier launch, ``is_forked`` that it's a copy of a process that
    has a writer of its own; ``version`` is the format's that it wrote.
    """

    folder: str
    segments: tuple[str, ...]
    host: str
    pid: int
    rank: int | None
    started: float
    last: float
    status: str
    is_resumed: bool = False
    is_forked: bool = False
    version: int = FORMAT_VERSION


@dataclass(frozen=True)
class WriterEnds:
    """What the two ends of a writer's segments say: the same as long as the segments are.

    ``head`` is None where none is readable; ``newest`` is the newest timestamp and ``end`` how the writer ended, each
    None where there's none.
    """

    head: Head | None
    version: int
    newest: float | None
    end: str | None


def read_ends(segments: Sequence[str], unreadable: dict[str, None]) -> WriterEnds:
    """Both ends of a writer's segments, oldest first. Paths that can't be read go to ``unreadable``."""
    return WriterEnds(*_find_head(segments, unreadable), *_find_end(segments, unreadable))


def judge_writer(folder: str, segments: tuple[str, ...], ends: WriterEnds, written: float, host: Host) -> WriterInfo:
    """A writer as it stands now. ``written`` is when its newest segment was, in seconds since the epoch."""
    head, newest, end = ends.head, ends.newest, ends.end
    if head is None:
        escaped, _, pid_text = os.path.basename(folder).rpartition("-")[0].rpartition("-")
        name, pid, pid_start, rank = unescape_name(escaped), _parse_pid(pid_text), None, None
        started = written if newest is None else newest
    else:
        name, pid, pid_start, rank, started = head.host, head.pid, head.pid_start, head.rank, head.timestamp
    if end is not None:
        status = CLOSED if end == "closed" else ENDED
    else:
        namespace = None if head is None else head.pid_namespace
        alive = _is_alive(host, pid, pid_start, namespace) if name == host.hostname else None
        if alive is None:
            status = RUNNING if host.time() - written < FRESH_SECS else UNKNOWN
        else:
            status = RUNNING if alive else ENDED
    last = started if newest is None else max(started, newest)
    is_resumed, is_forked = (False, False) if head is None else (head.is_resumed, head.is_forked)
    return WriterInfo(
        folder, segments, name, pid, rank, started, last, status, is_resumed, is_forked, version=ends.version
    )


def unescape_name(component: str) -> str:
    """The name that a path component was made of, as far as it wasn't cut."""
    return urllib.parse.unquote(component, errors="replace")


def _find_head(segments: Sequence[str], unreadable: dict[str, None]) -> tuple[Head | None, int]:
    """The first readable head, None where there's none, and the version of the format that was claimed."""
    # The first line of the first segment, unless that was torn.
    version = FORMAT_VERSION
    for path in segments:
        try:
            with open(path, "rb") as file:
                for _ in range(_HEAD_LINES):
                    try:
                        record = parse_line(file.readline(HEAD_BYTES))
                        version = parse_version(record)
                        return parse_head(record), version
                    except ValueError:
                        continue
        except OSError:
            unreadable[path] = None
    return None, version


def _find_end(segments: Sequence[str], unreadable: dict[str, None]) -> tuple[float | None, str | None]:
    """The newest timestamp at the end of a writer's segments and how the writer ended, each None where there's none."""
    for path in reversed(segments):
        try:
            newest, end = _read_tail(path)
        except OSError:
            unreadable[path] = None
            continue
        if newest is not None:
            return newest, end
    return None, None


def _read_tail(path: str) -> tuple[float | None, str | None]:
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        window = _TAIL_BYTES
        while True:
            begin = max(0, size - window)
            file.seek(begin)
            lines = file.read(size - begin).split(b"\n")
            newest, end = _parse_tail(lines[1:] if begin else lines)
            if newest is not None or begin == 0 or window > LONGEST_LINE_BYTES:
                return newest, end
            # One batch of very many series may be longer than the window.
            window *= 8


def _parse_tail(lines: list[bytes]) -> tuple[float | None, str | None]:
    newest, end = None, None
    for line in lines:
        try:
            record = parse_line(line)
            timestamp = parse_time(record.get("t"))
            if "e" in record:
                end = parse_end(record)[0]
        except ValueError:
            continue
        if newest is None or timestamp > newest:
            newest = timestamp
    return newest, end


def _is_alive(host: Host, pid: int, pid_start: int | None, namespace: int | None) -> bool | None:
    """Whether the process lives on this machine; None where it can't be known.

    A pid means nothing outside its namespace, and two containers may have one hostname. In /proc/<pid>/stat the state
    is field 3, the start in clock ticks since boot field 22
    (https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html).
    """
    if not host.exists("/proc/self/stat"):
        return None
    if host.is_live and namespace is not None and namespace != read_pid_namespace():
        return None
    try:
        # The command in parentheses may itself hold spaces and parentheses.
        fields = host.read_bytes(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return False
    except OSError:
        return None
    if len(fields) < 20 or fields[0] in (b"Z", b"X"):
        return False
    return pid_start is None or fields[19] == str(pid_start).encode()


def _parse_pid(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else 0
