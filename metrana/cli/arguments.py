"""Arguments that several commands have."""

from __future__ import annotations

import argparse


def add_run_and_names(parser: argparse.ArgumentParser) -> None:
    """The run, and patterns for the names of its metrics: ``run_id`` and ``patterns``."""
    parser.add_argument("run_id", metavar="RUN", help="id or name of a run; of several with one name, the newest")
    parser.add_argument(
        "patterns",
        metavar="NAME",
        nargs="*",
        default=[],
        help="only the series of these metrics: names or patterns ('system/cpu/*')",
    )


def add_superseded(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--superseded",
        action="store_true",
        help="also the points that a training resumed from a checkpoint has logged again",
    )
