"""``metrana export``: the points of a run as a table for other programs."""

from __future__ import annotations

import argparse
import csv
import json
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from metrana.errors import MetranaError, describe_error
from metrana.store.reader import StoredRun, open_run

NAME = "export"
HELP = "write the points of a run as CSV"
NEEDS_STORE = True
FORMATS = ("csv",)
_ERRORS = "backslashreplace"  # names may hold what UTF-8 has no bytes for
_COLUMNS = ("name", "labels", "step", "timestamp", "value")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_id", metavar="RUN", help="id or name of a run; of several with one name, the newest")
    parser.add_argument("--format", default="csv", help=f"one of: {', '.join(FORMATS)} (default: csv)")
    parser.add_argument(
        "--output", metavar="FILE", default="-", help="file to write, complete or not at all (default: -, stdout)"
    )


def run(args: argparse.Namespace) -> int:
    if args.format not in FORMATS:
        raise MetranaError(f"--format {args.format!r} isn't known: choose from {', '.join(FORMATS)}")
    stored = open_run(args.dir, args.run_id)
    if args.output == "-":
        reconfigure = getattr(sys.stdout, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors=_ERRORS, newline="\n")
        write_csv(stored, sys.stdout)
    else:
        try:
            with _open_whole(args.output) as file:
                write_csv(stored, file)
        except OSError as error:
            raise MetranaError(f"can't write {args.output!r}: {describe_error(error)}") from error
    if stored.skipped_lines or stored.unreadable:
        skipped, unreadable = stored.skipped_lines, len(stored.unreadable)
        print(f"metrana: not readable and left out: lines {skipped}, files and folders {unreadable}", file=sys.stderr)
    return 0


def write_csv(run: StoredRun, file: TextIO) -> None:
    """The points by series name, labels and time. Timestamps are seconds since the epoch, floats their ``repr``."""
    csv.writer(file, lineterminator="\n").writerow(_COLUMNS)
    for series in run.series.values():
        name, labels = series.name, json.dumps(dict(series.labels), sort_keys=True, ensure_ascii=False)
        rows = csv.writer(file, lineterminator="\n")
        if "\r" in name:
            # The module may leave a bare carriage return unquoted, and then doesn't read it back.
            rows = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
        rows.writerows(
            (name, labels, step, timestamp, value)
            for step, timestamp, value in zip(series.steps, series.timestamps, series.values)  # noqa: B905
        )


@contextmanager
def _open_whole(path: str) -> Iterator[TextIO]:
    """A file for writing that takes its name when it's complete. Raises OSError."""
    path = os.path.realpath(path)
    if os.path.lexists(path) and not stat.S_ISREG(os.stat(path).st_mode):
        # A pipe or a device can't be replaced, only written to; a folder says so itself.
        with open(path, "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            yield file
        return
    folder, name = os.path.split(path)
    part = os.path.join(folder, f".{name[:100]}.{os.getpid()}.part")
    try:
        with open(part, "x", encoding="utf-8", errors="backslashreplace", newline="") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:  # Ctrl-C too: nothing half-written stays behind
        if os.path.lexists(part):
            os.unlink(part)
        raise
