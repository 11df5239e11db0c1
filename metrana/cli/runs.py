"""``metrana runs``: the runs of a store."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from metrana.cli.text import cut_text, escape_text, format_duration, format_project, format_table, format_time
from metrana.store.catalog import Catalog, RunInfo, read_catalog
from metrana.store.layout import FORMAT_VERSION
from metrana.store.problems import describe_problems

NAME = "runs"
HELP = "list the runs, newest first"
NEEDS_STORE = True
_PROBLEMS_SHOWN = 20
_LONGEST_NAME = 60  # on a terminal, where one long name would break every line; --json has it whole
_COLUMNS = ("ID", "NAME", "PROJECT", "STATUS", "STARTED", "DURATION", "PROCESSES")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="as a JSON list, times in seconds since the epoch")


def run(args: argparse.Namespace) -> int:
    catalog = read_catalog(args.dir)
    if args.json:
        print(json.dumps([_as_json(info) for info in catalog.runs], indent=2))
    elif not catalog.runs:
        print(f"No runs in {escape_text(args.dir)} (--dir or METRANA_DIR names another folder).")
    else:
        longest = _LONGEST_NAME if sys.stdout.isatty() else None
        print("\n".join(format_table([_COLUMNS, *(_row(info, longest) for info in catalog.runs)])))
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


def _row(info: RunInfo, longest: int | None) -> tuple[str, ...]:
    return (
        escape_text(info.id),
        cut_text(escape_text(info.run_name), longest),
        cut_text(format_project(info), longest),
        info.status,
        format_time(info.started),
        format_duration(info.last - info.started),
        str(len(info.writers)),
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
