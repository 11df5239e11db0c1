"""Whether and when a sampling child that ended is replaced, and what the next one leaves out: pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

LOST_LIMIT = 5
DELAYS_SECS = (0.0, 0.5, 1.0, 2.0)
"""Before each replacement. The first at once: a single crash shouldn't show in the charts."""
HEALTHY_SECS = 600.0
"""A child that lived so long begins the count anew: five losses in a month are no storm."""
BLAMED_TWICE = 2
KILLED = "SIGKILL"
"""Somebody killed it, or the kernel for want of memory: that says nothing of what was being read, and blames nobody."""
HUNG = "hung"


class Verdict:
    """What follows from a child's end: ``delay_secs`` before the next one, or ``given_up``, in words why there's none.

    ``newly_left_out`` is the source that the next one must not read any more, "" for none.
    """

    __slots__ = ("delay_secs", "given_up", "newly_left_out")

    def __init__(self, delay_secs: float, given_up: str, newly_left_out: str) -> None:
        self.delay_secs = delay_secs
        self.given_up = given_up
        self.newly_left_out = newly_left_out


class Restarts:
    """The ends of one capture's children. ``left_out`` says by name what isn't read any more, and why."""

    def __init__(self) -> None:
        self.count = 0
        self.left_out: dict[str, str] = {}
        self._lost = 0
        self._blamed: dict[str, list[str]] = {}

    def judge(self, source: str, how: str, lived_secs: float) -> Verdict:
        """A child ended ``how`` (a signal's name, an exit code, hung), while it was reading ``source`` or nothing."""
        if lived_secs >= HEALTHY_SECS:
            self._lost = 0
        self._lost += 1
        if self._lost >= LOST_LIMIT:
            loss = describe_loss(source, how)
            return Verdict(0.0, f"the sampling process was lost {self._lost} times, the last time {loss}", "")
        self.count += 1
        newly = ""
        if is_to_blame(source, how):
            ends = self._blamed.setdefault(source, [])
            ends.append(how)
            if len(ends) == BLAMED_TWICE:
                newly = source
                self.left_out[source] = describe_omission(source, ends)
        return Verdict(DELAYS_SECS[min(self._lost, len(DELAYS_SECS)) - 1], "", newly)


def is_to_blame(source: str, how: str) -> bool:
    """Whether what a child was reading may have been the cause of its end."""
    return source != "" and how != KILLED


def describe_loss(source: str, how: str) -> str:
    """A child's end in a few words, with what it was reading where that may have been the cause."""
    return f"{how} while reading {source}" if is_to_blame(source, how) else how


def describe_omission(source: str, ends: Iterable[str]) -> str:
    """Why a source isn't read any more, in a few words."""
    who, crashed, what = ("", "ended the sampling process", source)
    if source == "gpu":
        who, crashed, what = ("driver ", "crashed", "GPU")
    done = " or ".join(sorted({"hung" if how == HUNG else crashed for how in ends}))
    return f"{who}{done} twice, {what} sampling off"
