"""Which GPUs a process sees and which one it drives: pure, from environment, device list and framework hint.

The rules are CUDA's: https://docs.nvidia.com/cuda/cuda-c-programming-guide/#cuda-environment-variables
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeVar

    T = TypeVar("T")

VISIBLE_VARIABLE = "CUDA_VISIBLE_DEVICES"

# LOCAL_RANK stands first: torchrun under one srun task per node leaves SLURM_LOCALID at 0 in all its workers.
RANK_VARIABLES = (
    "LOCAL_RANK",
    "SLURM_LOCALID",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MPI_LOCALRANKID",
    "PMI_LOCAL_RANK",
    "MV2_COMM_WORLD_LOCAL_RANK",
    "FLUX_TASK_LOCAL_ID",
    "PALS_LOCAL_RANKID",
)

ENVIRONMENT = (VISIBLE_VARIABLE, *RANK_VARIABLES)
"""The variables of the training process that resolve() reads."""

_BLANKS = " \t\n\v\f\r"
_DIGITS = "0123456789"


class Device:
    """A GPU as the driver lists it. ``uuid`` and ``pci`` are empty where the driver doesn't tell."""

    __slots__ = ("index", "uuid", "pci", "partitioned", "mig_uuids")

    def __init__(
        self, index: int, uuid: str = "", pci: str = "", partitioned: bool = False, mig_uuids: Sequence[str] = ()
    ) -> None:
        self.index = index
        self.uuid = uuid
        self.pci = pci
        self.partitioned = partitioned
        self.mig_uuids = tuple(mig_uuids)

    def __repr__(self) -> str:
        return f"Device({self.index!r}, {self.uuid!r}, {self.pci!r}, {self.partitioned!r}, {self.mig_uuids!r})"


class Hint:
    """What an initialized framework drives. ``index`` is CUDA's ordinal: it counts within the visible list."""

    __slots__ = ("framework", "index", "uuid")

    def __init__(self, framework: str, index: int, uuid: str | None = None) -> None:
        self.framework = framework
        self.index = index
        self.uuid = uuid

    def to_dict(self) -> dict[str, object]:
        """The hint as JSON can carry it across a process border."""
        return {"framework": self.framework, "index": self.index, "uuid": self.uuid}

    @classmethod
    def from_dict(cls, data: object) -> Hint | None:
        """The hint of a dict that to_dict() made; None for anything else."""
        if not isinstance(data, dict):
            return None
        framework, index, uuid = data.get("framework"), data.get("index"), data.get("uuid")
        if not isinstance(framework, str) or not isinstance(index, int) or isinstance(index, bool) or index < 0:
            return None
        return cls(framework, index, uuid if isinstance(uuid, str) and uuid else None)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Hint):
            return NotImplemented
        return (self.framework, self.index, self.uuid) == (other.framework, other.index, other.uuid)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Hint({self.framework!r}, {self.index!r}, {self.uuid!r})"


class Resolution:
    """Visible and owned devices, all as driver indices, and ``basis``: in words, why.

    ``whole`` are the visible cards without MIG, which this process may report when nobody else does. ``reportable``
    are those of them that it's to report by itself: the owned one alone where one is owned.
    """

    __slots__ = ("visible", "whole", "owned", "reportable", "basis")

    def __init__(self, visible: tuple[int, ...], whole: tuple[int, ...], owned: int | None, basis: str) -> None:
        self.visible = visible
        self.whole = whole
        self.owned = owned
        self.reportable = whole if owned is None else (owned,)
        self.basis = basis

    @property
    def partitioned_count(self) -> int:
        """How many visible cards are skipped for being MIG-partitioned."""
        return len(self.visible) - len(self.whole)


def resolve(environ: Mapping[str, str], devices: Sequence[Device], hint: Hint | None = None) -> Resolution:
    """The devices that a process sees and the one that it drives. Never raises.

    The evidence in order: one visible card; a local rank within the visible list; the hint, by UUID, then by ordinal.
    A card cut up by MIG is visible and never owned: its readings say nothing about one instance.
    """
    by_index = {device.index: device for device in devices}
    visible = parse_visible(environ.get(VISIBLE_VARIABLE), devices)
    whole = tuple(index for index in visible if not by_index[index].partitioned)
    named, basis = _find_named(environ, visible, by_index, hint)
    if not devices:
        basis = "no GPU"
    elif not visible:
        basis = f"{VISIBLE_VARIABLE}={environ.get(VISIBLE_VARIABLE, '')} shows no GPU"
    elif named is not None and by_index[named].partitioned:
        return Resolution(visible, whole, None, f"{basis}, but GPU {named} is MIG-partitioned")
    return Resolution(visible, whole, named, basis)


def parse_visible(text: str | None, devices: Sequence[Device]) -> tuple[int, ...]:
    """The driver indices that a value of CUDA_VISIBLE_DEVICES shows, in its order; None shows all.

    The first entry decides what the list is made of: indices, UUIDs or MIG ids. The first invalid entry ends the
    list, a repeated one empties it.
    """
    if text is None:
        return tuple(device.index for device in devices)
    entries = text.split(",")
    if text.startswith("MIG-"):
        # CUDA opens one instance per process, so the rest of the list shows nothing.
        return tuple(card for card, _ in _take_entries(entries, lambda entry: _find_instance(entry, devices)))[:1]
    if text.startswith("GPU-"):
        return tuple(_take_entries(entries, lambda entry: _find_uuid(entry, devices)))
    known = {device.index for device in devices}

    def find_index(entry: str) -> int | None:
        index = _parse_strtoul(entry)
        return index if index in known else None

    return tuple(_take_entries(entries, find_index))


def _take_entries(entries: list[str], find: Callable[[str], T | None]) -> list[T]:
    taken: list[T] = []
    for entry in entries:
        found = find(entry)
        if found is None:
            break
        if found in taken:
            return []
        taken.append(found)
    return taken


def _parse_strtoul(entry: str) -> int | None:
    """The number at the start of an entry, read as C's strtoul does: blanks and a sign before it, rubbish after it."""
    text = entry.lstrip(_BLANKS)
    negative = text.startswith("-")
    if text[:1] in ("+", "-"):
        text = text[1:]
    digits = text[: len(text) - len(text.lstrip(_DIGITS))]
    if not digits:
        return None
    # No machine has a card with more digits, and int() refuses thousands of them.
    significant = digits.lstrip("0")
    number = int(significant or "0") if len(significant) < 10 else None
    return None if negative and number != 0 else number


def _find_uuid(prefix: str, devices: Sequence[Device]) -> int | None:
    """The one card whose UUID begins so."""
    if not prefix.startswith("GPU-"):
        return None
    found = [device.index for device in devices if device.uuid.startswith(prefix)]
    return found[0] if len(found) == 1 else None


def _find_instance(entry: str, devices: Sequence[Device]) -> tuple[int, str] | None:
    """The card of a MIG instance and the instance, from ``MIG-<uuid>`` or ``MIG-GPU-<uuid>/<gi>/<ci>``."""
    if not entry.startswith("MIG-"):
        return None
    instances = [(device.index, uuid) for device in devices if device.partitioned for uuid in device.mig_uuids]
    for instance in instances:
        if instance[1] == entry:
            return instance
    if not entry.startswith("MIG-GPU-"):
        found = [instance for instance in instances if instance[1].startswith(entry)]
        return found[0] if len(found) == 1 else None
    parent, *ids = entry[len("MIG-") :].split("/")
    if len(ids) != 2 or not all(part and not part.strip(_DIGITS) for part in ids):
        return None
    card = _find_uuid(parent, devices)
    if card is None or not any(device.partitioned for device in devices if device.index == card):
        return None
    return card, "/".join(ids)


def _find_named(
    environ: Mapping[str, str], visible: tuple[int, ...], by_index: Mapping[int, Device], hint: Hint | None
) -> tuple[int | None, str]:
    """The card that the best evidence names, and that evidence in words."""
    # Before any rank: with one card per task, LOCAL_RANK=3 lies outside the list and means nothing.
    if len(visible) == 1:
        return visible[0], "the only visible GPU"
    for name in RANK_VARIABLES:
        rank = environ.get(name, "").strip(_BLANKS)
        if rank and not rank.strip(_DIGITS):
            if len(rank) < 10 and int(rank) < len(visible):
                return visible[int(rank)], f"{name}={rank} within {len(visible)} visible GPUs"
            # Outside the list it says nothing, and the variables behind it are older: Slurm's is 0 in torchrun's ranks.
            break
    if hint is not None:
        # The UUID first: CUDA's default order is fastest card first, not the driver's.
        for index in visible:
            if hint.uuid and by_index[index].uuid == hint.uuid:
                return index, f"{hint.framework} drives {hint.uuid}"
        if 0 <= hint.index < len(visible):
            return visible[hint.index], f"{hint.framework} drives device {hint.index} of {len(visible)} visible GPUs"
    return None, f"nothing says which of {len(visible)} visible GPUs this process drives"
