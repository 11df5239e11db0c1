"""``metrana export``: the points of a run as a table for other programs."""

from __future__ import annotations

import argparse
import os
import sys
from typing import IO, Any

from metrana.cli.arguments import add_run_and_names, add_superseded, find_named_run
from metrana.cli.progress import show_progress
from metrana.cli.tables import need_parquet, open_whole, read_chunks, write_csv, write_jsonl, write_parquet
from metrana.cli.text import escape_text
from metrana.errors import MetranaError, describe_error
from metrana.store.moments import parse_moment
from metrana.store.problems import describe_problems
from metrana.store.reading import Reading, open_reading, select_series
from metrana.store.series import SeriesInfo

NAME = "export"
HELP = "write the points of a run as CSV, JSON lines or Parquet"
NEEDS_STORE = True
FORMATS = ("csv", "jsonl", "parquet")
LONG_POINTS = 500_000  # from which on a progress bar is worth its lines


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_and_names(parser)
    add_selection(parser)
    parser.add_argument(
        "--format", help=f"one of: {', '.join(FORMATS)} (default: what the file's name ends with, else csv)"
    )
    parser.add_argument(
        "--output", metavar="FILE", default="-", help="file to write, complete or not at all (default: -, stdout)"
    )


def add_selection(parser: argparse.ArgumentParser) -> None:
    """The options that narrow down what's taken of a run."""
    parser.add_argument(
        "--label",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="only series with this label, which may be a pattern; several times: with all of them",
    )
    parser.add_argument(
        "--since",
        metavar="TIME",
        help="from then on: an ISO time, 10m after the run's start, or --since=-10m: the last ten minutes",
    )
    parser.add_argument("--until", metavar="TIME", help="up to then, as --since")
    add_superseded(parser)


def run(args: argparse.Namespace) -> int:
    chosen = choose_format(args.format, args.output)
    if chosen == "parquet":
        need_parquet()
        if args.output == "-" and sys.stdout is not None and sys.stdout.isatty():
            raise MetranaError("Parquet is nothing to read on a terminal: give --output FILE")
    if not args.output:
        raise MetranaError("--output needs the name of a file, or - for stdout")
    if args.output == "-" and sys.__stdout__ is None:
        raise MetranaError("stdout is closed: give --output FILE")
    reading = open_reading(find_named_run(args), superseded=args.superseded)
    series = select_series(reading, args.patterns, parse_labels(args.label))
    start, end = parse_bounds(args, reading, series)
    if args.output == "-":
        _export(reading, series, start, end, chosen, _open_stdout(chosen))
    else:
        try:
            with open_whole(args.output, "wb" if chosen == "parquet" else "w") as file:
                _export(reading, series, start, end, chosen, file)
        except OSError as error:
            raise MetranaError(f"can't write {args.output!r}: {describe_error(error)}") from error
    for problem in describe_problems(reading.skipped_lines, reading.unreadable, reading.newest_version):
        print(f"metrana: {escape_text(problem)}", file=sys.stderr)
    return 0


def choose_format(name: str | None, output: str) -> str:
    """The format by its name, else by what a file's name ends with. Raises MetranaError."""
    if name is None:
        suffix = os.path.splitext(output)[1][1:].lower()
        return suffix if suffix in FORMATS else FORMATS[0]
    if name not in FORMATS:
        raise MetranaError(f"--format {name!r} isn't known: choose from {', '.join(FORMATS)}")
    return name


def parse_labels(texts: list[str]) -> dict[str, str]:
    """Labels as ``key=value``. Raises MetranaError."""
    labels = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise MetranaError(f"--label {text!r} is no label: give KEY=VALUE, such as gpu=0")
        labels[key] = value
    return labels


def parse_bounds(
    args: argparse.Namespace, reading: Reading, series: list[SeriesInfo]
) -> tuple[float | None, float | None]:
    """What ``--since`` and ``--until`` say, in seconds since the epoch. Raises SettingError."""
    last = max((each.last_time for each in series), default=reading.info.last)
    since, until = (
        None if text is None else parse_moment(text, reading.info.started, last) for text in (args.since, args.until)
    )
    return since, until


def _export(
    reading: Reading, series: list[SeriesInfo], start: float | None, end: float | None, chosen: str, file: IO[Any]
) -> None:
    total = sum(each.count for each in series)
    with show_progress("exporting", total if total >= LONG_POINTS else 0) as advance:
        chunks = read_chunks(reading, series, start, end, advance)
        if chosen == "parquet":
            write_parquet(chunks, file, sorted({key for each in series for key, _ in each.labels}))
        elif chosen == "jsonl":
            write_jsonl(chunks, file)
        else:
            write_csv(chunks, file)


def _open_stdout(chosen: str) -> IO[Any]:
    if chosen == "parquet":
        return sys.stdout.buffer
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")
    return sys.stdout
