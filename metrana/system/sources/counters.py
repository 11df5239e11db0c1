"""What two readings of growing counters say."""

from __future__ import annotations

MIN_SPAN_SECS = 0.2
"""The kernel's tick counters step by 10 ms: over a shorter span their rate is mostly rounding."""


class Span:
    """The time and the growth of counters between one reading and the one before."""

    def __init__(self) -> None:
        self._last: tuple[float, tuple[float, ...], object] | None = None

    @property
    def last(self) -> tuple[float, tuple[float, ...], object] | None:
        """The reading before: its time, its counters and what was counted."""
        return self._last

    def resume(self, last: tuple[float, tuple[float, ...], object]) -> None:
        """Go on from a reading that another process has made."""
        self._last = last

    def advance(self, at_secs: float, counters: tuple[float, ...], what: object = None) -> tuple[float, ...] | None:
        """Seconds since the reading before, then each counter's growth; None where they say nothing.

        That is on the first reading, when ``what`` is counted has changed, when the clock or a counter went backwards,
        and too soon after the reading before, which is then kept.
        """
        last = self._last
        if last is None or last[2] != what:
            self._last = (at_secs, counters, what)
            return None
        span_secs = at_secs - last[0]
        if 0 <= span_secs < MIN_SPAN_SECS:
            return None
        self._last = (at_secs, counters, what)
        growth = tuple(now - before for now, before in zip(counters, last[1], strict=True))
        return None if span_secs < 0 or min(growth) < 0 else (span_secs, *growth)
