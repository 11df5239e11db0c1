"""The lines of a segment as checked values: pure parsing, each function raises ValueError for what isn't the format."""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from metrana.model import Labels, labels_of
from metrana.store.layout import FORMAT_VERSION, decode_value

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
LONGEST_LINE_BYTES = 64 << 20
"""What's longer is damage: a line holds one moment of one process, and a million series fit in."""
_MOST_LEVELS = 64
_decode = json.JSONDecoder().raw_decode


@dataclass(frozen=True)
class Head:
    """The head of a segment: the run's identity and its writer. ``timestamp`` is in seconds since the epoch.

    ``attempt`` is None where the writer didn't know of attempts.
    """

    id: str
    organization: str
    workspace_name: str
    project_name: str
    run_name: str
    orchestration_id: str | None
    host: str
    pid: int
    pid_start: int | None
    rank: int | None
    timestamp: float
    pid_namespace: int | None = None
    is_resumed: bool = False
    is_forked: bool = False
    attempt: int | None = None
    version: int = FORMAT_VERSION


def read_lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a segment, of those that are too long only the beginning. Raises OSError."""
    while line := file.readline(LONGEST_LINE_BYTES):
        yield line
        while len(line) == LONGEST_LINE_BYTES and not line.endswith(b"\n"):
            line = file.readline(LONGEST_LINE_BYTES)


def parse_line(line: bytes) -> dict[str, Any]:
    """The JSON object of a line, of whatever kind."""
    text = line.strip().decode()
    try:
        # Half the time of json.loads, which looks for white space on both sides with a regular expression.
        record, end = _decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if type(record) is not dict or end != len(text):
        raise ValueError("not an object")
    return record


def parse_time(value: object) -> float:
    """A timestamp in seconds since the epoch."""
    if type(value) is int:
        try:
            value = float(value)
        except OverflowError:
            raise ValueError("a timestamp out of range") from None
    if type(value) is float and math.isfinite(value):
        return value
    raise ValueError("not a timestamp")


def parse_step(value: object) -> int:
    """A step, which has to fit into 64 bits."""
    if type(value) is int and INT64_MIN <= value <= INT64_MAX:
        return value
    raise ValueError("not a step")


def parse_declaration(record: dict[str, Any]) -> tuple[int, str, Labels]:
    """The number, metric name and label set that a ``d`` line declares."""
    number, name, labels = record.get("d"), record.get("n"), record.get("l", {})
    if type(number) is not int or number < 0 or type(name) is not str or type(labels) is not dict:
        raise ValueError("not a declaration")
    if not all(type(value) is str for value in labels.values()):
        raise ValueError("a label that isn't text")
    return number, name, labels_of(labels)


def parse_columns(record: dict[str, Any]) -> tuple[int, array[float], array[int], array[float]]:
    """The series number, timestamps in seconds, steps and values of a ``c`` line: all of it or nothing."""
    number, times, steps, values = record.get("c"), record.get("u"), record.get("s"), record.get("v")
    if type(number) is not int or not type(times) is type(steps) is type(values) is list:
        raise ValueError("not columns")
    if not len(times) == len(steps) == len(values):
        raise ValueError("columns of different lengths")
    parse_time(record.get("t"))
    try:
        timestamps = array("d", [time / 1e6 for time in times])
        if not all(map(math.isfinite, timestamps)):
            raise ValueError("a timestamp out of range")
        return number, timestamps, array("q", steps), array("d", map(decode_value, values))
    except (TypeError, OverflowError) as error:
        raise ValueError("not columns of numbers") from error


def parse_attributes(record: dict[str, Any]) -> tuple[dict[str, Any], float]:
    """The attributes of an ``a`` line and their timestamp."""
    attributes = record.get("a")
    if type(attributes) is not dict or not _is_shallow(attributes, _MOST_LEVELS):
        raise ValueError("not attributes")
    return attributes, parse_time(record.get("t"))


def _is_shallow(value: object, levels: int) -> bool:
    """Whether it can be handed on: what writes JSON goes less deep than some that read it."""
    inner = value.values() if type(value) is dict else value if type(value) is list else ()
    return levels > 0 and all(_is_shallow(each, levels - 1) for each in inner)


def parse_end(record: dict[str, Any]) -> tuple[str, float]:
    """How a writer ended, ``closed`` or ``failed``, and when."""
    end = record.get("e")
    if end not in ("closed", "failed"):
        raise ValueError("not an end")
    return str(end), parse_time(record.get("t"))


def parse_version(record: dict[str, Any]) -> int:
    """The version of the format that a head claims, also one whose other words aren't known."""
    version = record.get("v")
    if type(version) is not int or "i" in record or "c" in record:
        raise ValueError("no version")
    return version


def parse_head(record: dict[str, Any]) -> Head:
    """The head of a segment. Later versions of the format are taken as far as they say the same."""
    run, writer = record.get("run"), record.get("writer")
    version = parse_version(record)
    if type(run) is not dict or type(writer) is not dict:
        raise ValueError("not a head")
    return Head(
        id=_text(run, "id"),
        organization=_text(run, "organization"),
        workspace_name=_text(run, "workspace_name"),
        project_name=_text(run, "project_name"),
        run_name=_text(run, "run_name"),
        orchestration_id=None if run.get("orchestration_id") is None else _text(run, "orchestration_id"),
        host=_text(writer, "host"),
        pid=_whole(writer, "pid"),
        pid_start=None if writer.get("pid_start") is None else _whole(writer, "pid_start"),
        rank=None if writer.get("rank") is None else _whole(writer, "rank"),
        timestamp=parse_time(record.get("t")),
        pid_namespace=None if writer.get("pid_namespace") is None else _whole(writer, "pid_namespace"),
        is_resumed=writer.get("resumed") is True,
        is_forked=writer.get("forked") is True,
        attempt=None if writer.get("attempt") is None else _whole(writer, "attempt"),
        version=version,
    )


def _text(record: dict[str, Any], key: str) -> str:
    value = record.get(key)
    if type(value) is not str:
        raise ValueError(f"no {key}")
    return value


def _whole(record: dict[str, Any], key: str) -> int:
    value = record.get(key)
    if type(value) is not int or value < 0:
        raise ValueError(f"no {key}")
    return value
