"""What of a run or a store couldn't be read, in words."""

from __future__ import annotations

from collections.abc import Iterable

from metrana.store.layout import FORMAT_VERSION


def describe_problems(skipped_lines: int, unreadable: Iterable[str], newest_version: int) -> list[str]:
    """What of a run couldn't be shown, a sentence each; nothing where all could."""
    problems = []
    if newest_version > FORMAT_VERSION:
        problems.append(
            f"written by a newer metrana (format {newest_version}, this one reads {FORMAT_VERSION}): "
            "what's new in it is left out; upgrade to see it"
        )
    if skipped_lines:
        lines = "1 line" if skipped_lines == 1 else f"{skipped_lines} lines"
        problems.append(f"{lines} not readable as a whole and skipped")
    return problems + [f"can't read {path}" for path in unreadable]
