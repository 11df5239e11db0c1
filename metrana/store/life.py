"""Which stretch of time a run is shown over, whatever timestamps its points carry."""

from __future__ import annotations

import math
from collections.abc import Iterable

# Points this much before a run's start or after its end are shown with it, those within its own length too.
_LEAST_REACH_SECS = 7200.0


def find_window(started: float, last: float, ends: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """From when to when a run is shown, in seconds since the epoch.

    It's the run's life, stretched to the ``ends`` of its series, each (first, last), that lie no further from it than
    the life is long, or two hours. Where no series has a point in there, it's from the first point to the last.
    """
    ends = [pair for pair in ends if all(map(math.isfinite, pair))]
    if not math.isfinite(started) or not math.isfinite(last) or not any(f <= last and t >= started for f, t in ends):
        times = [at for pair in ends for at in pair] or [at for at in (started, last) if math.isfinite(at)] or [0.0]
        return min(times), max(times)
    reach = max(last - started, _LEAST_REACH_SECS)
    near = [at for pair in ends for at in pair if started - reach <= at <= last + reach]
    return min([started, *near]), max([last, *near])
