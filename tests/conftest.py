"""What every test may count on: the trees that a process unpacked are gone when it ends."""

from __future__ import annotations

from tests.trees import remove_unpacked


def pytest_unconfigure() -> None:
    remove_unpacked()
