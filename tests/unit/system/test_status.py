"""The words under ``system/capture/<collector>`` follow what's the case."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from metrana.model import Sample, Scope
from metrana.system.claims import Sole
from metrana.system.collectors import NOT_CHOSEN
from metrana.system.devices import Hint
from metrana.system.health import Health
from metrana.system.status import HUNG, STARTING, Status

NO_CARD = "CUDA_VISIBLE_DEVICES= shows no GPU"


class Cards:
    """A collector of devices that says what a test wants."""

    name = "gpu"
    metrics = ()

    def __init__(self) -> None:
        self.said: str | None = None

    def collect(self) -> list[Sample]:
        return []

    def attributes(self) -> dict[str, object]:
        return {"system/gpu/visible_count": 1}

    def select(self, choose: object) -> None:
        pass

    def update(self, environ: dict[str, str], hint: Hint | None) -> None:
        pass

    def is_reporting(self) -> bool:
        return self.said is None

    def reason(self) -> str | None:
        return self.said


class Node:
    """A status of a process that reports the node, tick by tick."""

    def __init__(self, claims: Any = None) -> None:
        self.cards = Cards()
        self.told: dict[str, object] = {}
        health = Health(lambda message: None)
        rows = (("gpu", "x:Cards", Scope.DEVICE),)
        self.status = Status(rows, health, claims or Sole(), (), self.told.update)

    def tick(self, reason: str | None = None, is_busy: bool = False, is_hung: bool = False) -> object:
        """What stands there after a tick in which the cards say this."""
        self.cards.said = reason
        devices: Any = SimpleNamespace(
            names=["gpu"],
            collectors=() if is_busy else (self.cards,),
            is_busy=is_busy,
            is_hung=is_hung,
            take_news=lambda: False,
        )
        self.status.tell((), devices)
        return self.told.get("system/capture/gpu")


@pytest.mark.parametrize("reason", [NO_CARD, NOT_CHOSEN])
def test_a_driver_that_was_slow_says_why_there_is_no_card(reason: str) -> None:
    """What's said while it's waited for is no last word, at the start and later; the facts come with the answer."""
    node = Node()
    assert STARTING == node.tick(is_busy=True)
    assert {"system/capture/gpu"} == node.told.keys()
    assert reason == node.tick(reason)
    assert 1 == node.told["system/gpu/visible_count"]
    assert HUNG == node.tick(is_busy=True, is_hung=True)
    assert reason == node.tick(reason)


def test_a_card_that_can_be_charted_no_more_says_so() -> None:
    """Partitioned in mid-run, say."""
    node = Node()
    assert "ok" == node.tick()
    assert NO_CARD == node.tick(NO_CARD)
    assert "ok" == node.tick()


def test_what_others_report_is_theirs_to_tell() -> None:
    """A card that another process has taken leaves what stands there to that one."""
    node = Node()
    assert "ok" == node.tick()
    assert "ok" == node.tick(NOT_CHOSEN)


def test_a_rank_tells_that_the_driver_of_its_card_hangs() -> None:
    """Nobody else reports that card, whoever reports the node."""
    node = Node(SimpleNamespace(may_report_devices=True, holds_node=False))
    assert node.tick(is_busy=True, is_hung=True) is None, "nobody knows yet whose the card is"
    assert "ok" == node.tick()
    assert "ok" == node.tick(is_busy=True)
    assert HUNG == node.tick(is_busy=True, is_hung=True)
    assert "ok" == node.tick()
