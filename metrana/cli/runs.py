"""``metrana runs``: the runs of a store."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from metrana.cli.text import escape_text, format_duration, format_project, format_table, format_time
from metrana.store.catalog import RunInfo, read_catalog

NAME = "runs"
HELP = "list the runs, newest first"
NEEDS_STORE = True
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
        print("\n".join(format_table([_COLUMNS, *(_row(info) for info in catalog.runs)])))
    for path in (*catalog.unreadable, *(path for info in catalog.runs for path in info.unreadable)):
        print(f"metrana: can't read {escape_text(path)}", file=sys.stderr)
    return 0


def _row(info: RunInfo) -> tuple[str, ...]:
    return (
        escape_text(info.id),
        escape_text(info.run_name),
        format_project(info),
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
