"""``metrana runs``: the runs of a store."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from typing import Any

from metrana.cli.listing import list_runs
from metrana.cli.text import describe_absence, escape_text
from metrana.store.catalog import Catalog, read_catalog
from metrana.store.ends import STATUSES
from metrana.store.layout import FORMAT_VERSION
from metrana.store.naming import find_near, select_runs
from metrana.store.problems import describe_problems
from metrana.store.run_info import RunInfo

NAME = "runs"
HELP = "list the runs, newest first"
NEEDS_STORE = True
_PROBLEMS_SHOWN = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", metavar="NAME", nargs="?", help="only runs of that name or pattern, or project/name, or that id"
    )
    parser.add_argument("--project", metavar="NAME", help="only runs of that project, a name or a pattern")
    parser.add_argument("--status", help=f"only runs of that status: {', '.join(STATUSES)} (or a beginning of it)")
    parser.add_argument("--limit", metavar="N", type=int, help="at most so many, the newest")
    parser.add_argument("--json", action="store_true", help="as a JSON list, times in seconds since the epoch")


def run(args: argparse.Namespace) -> int:
    catalog = read_catalog(args.dir)
    chosen = select_runs(catalog.runs, args.name, args.project, args.status, args.limit)
    if args.json:
        print(json.dumps([_as_json(info) for info in chosen], indent=2))
    elif chosen:
        columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        print("\n".join(list_runs(chosen, columns)))
    elif catalog.runs:
        near = [escape_text(repr(text)) for text in find_near(catalog.runs, args.name or "")]
        hint = f"; near are {', '.join(near)}" if near else ""
        print(f"None of the runs in {escape_text(args.dir)} is such a one{hint}.")
    elif os.path.isdir(args.dir):
        print(f"No runs in {escape_text(args.dir)} (--dir or METRANA_DIR names another folder).")
    else:
        print(describe_absence(args.dir))
    problems = _describe_problems(catalog)
    for problem in problems[:_PROBLEMS_SHOWN]:
        print(f"metrana: {escape_text(problem)}", file=sys.stderr)
    if len(problems) > _PROBLEMS_SHOWN:
        print(f"metrana: and {len(problems) - _PROBLEMS_SHOWN} more of that kind", file=sys.stderr)
    return 0


def _describe_problems(catalog: Catalog) -> list[str]:
    """What of the store couldn't be read, a line each; a later format counts once, however many runs have it."""
    newer = [info for info in catalog.runs if info.newest_version > FORMAT_VERSION]
    problems = describe_problems(0, (), max((info.newest_version for info in newer), default=FORMAT_VERSION))
    names = ", ".join(info.run_name for info in newer[:3]) + (", …" if len(newer) > 3 else "")
    problems = [f"{len(newer)} of the runs ({names}): {problem}" for problem in problems]
    return problems + describe_problems(
        0, [*catalog.unreadable, *(path for info in catalog.runs for path in info.unreadable)], FORMAT_VERSION
    )


def _as_json(info: RunInfo) -> dict[str, Any]:
    return {
        "id": info.id,
        "organization": info.organization,
        "workspace_name": info.workspace_name,
        "project_name": info.project_name,
        "run_name": info.run_name,
        "orchestration_id": info.orchestration_id,
        "status": info.status,
        "started": info.started,
        "last": info.last,
        "folder": info.folder,
        "writers": [
            {
                "host": writer.host,
                "pid": writer.pid,
                "rank": writer.rank,
                "started": writer.started,
                "last": writer.last,
                "status": writer.status,
            }
            for writer in info.writers
        ],
    }
