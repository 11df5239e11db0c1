"""The two ends of a writer's segments: who wrote, from when to when, and whether it's still at it."""

from __future__ import annotations

import os
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from metrana.procstat import read_pid_namespace
from metrana.store.layout import FORMAT_VERSION, FRESH_SECS, HEAD_BYTES
from metrana.store.lines import (
    LONGEST_LINE_BYTES,
    Head,
    parse_columns,
    parse_end,
    parse_head,
    parse_line,
    parse_time,
    parse_version,
)
from metrana.system.host import Host

RUNNING = "running"
CLOSED = "closed"
ENDED = "ended without a close"
UNKNOWN = "unknown"
STATUSES = (RUNNING, CLOSED, ENDED, UNKNOWN)
CLOCK_SECS = 60.0  # by which a file server's clock may be behind
_START_DIGITS = 15  # of nanoseconds since the epoch, in hexadecimal: any year from 2006 on
_HEAD_LINES = 64
_TAIL_BYTES = 16 * 1024


@dataclass(frozen=True)
class WriterInfo:
    """One process that wrote into a run. Times in seconds since the epoch; ``segments`` are paths, oldest first.

    ``last`` is when it last wrote: its end line's time, else its last line's where it marks those whose time is the
    user's, else the newest time in the last lines that lies between its start and the file's last change, else that
    change.

    ``is_resumed`` says that it continued the run of an earlier launch, ``is_forked`` that it's a copy of a process that
    has a writer of its own; ``attempt`` is what it wrote of that, None where nothing; ``version`` is the format's that
    it wrote. ``has_head`` is False where all of it is guessed.
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
    attempt: int | None = None
    version: int = FORMAT_VERSION
    has_head: bool = True


@dataclass(frozen=True)
class WriterEnds:
    """What the two ends of a writer's segments say: the same as long as the segments are.

    ``head`` is None where none is readable; ``started`` and ``last`` are as in WriterInfo; ``end`` is how the writer
    ended, None where it hasn't.
    """

    head: Head | None
    version: int
    started: float
    last: float
    end: str | None


def read_ends(segments: Sequence[str], written: float, unreadable: dict[str, None]) -> WriterEnds:
    """Both ends of a writer's segments, oldest first. Paths that can't be read go to ``unreadable``.

    ``written`` is when the newest segment last changed, in seconds since the epoch.
    """
    head, version = _find_head(segments, unreadable)
    times, end = _find_end(segments, unreadable)
    started = _guess_start(segments[0], times, written) if head is None else head.timestamp
    is_true = end is not None or (head is not None and head.attempt is not None)
    return WriterEnds(head, version, started, _find_last(times, is_true, end is not None, started, written), end)


def judge_writer(folder: str, segments: tuple[str, ...], ends: WriterEnds, written: float, host: Host) -> WriterInfo:
    """A writer as it stands now. ``written`` is when its newest segment was, in seconds since the epoch."""
    head, end = ends.head, ends.end
    if head is None:
        escaped, _, pid_text = os.path.basename(folder).rpartition("-")[0].rpartition("-")
        name, pid, pid_start, rank = unescape_name(escaped), _parse_pid(pid_text), None, None
    else:
        name, pid, pid_start, rank = head.host, head.pid, head.pid_start, head.rank
    if end is not None:
        status = CLOSED if end == "closed" else ENDED
    else:
        namespace = None if head is None else head.pid_namespace
        alive = _is_alive(host, pid, pid_start, namespace) if name == host.hostname else None
        if alive is None:
            status = RUNNING if host.time() - written < FRESH_SECS else UNKNOWN
        else:
            status = RUNNING if alive else ENDED
    return WriterInfo(
        folder,
        segments,
        name,
        pid,
        rank,
        ends.started,
        ends.last,
        status,
        is_resumed=head is not None and head.is_resumed,
        is_forked=head is not None and head.is_forked,
        attempt=None if head is None else head.attempt,
        version=ends.version,
        has_head=head is not None,
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


def _guess_start(segment: str, times: Sequence[float], written: float) -> float:
    """When a writer without a readable head started: its folder's name says so. The times may be the user's."""
    start = os.path.basename(os.path.dirname(segment)).rpartition("-")[2]
    try:
        if len(start) >= _START_DIGITS:
            return int(start, 16) / 1e9
    except ValueError:
        pass
    return max((at for at in times if at <= written + CLOCK_SECS), default=written)


def _find_last(times: Sequence[float], is_true: bool, has_end: bool, started: float, written: float) -> float:
    """When a writer last wrote. ``times`` are those of its last lines, ``written`` when the file last changed.

    ``is_true`` says that the last of them is the writer's own. A copy may have a later change than the writer's, a
    clock may go back: so lines that can be true are believed first.
    """
    if has_end:
        return max(started, times[-1])
    latest = written + CLOCK_SECS if written > started else float("inf")
    credible = [at for at in times if started <= at <= latest]
    if is_true and credible and credible[-1] == times[-1]:
        return times[-1]
    return max(credible, default=max(started, written))


def _find_end(segments: Sequence[str], unreadable: dict[str, None]) -> tuple[list[float], str | None]:
    """The timestamps at the end of a writer's segments, its end's last, and how it ended, None where it hasn't."""
    for path in reversed(segments):
        try:
            times, end = _read_tail(path)
        except OSError:
            unreadable[path] = None
            continue
        if times:
            return times, end
    return [], None


def _read_tail(path: str) -> tuple[list[float], str | None]:
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        window = _TAIL_BYTES
        while True:
            begin = max(0, size - window)
            file.seek(begin)
            lines = file.read(size - begin).split(b"\n")
            times, end = _parse_tail(lines[1:] if begin else lines)
            if times or begin == 0 or window > LONGEST_LINE_BYTES:
                return times, end
            # One batch of very many series may be longer than the window.
            window *= 8


def _parse_tail(lines: list[bytes]) -> tuple[list[float], str | None]:
    times: list[float] = []
    end, ended = None, None
    for line in lines:
        try:
            record = parse_line(line)
            timestamp = _read_time(record)
            if "e" in record:
                end, ended = parse_end(record)
        except ValueError:
            continue
        times.append(timestamp)
    return times + ([] if ended is None else [ended]), end


def _read_time(record: dict[str, Any]) -> float:
    """When a line was written, as far as it tells: the user may have given its points any time. Raises ValueError."""
    timestamp = parse_time(record.get("t"))
    if "w" in record:
        return parse_time(record["w"])
    times = record.get("u")
    # In columns "t" is the newest time, which needn't be that of the last point.
    return parse_columns(record)[1][-1] if "c" in record and times else timestamp


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
