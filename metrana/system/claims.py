"""Claims: the lock-backed right to report the node or a card for one run, agreed on by its processes on this node.

The first to lock the node's file reports the node. Each card is claimed by the process that drives it; the node's
reporter takes over what nobody has claimed once the slower ranks have had their time, and at once what a dead claimant
has left. The kernel gives a claim back when its process ends, however that comes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from metrana.system.claim import Claim
from metrana.system.claim_folder import ClaimFolder
from metrana.system.devices import Device, Resolution
from metrana.system.lock_files import CannotClaim

NONE, UNAVAILABLE = "none", "unavailable"
NODE = "node"
GPU_PREFIX = "gpu-"
_NAME_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.:")


class Sole:
    """Arbitration where there's no run to arbitrate in: this process reports all that is its own to report."""

    mode = NONE
    holds_node = True
    may_report_devices = True
    waits = False
    reason = ""

    def tick(self, is_last: bool) -> None:
        pass

    def inherited(self) -> dict[str, Any]:
        return {}

    def hand_down(self, state: Mapping[str, Any]) -> None:
        pass

    def release_cards(self) -> None:
        pass

    def choose(self, resolution: Resolution, devices: Sequence[Device]) -> dict[int, str]:
        return {index: str(index) for index in resolution.reportable}

    def release(self) -> None:
        pass


class Claims:
    """The claims of one process. ``tick()`` first in each tick; ``choose()`` may be called from another thread.

    ``owner`` is what the files say of this process. ``grace_secs`` is how long other ranks have for their own cards,
    ``handover_secs`` how long nobody takes over what a process has given back in order.
    """

    def __init__(
        self,
        key: str,
        places: Sequence[tuple[str, str]],
        owner: Mapping[str, object],
        monotonic: Callable[[], float],
        grace_secs: float,
        handover_secs: float,
        abandoned: Collection[int] = (),
    ) -> None:
        self._key = key
        self._places = places
        self._owner = owner
        self._monotonic = monotonic
        self._grace_over = monotonic() + grace_secs
        self._handover_secs = handover_secs
        self._abandoned = abandoned
        self._folder: ClaimFolder | None = None
        self._is_swept = False
        self._is_leaving = False
        self._lock = threading.Lock()
        self.reason = ""
        self._enter()

    def _enter(self) -> None:
        self._cards: dict[str, _Card] = {}
        try:
            self._folder = ClaimFolder(self._key, self._places)
            self._node = Claim(self._folder, NODE, self._owner, self._monotonic)
        except CannotClaim as error:
            self._folder = None
            self.reason = f"no folder for lock files: {error}"

    @property
    def mode(self) -> str:
        """How the processes agree: shm, tmp, or unavailable where they can't."""
        return self._folder.mode if self._folder is not None else UNAVAILABLE

    @property
    def holds_node(self) -> bool:
        return self._folder is not None and self._node.is_held

    @property
    def may_report_devices(self) -> bool:
        """False where there's no agreeing: then a card could be reported by several processes at once."""
        return self._folder is not None

    @property
    def waits(self) -> bool:
        """Whether cards that nobody has claimed are still left to slower ranks."""
        return self._monotonic() < self._grace_over

    def inherited(self) -> dict[str, Any]:
        """What the node's reporter before this one handed down; once."""
        return self._node.inherited() if self.holds_node else {}

    def tick(self, is_last: bool) -> None:
        """Take the node if its reporter is gone; nothing new in the last tick. Never raises an Exception."""
        with self._lock:
            if is_last:
                self._is_leaving = True
                return
            try:
                if self._folder is not None and not self._folder.is_whole:
                    self._forget()
                    self._enter()
                if self._folder is not None:
                    self._node.take(self._abandoned, left_alone_secs=self._handover_secs)
                    if not self._is_swept:
                        self._is_swept = True
                        self._folder.sweep()
            except OSError:
                pass  # no descriptor or no space left: the next tick tries again

    def hand_down(self, state: Mapping[str, Any]) -> None:
        if self.holds_node:
            self._node.hand_down(state)

    def choose(self, resolution: Resolution, devices: Sequence[Device]) -> dict[int, str]:
        """The cards that this process is to report now, by driver index, each with its ``gpu`` label.

        Never raises an Exception.
        """
        with self._lock:
            folder = self._folder
            if folder is None:
                return {}
            chosen: dict[int, str] = {}
            for device in devices:
                try:
                    card = self._choose_card(folder, device, resolution)
                except OSError:
                    continue  # no descriptor left: the next tick tries again
                if card is not None:
                    chosen[device.index] = card.label
            return chosen

    def release_cards(self) -> None:
        """Give back the cards: this process can't read them any more. Never raises an Exception."""
        if self._cards:
            with self._lock:
                for card in self._cards.values():
                    card.release()
                self._cards = {}

    def release(self) -> None:
        """Give back every claim and leave; the run's last process deletes the folder. Never raises an Exception."""
        with self._lock:
            self._forget()

    def leave(self) -> None:
        """The training process is gone: be no longer present. What it had claimed is left to whoever is there.

        The process ends right after; nothing else is given back. Never raises an Exception.
        """
        if self._lock.acquire(timeout=0.2):  # in the middle of a tick of another thread
            folder, self._folder = self._folder, None
            if folder is not None:
                folder.leave()

    def _choose_card(self, folder: ClaimFolder, device: Device, resolution: Resolution) -> _Card | None:
        """The card if it's this process's to report now. Raises OSError."""
        if device.partitioned:
            self._release_others(device.index)
            return None
        card = self._find_card(folder, device)
        if card.is_held:
            card.check()
        is_own = device.index == resolution.owned
        if card.is_held:
            if not (is_own or card.is_taken_over):
                card.release()  # this process turned out to drive another one
        elif self._is_leaving:
            return None
        elif is_own:
            card.take(self._abandoned)
        elif self.holds_node and not self.waits and device.index in resolution.whole:
            card.take_over(self._abandoned, self._handover_secs)
        elif self.holds_node:
            card.take_over(self._abandoned, self._handover_secs, only_left=True)
        return card if card.is_held else None

    def _forget(self) -> None:
        folder, self._folder = self._folder, None
        if folder is None:
            return
        for card in self._cards.values():
            card.release()
        self._node.release()
        folder.leave()

    def _find_card(self, folder: ClaimFolder, device: Device) -> _Card:
        identity = device.uuid or device.pci or str(device.index)
        card = self._cards.get(identity)
        if card is None:
            # A card that has told its UUID only now was known by its index before.
            self._release_others(device.index)
            card = self._cards[identity] = _Card(folder, identity, device, self._owner, self._monotonic)
        return card

    def _release_others(self, index: int) -> None:
        for identity in [identity for identity, card in self._cards.items() if card.index == index]:
            self._cards.pop(identity).release()


class _Card:
    """The claim on a card, and the claim on the ``gpu`` label under which it's reported."""

    def __init__(
        self,
        folder: ClaimFolder,
        identity: str,
        device: Device,
        owner: Mapping[str, object],
        monotonic: Callable[[], float],
    ) -> None:
        self.index = device.index
        self.is_taken_over = False
        self.label = str(self.index)
        self._claim = Claim(folder, _file_name(identity), owner, monotonic)
        # Where each process is shown its own cards only, several of them are number 0 to the driver.
        self._label_claim = Claim(folder, f"label-{self.index}", owner, monotonic)
        self._other_label = f"{self.index}:{device.uuid.removeprefix('GPU-')[:8] or device.pci}"

    @property
    def is_held(self) -> bool:
        return self._claim.is_held

    def take(self, abandoned: Collection[int]) -> None:
        """For the process that drives the card. Raises OSError."""
        if self._claim.take(abandoned):
            self.is_taken_over = False
            self._take_label(abandoned)

    def take_over(self, abandoned: Collection[int], left_alone_secs: float, only_left: bool = False) -> None:
        """For the node's reporter. Raises OSError."""
        if self._claim.take(abandoned, only_left, left_alone_secs):
            self.is_taken_over = True
            self._take_label(abandoned)

    def check(self) -> None:
        """Lose the card if its file has been deleted. Raises OSError."""
        self._claim.check()
        if not self.is_held:
            self._label_claim.release()

    def _take_label(self, abandoned: Collection[int]) -> None:
        self.label = str(self.index) if self._label_claim.take(abandoned) else self._other_label

    def release(self) -> None:
        self._label_claim.release()
        self._claim.release()


def _file_name(identity: str) -> str:
    return GPU_PREFIX + "".join(c if c in _NAME_CHARACTERS else "_" for c in identity)[:100]
