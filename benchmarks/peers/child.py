"""One measurement, in an interpreter of the tool's own: the group's figures as JSON on a line that's marked.

Imports nothing that a tool may import itself, as far as that goes: what's here already costs the tool nothing.
"""

from __future__ import annotations

import importlib
import json
import sys

from benchmarks.peers.adapters import NotOfferedError, find_adapter

MARK = "benchmark figures: "


def main() -> None:
    """Arguments: group, tool, folder, size (1 for the whole, less for a try), and more for parts of a group."""
    group, tool, folder, size, *more = sys.argv[1:]
    module = importlib.import_module(f"benchmarks.peers.rows.{group}")
    measure = getattr(module, more[0]) if more else module.measure
    try:
        figures = measure(find_adapter(tool), folder, float(size))
    except NotOfferedError as error:
        figures = {"": str(error)}
    print(f"\n{MARK}{json.dumps(figures)}", flush=True)


def parse_figures(text: str) -> object:
    """The figures in a measurement's output, whatever else the tool printed. Raises ValueError."""
    for line in text.splitlines():
        if line.startswith(MARK):
            return json.loads(line[len(MARK) :])
    raise ValueError("told no figures")
