"""The store's format on disk: names of folders and files, and the lines in them.

::

    <dir>/<organization>/<workspace>/<project>/<run name>@<run id>/<host>-<pid>-<start>/000001.jsonl

One writer, one folder, so no lock and no database; a segment is append-only JSON lines. The kinds of line::

    {"v":1,"run":{"id":…,"organization":…,"workspace_name":…,"project_name":…,"run_name":…,"orchestration_id":…},
     "writer":{"host":…,"pid":…,"pid_start":…,"rank":…,"attempt":…},"t":…}      the head of each segment
    {"d":3,"n":"system/gpu/utilization","l":{"host":"node7","gpu":"0"}}   declares series 3 for this segment
    {"t":1767225600.123,"s":40,"i":[1,2,3],"v":[12.5,0.31,"NaN"]}    points: one timestamp and one step
    {"c":3,"u":[1767225600123000,…],"s":[40,…],"v":[0.31,…],"t":…}   many points of one series, in columns: microseconds
                                                                     since the epoch, steps, values; t is the newest
    {"a":{"system/platform":"Linux-6.1…"},"t":…}                     attributes
    {"e":"closed","t":…}                                             the writer's end: closed or failed

Values are JSON numbers, or one of the strings NaN, Infinity, -Infinity, which JSON has no numbers for.
"""

from __future__ import annotations

from metrana.identity import fingerprint

FORMAT_VERSION = 1
SEGMENT_BYTES = 32 * 1024 * 1024
SEGMENT_SUFFIX = ".jsonl"
FRESH_SECS = 120.0  # a writer of another host that wrote so recently is taken for one that lives
HEAD_BYTES = 256 * 1024  # the first line of a segment is shorter, whatever the names in it
_NAME_LIMIT_BYTES = 120
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.")


def escape_name(name: str) -> str:
    """A name as one path component: UTF-8, everything but letters, digits, ``-_.`` as ``%XX``.

    A dot in front is escaped too (no hidden folders, no ``..``). A name too long for a file system keeps its beginning;
    the whole name stands in the head of each segment.
    """
    out = "".join(chr(b) if b in _PLAIN else f"%{b:02X}" for b in name.encode("utf-8", "surrogatepass"))
    if out.startswith("."):
        out = "%2E" + out[1:]
    if len(out) > _NAME_LIMIT_BYTES:
        out = f"{out[:_NAME_LIMIT_BYTES]}~{fingerprint(name)}"
    return out


def run_folder(organization: str, workspace_name: str, project_name: str, run_name: str, run_id: str) -> str:
    """A run's folder relative to the store's."""
    parents = "/".join(escape_name(name) for name in (organization, workspace_name, project_name))
    return f"{parents}/{escape_name(run_name)}@{run_id}"


def writer_folder(host: str, pid: int, start_ns: int) -> str:
    """A writer's folder relative to its run's."""
    return f"{escape_name(host)}-{pid}-{start_ns:x}"


def segment_file(number: int) -> str:
    """The name of the n-th segment, counted from 1."""
    return f"{number:06d}{SEGMENT_SUFFIX}"


def encode_value(value: float) -> str:
    """A value as it stands in a line."""
    if value - value == 0.0:
        return repr(value)
    return '"NaN"' if value != value else '"Infinity"' if value > 0 else '"-Infinity"'


def decode_value(value: object) -> float:
    """The float of a value in a line. Raises ValueError."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if value in ("NaN", "Infinity", "-Infinity"):
        return float(str(value))
    raise ValueError(f"not a value: {value!r}")
