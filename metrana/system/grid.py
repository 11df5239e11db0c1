"""When the sampler's ticks are due: a grid that doesn't drift, and a few more of them at first."""

from __future__ import annotations

import math

DENSE_SECS = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Ticks beside the grid, after its start: a first trial of some seconds has a chart."""


class Grid:
    """The ticks that are due: at start + n x interval, and at those DENSE_SECS after it that are below an interval.

    Times are those of a monotonic clock. What lies before ``now`` is over: who goes on with the grid of somebody else
    doesn't begin anew.
    """

    def __init__(self, start: float, interval_secs: float, now: float) -> None:
        self._start = start
        self._interval_secs = interval_secs
        self._point = math.floor((now - start) / interval_secs)
        self.is_dense = False
        """Whether the last tick that was due isn't one of the grid's."""
        self._dense = [secs for secs in DENSE_SECS if now - start < secs < interval_secs]

    def advance(self, now: float) -> float:
        """The next tick that's due, and not before ``now``: those that were missed are left out."""
        passed = now - self._start
        point = max(self._point + 1, math.ceil(passed / self._interval_secs))
        due = point * self._interval_secs
        while self._dense:
            secs = self._dense.pop(0)
            if passed <= secs < due:
                self.is_dense = True
                return self._start + secs
        self._point, self.is_dense = point, False
        return self._start + due
