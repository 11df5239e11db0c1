"""Which launch of a run a process belongs to, from what the run's other writers tell of theirs.

Whether a run that was found under a launcher's id is this launch's or that of another one before it, and which attempt
at a run that's continued.
"""

from __future__ import annotations

import json
import os
import time

from metrana.procstat import read_start_ticks
from metrana.store.layout import FRESH_SECS, HEAD_BYTES, escape_name, segment_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from metrana.store.process import WriterProcess


def is_another_launch(run_path: str, process: WriterProcess, is_inherited: bool) -> bool:
    """Whether the processes of this host that wrote into a run belong to an earlier launch than ``process``.

    They do where one had the rank of this process and is gone, and where all are gone and none was started by the
    process that started this one. Where there's no rank, or the id is ``is_inherited`` from a process that has a run
    open, only their all being gone counts: workers come and go while their run lives. Other hosts' writers aren't
    asked: nobody here can see whether they live.
    """
    heads = [head for head in _read_heads(run_path, process.host) if _is_visible(head, process)]
    is_ranked = not is_inherited and process.is_ranked
    gone = [head for head in heads if _is_gone(head, process)]
    if is_ranked and any(
        (head.get("rank"), head.get("local_rank")) == (process.rank, process.local_rank) for head in gone
    ):
        return True
    has_common_launcher = is_ranked and any(process.launcher in (head.get("launcher"), None) for head in heads)
    return bool(heads) and len(gone) == len(heads) and not has_common_launcher


def choose_attempt(run_path: str, process: WriterProcess) -> int:
    """The attempt at a run that ``process`` joins or begins. For launches that may not be the first.

    It joins the newest where that's of its own launch and has nobody of its rank yet. Where the launches don't tell, it
    joins writers of this host that live; else, with a rank that isn't there yet, other hosts' that wrote just now.
    Two that look at the same moment see the same and choose the same.
    """
    heads = _read_heads(run_path)
    attempts = [_read_attempt(head) for head in heads]
    if not heads:
        return 0
    newest = max(attempts)
    of_newest = [head for head, attempt in zip(heads, attempts) if attempt == newest]  # noqa: B905 - of equal length
    return newest if _belongs(process, of_newest) else newest + 1


def _belongs(process: WriterProcess, heads: list[dict[str, Any]]) -> bool:
    """Whether a process is of the attempt that these writers are of."""
    alive = [head for head in heads if _is_visible(head, process) and not _is_gone(head, process)]
    if process.is_ranked and any(_has_rank(head, process) and head not in alive for head in heads):
        return False
    launches = {launch for head in heads if isinstance(launch := head.get("launch"), str)}
    if process.is_ranked and process.launch in launches:
        return True
    if process.launch is not None and any(_is_another(process.launch, launch) for launch in launches):
        return False
    if any(_is_visible(head, process) for head in heads):
        return bool(alive)
    return process.is_ranked and any(_is_fresh(head["folder"]) for head in heads)


def _is_another(launch: str, other: str) -> bool:
    """Whether two names of launches are those of two launches for sure.

    A launch over several hosts that's known by its launcher's process alone has a name on each of them.
    """
    local = "launcher:"
    own, others = launch.rsplit("+", 2)[0], other.rsplit("+", 2)[0]
    return launch != other and (own == others or not (own.startswith(local) and others.startswith(local)))


def _has_rank(head: dict[str, Any], process: WriterProcess) -> bool:
    has = (head.get("rank"), head.get("local_rank")) == (process.rank, process.local_rank)
    return has and (process.rank is not None or head["host"] == process.host)


def _is_visible(head: dict[str, Any], process: WriterProcess) -> bool:
    """Whether it can be known here if a writer lives: a pid of another namespace says as little as another host's."""
    return head["host"] == process.host and head.get("pid_namespace") in (None, process.pid_namespace)


def _is_fresh(folder: str) -> bool:
    try:
        with os.scandir(folder) as entries:
            return max((entry.stat().st_mtime for entry in entries), default=0.0) > time.time() - FRESH_SECS
    except OSError:
        return False


def _read_attempt(head: dict[str, Any]) -> int:
    attempt = head.get("attempt")
    return attempt if type(attempt) is int and attempt > 0 else 0


def _read_heads(run_path: str, host: str | None = None) -> list[dict[str, Any]]:
    """What writers tell of themselves, and their ``folder``: this host's alone where it's given.

    Forked copies are left out. Unreadable folders say nothing.
    """
    prefix = "" if host is None else f"{escape_name(host)}-"
    try:
        folders = [name for name in os.listdir(run_path) if name.startswith(prefix) and not name.startswith(".")]
    except OSError:
        return []
    heads = []
    for folder in folders:
        try:
            path = os.path.join(run_path, folder)
            with open(os.path.join(path, segment_file(1)), "rb") as file:
                head = json.loads(file.readline(HEAD_BYTES))["writer"]
            if host in (None, head["host"]) and not head.get("forked"):
                heads.append({**head, "folder": path})
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return heads


def _is_gone(head: dict[str, Any], process: WriterProcess) -> bool:
    """Whether a writer's process has ended, or is this one with an earlier run, which it has closed."""
    pid, start = head.get("pid"), head.get("pid_start")
    if (pid, start) == (process.pid, process.pid_start):
        return True
    return not isinstance(pid, int) or read_start_ticks(pid) != start
