"""Whether a run that was found under a launcher's id is this launch's, or that of another one before it."""

from __future__ import annotations

import json
import os

from metrana.procstat import read_start_ticks
from metrana.store.layout import HEAD_BYTES, escape_name, segment_file

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
    # A pid of another namespace says as little here as one of another host.
    heads = [
        head
        for head in _read_heads(run_path, process.host)
        if head.get("pid_namespace") in (None, process.pid_namespace)
    ]
    is_ranked = not is_inherited and (process.rank, process.local_rank) != (None, None)
    gone = [head for head in heads if _is_gone(head, process)]
    if is_ranked and any(
        (head.get("rank"), head.get("local_rank")) == (process.rank, process.local_rank) for head in gone
    ):
        return True
    has_common_launcher = is_ranked and any(process.launcher in (head.get("launcher"), None) for head in heads)
    return bool(heads) and len(gone) == len(heads) and not has_common_launcher


def _read_heads(run_path: str, host: str) -> list[dict[str, Any]]:
    """What this host's writers tell of themselves, forked copies left out. Unreadable folders say nothing."""
    try:
        folders = [name for name in os.listdir(run_path) if name.startswith(f"{escape_name(host)}-")]
    except OSError:
        return []
    heads = []
    for folder in folders:
        try:
            with open(os.path.join(run_path, folder, segment_file(1)), "rb") as file:
                head = json.loads(file.readline(HEAD_BYTES))["writer"]
            if head["host"] == host and not head.get("forked"):
                heads.append(head)
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return heads


def _is_gone(head: dict[str, Any], process: WriterProcess) -> bool:
    """Whether a writer's process has ended, or is this one with an earlier run, which it has closed."""
    pid, start = head.get("pid"), head.get("pid_start")
    if (pid, start) == (process.pid, process.pid_start):
        return True
    return not isinstance(pid, int) or read_start_ticks(pid) != start
