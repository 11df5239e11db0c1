"""The comparison as Markdown, with the machine, the versions and the date that it belongs to."""

from __future__ import annotations

import datetime
import os
import platform

from benchmarks.peers.compare import Cell, Table
from benchmarks.peers.rows import Row
from benchmarks.peers.tools import OWN

NOISE = "lost in the noise"
SAME = 1.005  # what two figures may differ by and still count as equal


def format_table(table: Table) -> list[str]:
    """The lines of the table: a row a figure, a column a tool, multiples of metrana's figure in brackets."""
    head = ["", *(tool.title for tool in table.tools), "rounds"]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for group in table.groups:
        for row in group.rows:
            cells = [format_cell(table, row, tool.name) for tool in table.tools]
            lines.append(f"| {' | '.join([row.title, *cells, str(table.rounds[group.name])])} |")
    return lines


def format_cell(table: Table, row: Row, tool: str) -> str:
    """A figure with its unit and how many times metrana's it is, or why there's none. The best of a row is bold."""
    cell = table.cells.get((row.key, tool), "not measured")
    if isinstance(cell, str):
        return cell.replace("|", "/")
    if is_noise(table, row):
        return NOISE
    text = f"{format_figure(cell)} {row.unit}".rstrip()
    if is_best(table, row, cell):
        text = f"**{text}**"
    own = table.cells.get((row.key, OWN.name))
    if row.has_ratio and tool != OWN.name and isinstance(own, float) and own > 0 and cell >= 0:
        text += f" ({format_figure(cell / own)}×)"
    return text


def format_figure(value: float) -> str:
    """Three digits that count, without an exponent."""
    if abs(value) >= 100 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.3f}"


def find_figures(table: Table, row: Row) -> list[float]:
    """The figures of a row, of the tools that have one."""
    return [value for tool in table.tools if isinstance(value := table.cells.get((row.key, tool.name)), float)]


def is_noise(table: Table, row: Row) -> bool:
    """Whether a tool seems to cost less than nothing: then the machine's own changes are larger than the figures."""
    return any(value < -row.tolerance for value in find_figures(table, row))


def is_best(table: Table, row: Row, cell: Cell) -> bool:
    """Whether no tool has a better figure in the row. A row that's no contest has no best."""
    found = find_figures(table, row)
    if row.key == "values" or len(found) < 2 or not isinstance(cell, float):
        return False
    best = min(found) if row.is_less_better else max(found)
    return abs(cell - best) <= max(row.tolerance, abs(best) * (SAME - 1))


def format_lost(table: Table) -> list[str]:
    """A line for each row in which metrana isn't the best."""
    lines = []
    for group in table.groups:
        for row in group.rows:
            own = table.cells.get((row.key, OWN.name), "not measured")
            is_contest = row.key != "values" and not is_noise(table, row)
            if (
                is_contest
                and not is_best(table, row, own)
                and (len(find_figures(table, row)) > 1 or isinstance(own, str))
            ):
                lines.append(f"not the best: {row.title}")
    return lines


def describe_machine() -> str:
    """Processor, cores, memory, kernel, Python and date."""
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{find_processor()}, {os.cpu_count()} CPUs, {memory_gib:.0f} GiB, {platform.system()} {platform.release()},"
        f" {platform.python_implementation()} {platform.python_version()}, {datetime.date.today().isoformat()}"
    )


def find_processor() -> str:
    """The processor's name."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def format_page(table: Table, versions: dict[str, str]) -> str:
    """All of it."""
    return "\n".join(
        [
            *format_table(table),
            "",
            f"- Machine: {describe_machine()}.",
            "- Versions: " + ", ".join(versions.values()) + ".",
            *(f"- Note: {note}." for note in table.notes),
            "",
        ]
    )
