"""Packages that only some commands need, and how to install the one that's missing."""

from __future__ import annotations

import importlib.util

from metrana.errors import MissingExtraError

# By module: what the package is called, and what pip is asked for. An upper bound of setup.cfg stands here, too. It's
# the package itself and no extra of metrana's: under that name an index may have somebody else's program.
PACKAGES = {
    "bokeh": ("Bokeh", "bokeh"),
    "numpy": ("NumPy", "numpy"),
    "pandas": ("pandas", "pandas"),
    "plotext": ("plotext", "'plotext<6'"),
    "polars": ("polars", "polars"),
    "pyarrow": ("pyarrow", "pyarrow"),
    "rich": ("rich", "rich"),
    "tornado": ("Tornado", "tornado"),
}


def has_package(module: str) -> bool:
    """Whether a top-level module can be imported."""
    return importlib.util.find_spec(module) is not None


def need(purpose: str, *modules: str) -> None:
    """Raises MissingExtraError, whose message names all that's missing and the pip command, unless each is there."""
    missing = find_missing(*modules)
    if missing:
        *names, last = (PACKAGES[module][0] for module in missing)
        named, verb = (f"{', '.join(names)} and {last}", "aren't") if names else (last, "isn't")
        raise MissingExtraError(f"{purpose} needs {named}, which {verb} installed: {describe_install(*missing)}")


def find_missing(*modules: str) -> list[str]:
    """Those of the modules that can't be imported."""
    return [module for module in modules if not has_package(module)]


def describe_install(*modules: str) -> str:
    """The pip command that brings the packages of some modules."""
    return " ".join(["pip install", *(PACKAGES[module][1] for module in modules)])
