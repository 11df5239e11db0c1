"""Arguments that several commands have."""

from __future__ import annotations

import argparse

from metrana.errors import RunNotFoundError
from metrana.store.catalog import find_run
from metrana.store.run_info import RunInfo

NEWEST = "-"
"""Stands for the newest run where names of metrics follow."""


def add_run_and_names(parser: argparse.ArgumentParser) -> None:
    """The run, and patterns for the names of its metrics: ``run_id`` and ``patterns``."""
    parser.add_argument(
        "run_id",
        metavar="RUN",
        nargs="?",
        help="id of a run or a beginning of it, or a name, of several the newest (default, or -: the newest of all)",
    )
    parser.add_argument(
        "patterns",
        metavar="NAME",
        nargs="*",
        default=[],
        help="only the series of these metrics: names or patterns ('system/cpu/*')",
    )


def find_named_run(args: argparse.Namespace) -> RunInfo:
    """The run that the arguments name. Raises RunNotFoundError, StoreError."""
    try:
        return find_run(args.dir, None if args.run_id == NEWEST else args.run_id)
    except RunNotFoundError as error:
        if args.run_id is None or not set(args.run_id) & set("*?[/"):
            raise
        # The first word is always the run's: else a misspelt one would show another run.
        hint = f"; of the newest run it's 'metrana {args.command} {NEWEST} {args.run_id}'"
        raise RunNotFoundError(f"{error}{hint}") from None


def add_superseded(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--superseded",
        action="store_true",
        help="also the points that a training resumed from a checkpoint has logged again",
    )
