"""The one rule for retry, drop and warn: it serves counters, collectors and ticks alike."""

from __future__ import annotations

from metrana.errors import Unavailable, describe_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    T = TypeVar("T")

FAILURES_IN_A_ROW = 5


class Health:
    """What failed how often, and what was dropped for it. ``warn`` gets each warning once.

    While ``is_counting`` is false a failure counts for nothing: what comes closer together than usual is no sign of a
    thing that's gone for good.
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self.is_counting = True
        self._warn = warn
        self._failures: dict[str, int] = {}
        self._dropped: dict[str, str] = {}
        self._told: set[str] = set()

    def attempt(self, key: str, call: Callable[[], T]) -> T | None:
        """The result of ``call``, or None where it failed or ``key`` was dropped before.

        Unavailable drops the key at once and in silence: a machine without the thing is no fault. Any other failure
        counts, and the fifth in a row drops the key with one warning. Never raises an Exception.
        """
        if key in self._dropped:
            return None
        try:
            result = call()
        except Unavailable as error:
            self._dropped[key] = str(error)
            return None
        except Exception as error:  # a fault of one collector, even a bug of ours, must not end the others
            if not self.is_counting:
                return None
            failures = self._failures[key] = self._failures.get(key, 0) + 1
            if failures >= FAILURES_IN_A_ROW:
                reason = describe_error(error)
                self._dropped[key] = f"failed {failures} times in a row: {reason}"
                self._warn(f"{key} failed {failures} times in a row and is left out from now on: {reason}")
            return None
        self._failures.pop(key, None)
        return result

    def drop(self, key: str, reason: str) -> None:
        """Leave ``key`` out from the start, for a reason that has been told."""
        self._dropped[key] = reason

    def warn(self, message: str) -> None:
        """Hand on a warning about a thing that's absent for a reason the user can mend."""
        self._warn(message)

    def dropped(self, key: str) -> str | None:
        """Why ``key`` was dropped, or None while it's alive."""
        return self._dropped.get(key)

    def dropped_since_last(self) -> list[tuple[str, str]]:
        """The keys dropped since the last call, each with its reason."""
        # list() in one step: the thread that reads the driver may drop something meanwhile.
        new = [(key, reason) for key, reason in list(self._dropped.items()) if key not in self._told]
        self._told.update(key for key, _ in new)
        return new

    def forget(self, key: str) -> None:
        """Give ``key`` a new chance: what it named has changed."""
        self._dropped.pop(key, None)
        self._failures.pop(key, None)
        self._told.discard(key)
