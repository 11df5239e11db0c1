"""Packages that only some commands need: which extra brings them."""

from __future__ import annotations

import importlib.util

from metrana.errors import MissingExtraError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def has_package(module: str) -> bool:
    """Whether a top-level module can be imported."""
    return importlib.util.find_spec(module) is not None


def need(module: str, package: str, extra: str, purpose: str) -> None:
    """Raises MissingExtraError, whose message names the pip command, where a module isn't there."""
    if not has_package(module):
        raise_missing(package, extra, purpose)


def raise_missing(package: str, extra: str, purpose: str) -> NoReturn:
    """The one error for a package that isn't installed. ``extra`` is empty where no extra of metrana's brings it."""
    raise MissingExtraError(f"{purpose} needs {package}, which isn't installed: {describe_install(package, extra)}")


def describe_install(package: str, extra: str) -> str:
    """The pip command that brings a package."""
    return f"pip install 'metrana[{extra}]'" if extra else f"pip install {package.lower()}"
