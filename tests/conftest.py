"""What every test may ask for, and what's tidied up when a process of tests ends."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fake_driver import remove_built
from tests.trees import remove_unpacked


@pytest.fixture
def public_path() -> Iterator[Path]:
    """A temporary folder that every user may reach and write; pytest's own are closed to others, time and again."""
    with tempfile.TemporaryDirectory(prefix="metrana-public-") as folder:
        path = Path(folder)
        path.chmod(0o777)
        yield path


def pytest_unconfigure() -> None:
    remove_unpacked()
    remove_built()
