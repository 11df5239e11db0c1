"""Names, values and times as text for a terminal."""

from __future__ import annotations

import math
import time
import unicodedata
from collections.abc import Sequence

from metrana.identity import DEFAULT_NAME
from metrana.model import Labels
from metrana.store.run_info import RunInfo

SYSTEM_GROUPS = ("gpu", "cpu", "memory", "disk", "process")
"""The groups of system metrics in the order in which they're shown; each is a collector."""

_LONGEST_SECS = 1e12
_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_UNITS = (("_percent", " %"), ("_celsius", " °C"), ("_watts", " W"), ("_mhz", " MHz"), ("_secs", " s"))


def escape_text(text: str) -> str:
    """A text that can't steer a terminal: what isn't printable as its escape, a newline as ``\\n``."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def find_unit(name: str) -> str:
    """The unit that a metric's name ends with, ready to stand behind a number: `` %``, ``bytes``, or nothing."""
    last = name.rpartition("/")[2]
    if last.endswith("_bytes") or last == "bytes":
        return "bytes"
    if name.startswith("system/") and last.endswith("utilization"):
        return " %"
    return next((unit for suffix, unit in _UNITS if last.endswith(suffix)), "")


def format_value(value: float, unit: str) -> str:
    """A value with its unit, bytes in the largest binary unit that leaves a number of one or more."""
    return format_figure(value, unit) + ("" if unit == "bytes" else unit)


def format_figure(value: float, unit: str) -> str:
    """A value as it stands before its unit; bytes, whose unit depends on the value, with it."""
    if unit != "bytes":
        return f"{value:.6g}" if unit == "" else f"{value:.4g}"
    if not math.isfinite(value):
        return f"{value}"
    power = 0
    while abs(value) >= 1024 and power < len(_BYTE_UNITS) - 1:
        value /= 1024
        power += 1
    return f"{value:.0f} B" if power == 0 else f"{value:.4g} {_BYTE_UNITS[power]}"


def format_labels(labels: Labels, hidden: Sequence[str] = ()) -> str:
    """A label set as ``key=value`` pairs, without the hidden keys."""
    return " ".join(f"{escape_text(key)}={escape_text(value)}" for key, value in labels if key not in hidden)


def format_time(timestamp: float) -> str:
    """A timestamp in local time, to the second; the bare number where no calendar reaches."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(timestamp))
    except (OverflowError, ValueError, OSError):
        return f"{timestamp:.6g}"


def format_duration(secs: float) -> str:
    """A span of time in its two largest units."""
    if not secs < _LONGEST_SECS:
        return f"{secs:.3g}s"
    whole = int(secs)
    for size, unit, inner, inner_unit in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            return f"{whole // size}{unit} {whole % size // inner:02d}{inner_unit}"
    return f"{secs:.1f}s" if whole < 10 else f"{whole}s"


def format_project(info: RunInfo) -> str:
    """The project, with organization and workspace where they aren't the default."""
    parts = [info.organization, info.workspace_name, info.project_name]
    if parts[:2] == [DEFAULT_NAME, DEFAULT_NAME]:
        parts = parts[2:]
    return escape_text("/".join(parts))


def describe_absence(store_dir: str) -> str:
    """What to say where the default folder isn't there: nothing has run from here yet."""
    return (
        f"No runs yet: there's no folder {escape_text(store_dir)}. metrana.init() makes it where the script is "
        "started; --dir or METRANA_DIR names another one."
    )


def cut_text(text: str, longest: int | None) -> str:
    """A text with ``…`` for what's beyond that many columns of a terminal; whole without a number."""
    if longest is None or count_columns(text) <= longest:
        return text
    kept, columns = [], 1
    for character in text:
        columns += count_columns(character)
        if columns > longest:
            break
        kept.append(character)
    return "".join(kept) + "…" if longest > 0 else ""


def pad(text: str, width: int) -> str:
    """A text filled up to a number of terminal columns; East Asian characters take two."""
    return text + " " * (width - count_columns(text))


def count_columns(text: str) -> int:
    """How many columns a printable text takes in a terminal."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def format_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of equal length as lines with aligned columns."""
    widths = [max(count_columns(cell) for cell in column) for column in zip(*rows)]  # noqa: B905 - of equal length
    return ["  ".join(pad(cell, width) for cell, width in zip(row, widths)).rstrip() for row in rows]  # noqa: B905
