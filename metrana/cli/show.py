"""``metrana show``: one run in the terminal, figures of each series and a chart of each metric."""

from __future__ import annotations

import argparse
import sys

from metrana.cli.arguments import add_run_and_names, add_superseded, find_named_run
from metrana.cli.chart import choose_charts
from metrana.cli.live import follow
from metrana.cli.page import render_run
from metrana.store.reading import open_reading

NAME = "show"
HELP = "show a run: attributes, and figures and a chart of each metric"
NEEDS_STORE = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_and_names(parser)
    add_superseded(parser)
    parser.add_argument("--live", action="store_true", help="follow a running run until its end, or Ctrl-C")


def run(args: argparse.Namespace) -> int:
    info = find_named_run(args)
    if args.live:
        follow(info, args.patterns, args.superseded)
        return 0
    for line in render_run(open_reading(info, superseded=args.superseded), args.patterns, choose_charts(sys.stdout)):
        print(line)
    return 0
