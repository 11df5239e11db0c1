"""Moments as people write them: ISO times, and spans from a run's start or back from its end."""

from __future__ import annotations

import math
import re
from datetime import datetime
from numbers import Real

from metrana.errors import SettingError

_SPAN = re.compile(r"([+-]?)((?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+)", re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", re.ASCII)
_UNIT_SECS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def parse_moment(value: object, started: float, last: float) -> float:
    """A moment in seconds since the epoch. Raises SettingError.

    A number is that already; a datetime or ISO text without a zone is local time; ``10m`` or ``1h30m`` is so long after
    the run's start, ``-10m`` so long before its newest point.
    """
    if isinstance(value, datetime):
        try:
            if value.tzinfo is None:  # anew: pandas takes its own ones for UTC
                value = datetime(*value.timetuple()[:6], value.microsecond, fold=value.fold)
            return float(value.timestamp())
        except (ValueError, OverflowError, OSError):
            pass  # no time at all, or one beyond all calendars
    if isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    if isinstance(value, str):
        span = _SPAN.fullmatch(value.strip())
        if span is not None:
            secs = sum(float(number) * _UNIT_SECS[unit] for number, unit in _PART.findall(span[2]))
            return last - secs if span[1] == "-" else started + secs
        try:
            # "Z" is understood from Python 3.11 on.
            return datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", value.strip())).timestamp()
        except (ValueError, OverflowError, OSError):
            pass
    raise SettingError(
        f"{value!r} is no moment: give an ISO time (2026-01-01T12:30), or 10m for ten minutes after the run's start, "
        "or -10m for ten before its end"
    )
