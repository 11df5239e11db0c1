"""A module imports only from rows below it, and what may crash stays behind the wall."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import metrana
from metrana.cli import COMMANDS

PACKAGE = Path(metrana.__file__).parent
pytestmark = pytest.mark.once  # of the text alone

# Rows as in docs/architecture.md. A package stands for all its modules, unless one of them is named.
ROWS = {
    "metrana.errors": 0,
    "metrana.model": 0,
    "metrana.descriptors": 0,
    "metrana.imports": 0,
    "metrana.extras": 0,
    "metrana.guesses": 0,
    "metrana.report": 0,
    "metrana.threads": 0,
    "metrana.procstat": 0,
    "metrana.published": 0,
    "metrana.values": 1,
    "metrana.announce": 1,
    "metrana.settings": 1,
    "metrana.identity": 1,
    "metrana.system.host": 1,
    "metrana.system.devices": 1,
    "metrana.system.health": 1,
    "metrana.system.channel": 1,
    "metrana.system.vitals": 1,
    "metrana.system.lock_files": 1,
    "metrana.system.grid": 1,
    "metrana.system.restarts": 1,
    "metrana.system.locks": 2,
    "metrana.system.sources": 2,
    "metrana.system.collectors": 3,
    "metrana.system.claim_folder": 3,
    "metrana.system.claim": 3,
    "metrana.system.claims": 3,
    "metrana.system.holders": 3,
    "metrana.system.lane": 3,
    "metrana.system.status": 4,
    "metrana.system.device_reader": 4,
    "metrana.system.sampler": 4,
    "metrana.system.child": 5,
    "metrana.system.packages": 6,
    "metrana.system.spawn": 6,
    "metrana.system.hints": 6,
    "metrana.system.connection": 6,
    "metrana.system.drain": 6,
    "metrana.system.supervisor": 6,
    "metrana.system": 7,
    "metrana.store": 7,
    "metrana.tables": 8,
    "metrana.data": 8,
    "metrana.run": 8,
    "metrana.session": 8,
    "metrana": 8,
    "metrana.ui": 9,
    "metrana.cli": 9,
    "metrana.__main__": 9,
}
WALL = range(2, 6)
MAY_CROSS_THE_WALL = {"metrana.cli.doctor"}
IMPORTED_IN_ONE_PLACE = {
    "psutil": {"metrana.system.sources.procfs"},
    "pynvml": {"metrana.system.sources.nvml"},
    "portalocker": {"metrana.system.locks"},
}


def row_of(module: str) -> int | None:
    while module:
        if module in ROWS:
            return ROWS[module]
        module = module.rpartition(".")[0]
    return None


def modules() -> dict[str, Path]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports_of(path: Path) -> set[str]:
    """Every module that a file imports, also in functions and under TYPE_CHECKING."""
    found = set()
    known = modules()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports by a relative name"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in known else str(node.module))
    return found


@pytest.mark.parametrize("module", modules())
def test_a_module_imports_from_its_row_or_below(module: str) -> None:
    """Imports go one way: from the rows above to the rows below."""
    row = row_of(module)
    assert row is not None, f"{module} has no row"
    for imported in imports_of(modules()[module]):
        if imported.split(".")[0] == "metrana" and imported != "metrana":
            below = row_of(imported)
            assert below is not None and below <= row, f"{module} (row {row}) imports {imported} (row {below})"


@pytest.mark.parametrize("module", modules())
def test_nothing_crosses_the_wall(module: str) -> None:
    """What the child runs is imported by nobody outside it: not even in a function."""
    row = row_of(module)
    assert row is not None
    if row in WALL or module in MAY_CROSS_THE_WALL:
        return
    for imported in imports_of(modules()[module]):
        behind = imported.startswith("metrana.") and row_of(imported) in WALL
        assert not behind, f"{module} imports {imported}, which is behind the wall"


def test_every_module_is_used() -> None:
    """A module is imported by another, is named by one that loads it, or is what Python runs itself."""
    used = {"metrana", "metrana.__main__", *(f"metrana.cli.{command}" for command in COMMANDS)}
    for module, path in modules().items():
        texts = re.findall(r"[\"'](metrana[\w.]*)[:\"']", path.read_text())
        used |= {*imports_of(path), *texts} - {module}
    # Whoever imports a module imports the packages it lies in.
    used |= {module[:at] for module in used for at, char in enumerate(module) if char == "."}
    assert set() == set(modules()) - used


@pytest.mark.parametrize("package", IMPORTED_IN_ONE_PLACE)
def test_a_risky_package_has_one_importer(package: str) -> None:
    """psutil and pynvml are each imported by one source."""
    importers = {
        module
        for module, path in modules().items()
        if any(imported.split(".")[0] == package for imported in imports_of(path))
    }
    assert IMPORTED_IN_ONE_PLACE[package] >= importers


def test_modules_stay_small() -> None:
    """A module has one job and stays under 300 lines."""
    long = {module: n for module, path in modules().items() if (n := len(path.read_text().splitlines())) > 300}
    assert {} == long
