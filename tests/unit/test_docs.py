"""The documentation says what the code says: a name that's missing from a page, or stands there alone, fails here."""

from __future__ import annotations

import argparse
import ast
import configparser
import importlib
import inspect
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import metrana
from metrana import extras
from metrana.cli import COMMANDS, build_parser, load_command
from metrana.model import Metric
from metrana.settings import SETTINGS
from metrana.system.collectors import COLLECTORS
from tests.unit.test_layers import ROWS, imports_of, modules, row_of

NAME = metrana.__name__.encode()
ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])
COLLECTOR_NAMES = [name for name, _, _ in COLLECTORS]
# Names of attributes that are put together at run time begin so.
PREFIXES = {"system/", "system/capture/"}
SHOWN_FOLDERS = {"proc", "sys", "dev", "srv"}


class Arguments(argparse.ArgumentParser):
    """A parser that keeps what a command declares, as its rows of the page."""

    def __init__(self) -> None:
        self.rows: list[list[str]] = []
        super().__init__(add_help=False)

    def add_argument(self, *flags: str, **options: object) -> argparse.Action:
        action = super().add_argument(*flags, **options)  # type: ignore[arg-type]
        value = str(action.metavar or action.dest.upper())
        shown = [*flags[:1], value] if flags[0].startswith("-") and action.nargs != 0 else [*flags[:1]]
        self.rows.append([" ".join(shown if flags[0].startswith("-") else [value]), str(action.help)])
        return action


def read_tables(text: str) -> list[list[list[str]]]:
    """The tables of a page: rows of cells without their backticks, heads and rules left out."""
    tables: list[list[list[str]]] = []
    inside = False
    for line in text.splitlines():
        if not line.startswith("|"):
            inside = False
            continue
        cells = [cell.strip().strip("`") for cell in line.strip().strip("|").split("|")]
        if not inside:
            tables.append([])
            inside = True
        tables[-1].append(cells)
    return [table[2:] for table in tables]


def read_page(path: str) -> str:
    return (DOCS / path).read_text(encoding="utf-8")


def read_section(text: str, heading: str) -> str:
    """What stands below a heading, up to the next one of its level."""
    _, found, rest = text.partition(f"\n## {heading}\n")
    assert found, f"no section {heading!r}"
    return rest.partition("\n## ")[0]


def declared_metrics() -> list[tuple[str, Metric]]:
    """Every metric of every collector, with its collector's name."""
    found: list[tuple[str, Metric]] = []
    for name, path, _ in COLLECTORS:
        module = importlib.import_module(path.partition(":")[0])
        found += [(name, metric) for metric in module.METRICS]
    return found


def strings_in(path: Path) -> Iterator[str]:
    """The string constants of a file, parts of f-strings too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_the_metrics_page_has_each_metric_as_declared() -> None:
    """The page's first table is the METRICS of all collectors: name, unit, scope and help."""
    expected = [[metric.name, metric.unit, metric.scope.value, metric.help] for _, metric in declared_metrics()]
    assert expected == read_tables(read_page("reference/metrics.md"))[0]


@pytest.mark.parametrize("collector", COLLECTOR_NAMES)
def test_a_collector_has_its_metrics_and_its_tests(collector: str) -> None:
    """A collector is one file, its metrics carry its name, and it has a test file and a section of the page."""
    metrics = [metric.name for name, metric in declared_metrics() if name == collector]
    assert metrics and all(name.startswith(f"system/{collector}/") for name in metrics)
    assert (ROOT / "metrana/system/collectors" / f"{collector}.py").is_file()
    assert (ROOT / "tests/unit/system/collectors" / f"test_{collector}.py").is_file()
    assert f"\n### {collector}\n" in read_page("reference/metrics.md")


def test_each_collector_file_is_registered() -> None:
    """A file in the collectors' folder is a row of COLLECTORS."""
    files = {path.stem for path in (ROOT / "metrana/system/collectors").glob("*.py")} - {"__init__"}
    assert set(COLLECTOR_NAMES) == files


def test_the_settings_page_has_each_setting() -> None:
    """The page's first table is SETTINGS: argument, variable, default and help."""
    shown = {None: "none", True: "true", False: "false"}
    expected = []
    for setting in SETTINGS:
        default = setting.default
        text = shown[default] if default is None or isinstance(default, bool) else str(default)
        expected.append([setting.argument, setting.variable, text, setting.help])
    assert expected == read_tables(read_page("reference/settings.md"))[0]


def test_the_settings_page_has_each_argument_of_init() -> None:
    """Every argument of init() stands in one of the page's two tables, and nothing else does."""
    tables = read_tables(read_page("reference/settings.md"))
    assert sorted(inspect.signature(metrana.init).parameters) == sorted(row[0] for table in tables for row in table)


def declared_attributes() -> list[str]:
    """Every attribute of the page's first table, which declares them."""
    return [name for name, _ in read_tables(read_page("reference/attributes.md"))[0]]


def test_the_attributes_page_has_each_attribute() -> None:
    """The page's table has what init() sets, then what's below system/: a name once, each with its meaning."""
    rows = read_tables(read_page("reference/attributes.md"))[0]
    names = [name for name, _ in rows]
    assert ["config/<key>", "tags"] == [name for name in names if not name.startswith("system/")]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r".+\.", meaning) for _, meaning in rows)


def test_each_collector_has_its_attribute() -> None:
    """Every collector has an attribute that says why its chart is missing, and none is there without its collector."""
    prefix = "system/capture/"
    named = [name[len(prefix) :] for name in declared_attributes() if name.startswith(prefix) and "<" not in name]
    assert COLLECTOR_NAMES == named


@pytest.mark.once  # of the text alone
def test_each_system_name_in_the_code_is_declared() -> None:
    """A name below system/ that the code writes is a declared metric or attribute."""
    declared = {metric.name for _, metric in declared_metrics()} | set(declared_attributes())
    used = {
        text for path in modules().values() for text in strings_in(path) if re.fullmatch(r"system/[a-z0-9_/]*", text)
    }
    assert set() == used - declared - PREFIXES
    written = {name for name in declared if name.startswith("system/") and not name.startswith("system/capture/")}
    assert set() == written - used


def test_the_commands_page_has_each_command() -> None:
    """The page has a section for each command, in the help's order, and no other."""
    headings = re.findall(r"^## metrana (\w+)$", read_page("reference/commands.md"), re.MULTILINE)
    assert list(COMMANDS) == headings


@pytest.mark.parametrize("name", COMMANDS)
def test_a_commands_section_has_its_help_and_each_option(name: str) -> None:
    """A command's section begins with its help, and its table is what it declares to argparse."""
    command = load_command(name)
    arguments = Arguments()
    command.add_arguments(arguments)
    section = read_section(read_page("reference/commands.md"), f"metrana {command.NAME}")
    assert command.HELP == section.strip().splitlines()[0]
    assert arguments.rows == read_tables(section)[0]


def test_the_commands_page_has_the_common_options() -> None:
    """The page's first table is what every command takes, --help aside."""
    flags = set(re.findall(r"^ +(?:-\w, )?(--\w+)", build_parser(()).format_help(), re.MULTILINE)) - {"--help"}
    assert flags == {row[0].split()[0] for row in read_tables(read_page("reference/commands.md"))[0]}


def test_the_api_page_has_each_public_name() -> None:
    """The page documents what metrana.__all__ names, and nothing else as the module's own."""
    named = re.findall(r"^\.\. [\w:]+:: metrana\.(\w+)(?:\(\))?$", read_page("reference/api.md"), re.MULTILINE)
    assert sorted(metrana.__all__) == sorted(named)


def test_the_architecture_page_has_each_module() -> None:
    """The page's table gives each module the row that its imports are checked against."""
    tables = read_tables(read_section(read_page("architecture.md"), "Rows"))
    page = {
        "metrana" if name == "metrana" else f"metrana.{name}": int(row) for table in tables for row, name, _ in table
    }
    for module in modules():
        named = module
        while named not in page:
            named = named.rpartition(".")[0]
            assert named and named != "metrana", f"{module} isn't in the table"
        assert row_of(module) == page[named], f"{module} stands in row {page[named]} of the page"
    assert set() == set(page) - set(ROWS), "the page names modules that don't exist"
    assert all(any(module == name or module.startswith(f"{name}.") for module in modules()) for name in page)


@pytest.mark.once  # of the text alone
def test_modules_import_each_other_one_way() -> None:
    """No module imports itself by way of others, within a row either."""
    importing = {
        module: {name for name in imports_of(path) if name in modules() and name not in ("metrana", module)}
        for module, path in modules().items()
    }
    left = dict(importing)
    while left:
        free = [module for module, names in left.items() if not names & left.keys()]
        assert free, f"a cycle among {sorted(left)}"
        for module in free:
            del left[module]


def test_each_decision_is_numbered_and_listed() -> None:
    """Decisions are numbered without a gap, and each says context, decision and consequences."""
    pages = sorted((DOCS / "decisions").glob("[0-9]*.md"))
    assert [f"{number:04d}" for number in range(1, len(pages) + 1)] == [page.name[:4] for page in pages]
    for page in pages:
        headings = re.findall(r"^## (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert ["Context", "Decision", "Consequences"] == headings, page.name


@pytest.mark.once  # of the text alone
def test_no_text_has_another_program_installed() -> None:
    """No line of the code, the page or the documentation fetches a package of metrana's own name.

    On the public index that name is somebody else's program, which would replace this one.
    """
    folders = ("metrana", "docs", "examples", "tests", "benchmarks", ".ci")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    files += [path for path in ROOT.iterdir() if path.is_file()]
    wrong = re.compile(rb"install [^\n]*\b%s\b" % NAME, re.IGNORECASE)
    assert [] == [
        f"{path.relative_to(ROOT)}: {found[0]!r}" for path in files for found in wrong.finditer(read_bytes(path))
    ]


def read_bytes(path: Path) -> bytes:
    """A file of text; what Python compiled and pictures hold none of ours."""
    return b"" if path.suffix in (".pyc", ".png", ".so") else path.read_bytes()


def test_the_hints_agree_with_the_extras() -> None:
    """What a hint has pip install is what an extra of setup.cfg has, with its upper bound."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    lines = {
        line.replace(" ", "") for extra in config["options.extras_require"].values() for line in extra.splitlines()
    }
    for line in lines - {""}:
        name = re.split(r"[^\w-]", line)[0]
        upper = re.search(r"<[\d.]+", line)
        if name in extras.PACKAGES:
            expected = f"'{name}{upper[0]}'" if upper else name
            assert expected == extras.PACKAGES[name][1]


def test_the_readmes_commands_are_there() -> None:
    """The commands that the README gives for a fresh machine are executable files."""
    scripts = re.findall(r"^\$? ?sh (\S+\.sh)$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert {"examples/run.sh", "tests/run.sh"} == set(scripts)
    assert all(os.access(ROOT / script, os.X_OK) for script in scripts)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_pages_links_lead_somewhere(page: Path) -> None:
    """A relative link names a file of the repository."""
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    assert [] == [target for target in targets if "://" not in target and not (page.parent / target).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_no_path_of_this_machine(page: Path) -> None:
    """An absolute path on a page is the system's own, or the example's."""
    folders = re.findall(r"(?<![\w/.:>~-])/(\w[\w.-]*)", page.read_text(encoding="utf-8"))
    assert set() == set(folders) - SHOWN_FOLDERS
