"""One Chromium for all tests of the page, and a server over the store that most of them look at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ui.browser import Browser, skip_without_browser
from tests.ui.serving import Server
from tests.ui.stores import put_cards
from tests.unit.store.build import T0


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    skip_without_browser()
    found = Browser(tmp_path_factory.mktemp("chromium"))
    yield found
    found.close()


@pytest.fixture(scope="session")
def cards_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two trainings: one on 2 hosts with 8 cards each, and an earlier one on one card."""
    store = tmp_path_factory.mktemp("cards") / "store"
    put_cards(store, "one", hosts=1, cards=1, ticks=200, loss=400, start=T0 - 50_000)
    put_cards(store, "cards")
    return store


@pytest.fixture(scope="session")
def cards(cards_store: Path) -> Iterator[Server]:
    pytest.importorskip("bokeh", reason="Bokeh isn't installed: pip install bokeh")
    with Server(cards_store) as server:
        yield server
