"""Numbers of any size brought to where a drawing's arithmetic neither overflows nor loses what tells them apart."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable

_SMALLEST, _LARGEST = 1e-290, 1e290  # between them sums, differences and quotients stay ordinary numbers


def find_exponent(low: float, high: float) -> int:
    """The power of two to divide the values of a range by; 0 where it's drawn as it is."""
    reach = max(abs(low), abs(high))
    return 0 if reach == 0.0 or _SMALLEST < reach < _LARGEST else math.frexp(reach)[1]


def shrink(values: Iterable[float], exponent: int) -> list[float]:
    """Values divided by that power of two."""
    return [math.ldexp(value, -exponent) for value in values] if exponent else list(values)


def restore(value: float, exponent: int) -> float:
    """A value that was divided by that power of two; the largest there is where it's beyond the range's ends."""
    try:
        return math.ldexp(value, exponent)
    except OverflowError:
        return math.copysign(sys.float_info.max, value)
