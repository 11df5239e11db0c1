"""What metrana costs, and what else costs: ``python -m benchmarks``. See docs/benchmarks.md."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks import bench_cgroup, bench_claims, bench_gpu, bench_process, bench_reader, bench_ui
from benchmarks.peers.compare import Table, compare
from benchmarks.peers.environments import make_environment, read_version
from benchmarks.peers.fresh import ROOT, FailedError
from benchmarks.peers.rows import GROUPS
from benchmarks.peers.table import format_lost, format_page
from benchmarks.peers.tools import OWN, TOOLS

BUDGETS = (bench_process, bench_cgroup, bench_gpu, bench_claims, bench_reader, bench_ui)
QUICK_SIZE = 0.1


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    names = [group.name for group in GROUPS]
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.partition("``")[0])
    parser.add_argument("--quick", action="store_true", help="one short round: shows that it works, measures nothing")
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds of each group (default: its own number)")
    parser.add_argument("--only", nargs="+", choices=names, metavar="GROUP", help=f"of {', '.join(names)}")
    parser.add_argument(
        "--peers",
        nargs="*",
        choices=[tool.name for tool in TOOLS[1:]],
        metavar="PEER",
        help=f"beside metrana, of {', '.join(tool.name for tool in TOOLS[1:])} (default: all)",
    )
    parser.add_argument("--no-budgets", action="store_true", help="the comparison alone")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table there too")
    parser.add_argument(
        "--cache",
        type=Path,
        default=ROOT / ".tox" / "bench-peers",
        metavar="DIR",
        help="where the peers' environments are made, once (default: .tox/bench-peers)",
    )
    return parser.parse_args(arguments)


def compare_peers(args: argparse.Namespace) -> str:
    """The page of the comparison."""
    wanted = [tool for tool in TOOLS if tool is OWN or args.peers is None or tool.name in args.peers]
    groups = [group for group in GROUPS if args.only is None or group.name in args.only]
    pythons, missing = {}, {}
    for tool in wanted:
        try:
            pythons[tool.name] = make_environment(tool, args.cache)
        except FailedError as error:
            missing[tool.name] = str(error)
    there = [tool for tool in wanted if tool.name in pythons]
    rounds, size = (1, QUICK_SIZE) if args.quick else (args.rounds, 1.0)
    table: Table = compare(there, pythons, groups, rounds, size)
    reasons = {(row.key, name): reason for name, reason in missing.items() for group in groups for row in group.rows}
    table = table._replace(tools=tuple(wanted), cells={**table.cells, **reasons})
    for line in format_lost(table):
        print(line, file=sys.stderr)
    return format_page(table, {tool.name: read_version(tool, pythons[tool.name]) for tool in there})


def main() -> None:
    args = parse_arguments()
    if not (args.no_budgets or args.quick):
        for module in BUDGETS:
            module.main()
    page = compare_peers(args)
    print(page)
    if args.markdown:
        args.markdown.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
