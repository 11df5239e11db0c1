"""What's installed: the wheel's content, its dependencies and its script."""

from __future__ import annotations

import configparser
import importlib.metadata
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("pyproject.toml", "setup.cfg", "README.md", "LICENSE")


def find_setuptools() -> str:
    """Why no wheel can be built here, or nothing."""
    try:
        version = importlib.metadata.version("setuptools")
    except importlib.metadata.PackageNotFoundError:
        return "setuptools isn't installed beside the tests"
    return "" if int(version.partition(".")[0]) >= 77 else f"setuptools {version} is older than pyproject.toml's 77"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources that may be built."""
    missing = find_setuptools()
    if missing:
        pytest.skip(missing)
    source = tmp_path_factory.mktemp("packaging") / "source"
    source.mkdir()
    for name in SOURCES:
        shutil.copy(ROOT / name, source)
    for package in ("metrana", "tests", "benchmarks", "examples"):
        shutil.copytree(ROOT / package, source / package, ignore=lambda path, names: set(names) & {"data"})
    return source


@pytest.fixture(scope="module")
def wheel_names(source: Path, tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names of the files in a wheel built from a copy of the sources."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run(
        [*command, "--wheel-dir", str(folder), str(source)], check=True, capture_output=True, timeout=100, cwd=folder
    )
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.mark.once  # of what setuptools makes
@pytest.mark.xdist_group("wheel")  # built once
def test_the_wheel_holds_the_package_and_nothing_else(wheel_names: set[str]) -> None:
    """Every module, py.typed and the page's files are in the wheel; tests, benchmarks and examples aren't."""
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "metrana").rglob("*.py")}
    packed = {name for name in wheel_names if ".dist-info/" not in name}
    page = {path.relative_to(ROOT).as_posix() for path in (ROOT / "metrana/ui/static").iterdir()}
    assert modules | page | {"metrana/py.typed"} == packed


@pytest.mark.once  # of what setuptools makes
@pytest.mark.xdist_group("wheel")  # built once
def test_an_editable_install_is_a_line_of_the_path(source: Path, tmp_path: Path) -> None:
    """Behind a finder of its own it would be hidden by any folder called metrana beside the user's script."""
    code = f"from setuptools import build_meta; build_meta.build_editable({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=100, cwd=source)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (line,) = [name for name in archive.namelist() if ".dist-info/" not in name]
        assert ".pth" == Path(line).suffix
        assert source.samefile(archive.read(line).decode().strip())


@pytest.mark.once  # of what setuptools makes
@pytest.mark.xdist_group("wheel")  # built once
def test_the_wheel_holds_the_license(wheel_names: set[str]) -> None:
    """The license goes with the package."""
    assert any(re.fullmatch(r"metrana-[^/]+\.dist-info/(licenses/)?LICENSE", name) for name in wheel_names)


def test_the_license_is_mit_wherever_it_is_named() -> None:
    """setup.cfg and the README name the license whose text is LICENSE."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    assert "MIT" == config["metadata"]["license"]
    assert "MIT License" == (ROOT / "LICENSE").read_text(encoding="utf-8").splitlines()[0]
    assert "License: [MIT](LICENSE)." in (ROOT / "README.md").read_text(encoding="utf-8").splitlines()


def test_the_core_needs_two_packages() -> None:
    """Without an extra only psutil and portalocker are installed; the extra ``system`` adds nvidia-ml-py."""
    by_extra: dict[str, set[str]] = {"": set()}
    for requirement in importlib.metadata.requires("metrana") or []:
        name = re.split(r"[^\w.-]", requirement)[0]
        extra = re.search(r"extra == ['\"](\w+)['\"]", requirement)
        by_extra.setdefault(extra[1] if extra else "", set()).add(name)
    assert {"psutil", "portalocker"} == by_extra[""]
    assert {"nvidia-ml-py"} == by_extra["system"]


def test_the_console_script_is_the_command_line() -> None:
    """``metrana`` runs metrana.cli.main."""
    from metrana.cli import main

    (script,) = importlib.metadata.entry_points(group="console_scripts", name="metrana")
    assert main is script.load()
