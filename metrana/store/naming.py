"""Which runs a text means: ids, their beginnings, names and patterns."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from metrana.errors import RunNotFoundError, SettingError
from metrana.guesses import rank_near
from metrana.store.ends import STATUSES
from metrana.store.run_info import RunInfo

_WAY_OUT = "--dir, dir= or METRANA_DIR names another folder"
_NEAR_SHOWN = 3
_CANDIDATES_SHOWN = 5
_NEAR_RUNS = 1000  # of the newest ones: comparing with very many takes longer than a person waits for a hint
_NEAR_CHARACTERS = 200


def choose_run(runs: Sequence[RunInfo], run: str | None, store_dir: str) -> RunInfo:
    """The run that a text means, of runs with the newest first; the newest of all without a text.

    That's the one with that id; else the newest with that name, ``project/name`` and so on up to the organization; else
    the only one whose id begins so. Raises RunNotFoundError, whose message says which are near, SettingError for what
    is no text.
    """
    _check_text("run", run)
    if run is None:
        if runs:
            return runs[0]
        raise RunNotFoundError(f"no runs in {store_dir}{_note_missing(store_dir)}: {_WAY_OUT}")
    for found in runs:
        if found.id == run:
            return found
    for found in runs:
        if run in found.names:
            return found
    begun = {found.id: found for found in reversed(runs) if run and found.id.startswith(run)}
    if len(begun) == 1:
        return next(iter(begun.values()))
    if begun:
        newest = list(reversed(begun.values()))
        shown = ", ".join(f"{found.id} ({found.run_name})" for found in newest[:_CANDIDATES_SHOWN])
        more = ", …" if len(newest) > _CANDIDATES_SHOWN else ""
        raise RunNotFoundError(f"{len(begun)} ids in {store_dir} begin with {run!r}: {shown}{more}; give more of it")
    near = find_near(runs, run)
    hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    raise RunNotFoundError(
        f"no run {run!r} in {store_dir}{_note_missing(store_dir)}: {hint}'metrana runs' lists the runs, {_WAY_OUT}"
    )


def select_runs(
    runs: Iterable[RunInfo],
    name: str | None = None,
    project: str | None = None,
    status: str | None = None,
    limit: int | None = None,
) -> list[RunInfo]:
    """The runs with that name (or ``project/name`` and so on), project and status, at most ``limit`` of them.

    Names may be patterns. Of the longer names only a pattern with a slash speaks. Raises SettingError.
    """
    _check_text("name", name)
    _check_text("project", project)
    if status is not None:
        status = parse_status(status)
    if limit is not None and (type(limit) is not int or limit < 1):
        raise SettingError(f"limit={limit!r} makes no sense: give a whole number from 1 on")
    chosen = [
        info
        for info in runs
        if (name is None or _has_name(info, name))
        and (project is None or matches(info.project_name, project))
        and (status is None or info.status == status)
    ]
    return chosen[:limit]


def parse_status(text: str) -> str:
    """A status by its name or a beginning of it, such as ``ended``. Raises SettingError."""
    found = [status for status in STATUSES if text and isinstance(text, str) and status.startswith(text)]
    if len(found) != 1:
        raise SettingError(f"status={text!r} is none: choose from {', '.join(STATUSES)}")
    return found[0]


def find_near(runs: Sequence[RunInfo], text: str) -> list[str]:
    """Names, ``project/name`` and ids that a text may have been meant for, the nearest first."""
    if not text or len(text) > _NEAR_CHARACTERS:
        return []
    candidates: dict[str, str] = {}
    for info in runs[:_NEAR_RUNS]:
        for name in (info.run_name, f"{info.project_name}/{info.run_name}", info.id):
            if len(name) <= _NEAR_CHARACTERS:
                candidates.setdefault(name.casefold(), name)
    wanted = text.casefold()
    # Whoever gives a part of a long name is far from it by any measure of letters.
    parts = [name for key, name in candidates.items() if wanted in key and "/" not in key]
    near = rank_near(text, candidates.values(), _NEAR_SHOWN)
    return list(dict.fromkeys([*near, *parts]))[:_NEAR_SHOWN]


def matches(text: str | None, pattern: str) -> bool:
    """Whether a name is the one asked for, or matches the pattern that was asked for."""
    return text is not None and (text == pattern or fnmatchcase(text, pattern))


def _check_text(argument: str, value: object) -> None:
    if value is not None and not isinstance(value, str):
        raise SettingError(f"{argument}={value!r} is no text: give a name or an id")


def _has_name(info: RunInfo, name: str) -> bool:
    names = info.names if "/" in name else [info.run_name]
    return info.id == name or any(matches(each, name) for each in names)


def _note_missing(store_dir: str) -> str:
    return "" if os.path.isdir(store_dir) else " (no such folder: metrana.init() makes it where the script is started)"
