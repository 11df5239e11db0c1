"""Which attempt of a run each writer belongs to, and from which step on a later attempt supersedes an earlier one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from metrana.store.ends import WriterInfo


def number_attempts(writers: Iterable[WriterInfo]) -> dict[str, int]:
    """The attempt of each writer by its folder, counted from 0; ``writers`` in the order in which they started.

    It's the one that a writer has written into its head. Those that didn't know of attempts are told by their times,
    and come before all that did and weren't of a first launch.
    """
    writers = list(writers)
    numbers = _tell_attempts([writer for writer in writers if writer.attempt is None])
    before = max(numbers.values(), default=0)
    numbers.update(
        (writer.folder, before + writer.attempt if writer.attempt else 0)
        for writer in writers
        if writer.attempt is not None
    )
    return numbers


def _tell_attempts(writers: list[WriterInfo]) -> dict[str, int]:
    """The attempts of writers whose heads don't say.

    A writer begins a later attempt where all of its rank in the attempt before had ended: that's a launch which was
    resumed or whose launcher restarted it. Without a rank of its own there, a resumed writer begins one where the whole
    attempt before had ended. All others join: ranks that start a moment later, workers, and forked copies.
    """
    numbers: dict[str, int] = {}
    newest: list[WriterInfo] = []
    attempt = 0
    for writer in writers:
        if newest and _begins_later(writer, newest):
            attempt, newest = attempt + 1, []
        if not writer.is_forked:
            newest.append(writer)
        numbers[writer.folder] = attempt
    return numbers


def find_limits(lowest_steps: Mapping[int, int]) -> dict[int, int | None]:
    """The step from which on each attempt's points of a series are superseded; None where none is.

    ``lowest_steps`` has the lowest step of each attempt that has points of the series.
    """
    limits: dict[int, int | None] = {}
    limit: int | None = None
    for attempt in sorted(lowest_steps, reverse=True):
        limits[attempt] = limit
        limit = lowest_steps[attempt] if limit is None else min(limit, lowest_steps[attempt])
    return limits


def is_superseded_at_all(name: str) -> bool:
    """Whether later attempts supersede points of that metric: the hardware's steps only count ticks."""
    return not name.startswith("system/")


def _begins_later(writer: WriterInfo, newest: list[WriterInfo]) -> bool:
    if writer.is_forked:
        return False
    same_rank = [other for other in newest if writer.rank is not None and other.rank == writer.rank]
    if same_rank:
        return _had_ended(same_rank, writer)
    return writer.is_resumed and _had_ended(newest, writer)


def _had_ended(others: list[WriterInfo], writer: WriterInfo) -> bool:
    # Whether they still live depends on who asks, and when; the times in their lines don't.
    return all(other.last <= writer.started for other in others)
