"""The NVIDIA driver's management library (NVML), through nvidia-ml-py: the only importer of ``pynvml``.

https://docs.nvidia.com/deploy/nvml-api/ describes the calls. Every call goes through ``Nvml._call``, which turns
NVML's codes into the kinds of metrana.errors and keeps the library's own exceptions in here: their ``str()`` may call
the driver, and comparing one raises.
"""

from __future__ import annotations

import importlib
import os
import warnings
from typing import TYPE_CHECKING, Any

from metrana.errors import ReadFailed, Unavailable
from metrana.system.devices import Device
from metrana.system.sources.driver_files import LIBRARY, has_driver_signs, has_library

if TYPE_CHECKING:
    from collections.abc import Callable

    from metrana.system.host import Host

NO_DRIVER = "no NVIDIA driver"
NOT_INSTALLED = "nvidia-ml-py not installed: pip install nvidia-ml-py"
# An old package called pynvml hides the module of that name.
_REINSTALL = "pip uninstall pynvml, then pip install --force-reinstall nvidia-ml-py"

# nvmlReturn_t, https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html
LIBRARY_NOT_FOUND = 12
NEVER = {
    2: "invalid argument",
    3: "not supported",
    4: "no permission",
    13: "function not in this driver",
    25: "version of the call not in this driver",
    26: "deprecated",
}
CARD = {8: "lacks power", 14: "has a corrupted infoROM", 15: "is lost", 16: "needs a reset", 28: "isn't found"}
EVERYTHING = {
    1: "NVML isn't initialized",
    9: "NVIDIA driver not loaded, though its library is there",
    LIBRARY_NOT_FOUND: f"{LIBRARY} is missing or can't be loaded, though the NVIDIA driver is there",
    17: "the operating system blocks the NVIDIA driver",
    18: "NVIDIA driver/library version mismatch: the driver was upgraded under a running system, a reboot mends it",
}
LATER = {7: "insufficient size", 10: "timeout", 11: "interrupt trouble", 19: "in use", 20: "out of memory"}
LATER |= {21: "no data", 23: "insufficient resources", 27: "not ready", 999: "unknown error"}

REFUSALS = 3  # after which a call that fails otherwise than clearly counts as unknown to the card

# The library keeps its state per process, and a forked copy has to start anew.
_initialized_pid: int | None = None


class CardFailed(ReadFailed):
    """A card as a whole doesn't answer; the others may."""


class DriverFailed(ReadFailed):
    """The driver as a whole doesn't answer."""


class DriverUnusable(Unavailable):
    """A driver is there and can't be read: unlike its absence, that deserves a warning."""


class Card:
    """A GPU of the driver's list: its identity, and its handle as soon as the driver has given it out."""

    __slots__ = ("device", "handle", "failure", "choices", "refusals", "can_partition")

    def __init__(self, index: int) -> None:
        self.device = Device(index)
        self.handle: Any = None
        self.failure: ReadFailed | Unavailable | None = None
        self.choices: dict[str, Callable[[Any], Any]] = {}
        self.refusals: dict[str, int] = {}
        self.can_partition = True


class Nvml:
    """The driver of this machine. start() first; every other method raises Unavailable or ReadFailed."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._library: Any = None
        self._error: type[Exception] = Exception
        self.cards: tuple[Card, ...] = ()
        self.driver_version: str | None = None
        self.started = False

    def start(self) -> None:
        """Load the library, initialize it once in the process's life, and look at each card.

        Raises Unavailable where there's no driver, DriverUnusable where there's one that can't be read, and ReadFailed
        where it's worth another try.
        """
        global _initialized_pid
        if self.started:
            return
        if self._library is None:
            self._library = self._import_library()
        if _initialized_pid != os.getpid():
            try:
                self._call("nvmlInit")
            except DriverFailed as error:
                absent = str(error) == EVERYTHING[LIBRARY_NOT_FOUND] and not has_driver_signs(self._host)
                raise Unavailable(NO_DRIVER) if absent else DriverUnusable(str(error)) from None
            except Unavailable as error:
                raise DriverUnusable(f"NVIDIA driver refuses to start: {error}") from None
            _initialized_pid = os.getpid()
        try:
            self.driver_version = self._call("nvmlSystemGetDriverVersion")
        except (Unavailable, ReadFailed):
            self.driver_version = None
        count = self._call("nvmlDeviceGetCount")
        self.cards = tuple(Card(index) for index in range(count))
        self.started = True
        for card in self.cards:
            try:
                self.open(card)
            except (Unavailable, ReadFailed):
                continue  # the card keeps the reason; one that doesn't come up must not cost the others

    def devices(self) -> tuple[Device, ...]:
        """The cards as the driver lists them, those without a handle too."""
        return tuple(card.device for card in self.cards)

    def open(self, card: Card) -> None:
        """Get a card's handle and identity. The first time wakes the GPU, which can take seconds."""
        try:
            handle = self._call("nvmlDeviceGetHandleByIndex", card.device.index)
        except (Unavailable, ReadFailed) as error:
            card.failure = error
            raise
        card.failure = None
        card.handle = handle
        card.device.uuid = self._find_text(lambda: self._call("nvmlDeviceGetUUID", handle))
        card.device.pci = self._find_text(lambda: self._call("nvmlDeviceGetPciInfo", handle).busId)
        self.refresh_partitions(card)

    def refresh_partitions(self, card: Card) -> bool:
        """Read a card's MIG mode and instances anew; True where the mode has changed. Never raises an Exception."""
        if card.handle is None or not card.can_partition:
            return False
        try:
            partitioned = bool(self._call("nvmlDeviceGetMigMode", card.handle)[0])
        except Unavailable:
            card.can_partition = False
            return False
        except ReadFailed:
            return False  # what was known holds
        changed = partitioned != card.device.partitioned
        card.device.partitioned = partitioned
        card.device.mig_uuids = self._read_instances(card.handle) if partitioned else ()
        return changed

    def utilization(self, card: Card) -> float:
        """Percent of the last second or less in which any kernel ran."""
        return float(self._call("nvmlDeviceGetUtilizationRates", card.handle).gpu)

    def memory(self, card: Card) -> tuple[int, int]:
        """Bytes in all and bytes used, the driver's own share left out where it tells (since 510)."""
        version = getattr(self._library, "nvmlMemory_v2", None)
        newest = None if version is None else lambda handle: self._call("nvmlDeviceGetMemoryInfo", handle, version)
        info = self._prefer(card, "memory", newest, lambda handle: self._call("nvmlDeviceGetMemoryInfo", handle))
        if not info.total:
            raise Unavailable("the driver reports a memory of 0 bytes")
        return int(info.total), int(info.used)

    def temperature(self, card: Card) -> float:
        """Degrees Celsius. The newer call came with 565 and the older one is to go."""
        newest, oldest = (
            lambda handle: self._call("nvmlDeviceGetTemperatureV", handle, 0),
            lambda handle: self._call("nvmlDeviceGetTemperature", handle, 0),
        )
        return float(self._prefer(card, "temperature", newest, oldest))

    def power(self, card: Card) -> float:
        """Watts; an average over a second on most cards since Ampere."""
        return float(self._call("nvmlDeviceGetPowerUsage", card.handle)) / 1000.0

    def sm_clock(self, card: Card) -> float:
        """MHz of the streaming multiprocessors."""
        return float(self._call("nvmlDeviceGetClockInfo", card.handle, 1))  # NVML_CLOCK_SM

    def _prefer(self, card: Card, name: str, newest: Callable[..., Any] | None, oldest: Callable[..., Any]) -> Any:
        """The answer of the newer of two calls, or of the older one where the card doesn't know the newer.

        That it doesn't is settled by a clear code at once, by any other only when it comes again: a single timeout must
        not change what a series means for good, and WSL answers UNKNOWN to calls that it doesn't know.
        """
        chosen = card.choices.get(name)
        if chosen is not None:
            return chosen(card.handle)
        failure: Unavailable | ReadFailed | None = None
        if newest is not None:
            try:
                answer = newest(card.handle)
            except (CardFailed, DriverFailed):
                raise
            except (Unavailable, ReadFailed) as error:
                failure = error
                card.refusals[name] = card.refusals.get(name, 0) + 1
            else:
                card.choices[name] = newest
                return answer
        try:
            answer = oldest(card.handle)
        except Unavailable:
            if failure is not None:
                raise failure from None
            raise
        if not isinstance(failure, ReadFailed) or card.refusals[name] >= REFUSALS:
            card.choices[name] = oldest
        return answer

    def _read_instances(self, handle: Any) -> tuple[str, ...]:
        uuids = []
        try:
            for slot in range(self._call("nvmlDeviceGetMaxMigDeviceCount", handle)):
                try:
                    instance = self._call("nvmlDeviceGetMigDeviceHandleByIndex", handle, slot)
                    uuids.append(self._call("nvmlDeviceGetUUID", instance))
                except (Unavailable, ReadFailed):
                    continue  # empty slots lie between the others
        except (Unavailable, ReadFailed):
            pass  # a list that can't be read leaves the instances unknown
        return tuple(uuids)

    def _find_text(self, read: Callable[[], Any]) -> str:
        try:
            text = read()
        except (Unavailable, ReadFailed, ValueError):  # a structure decodes its texts when they're asked for
            return ""
        return text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)

    def _call(self, name: str, *arguments: Any) -> Any:
        """One call of the library. Raises Unavailable or ReadFailed, in the kind that the code stands for."""
        function = getattr(self._library, name, None)
        if function is None:
            raise Unavailable(f"the installed pynvml package has no {name}")
        try:
            return function(*arguments)
        except self._error as error:
            code = getattr(error, "value", None)
            if code is None:
                raise ReadFailed(f"{name} raised {type(error).__name__}") from None
        except Exception as error:  # strict decoding of garbled text, and whatever a wrong package raises
            raise ReadFailed(f"{name} raised {type(error).__name__}") from None
        # Outside of the handlers, so that no traceback carries the library's exception and asks for its text.
        raise sort_code(code)

    def _import_library(self) -> Any:
        if not has_driver_signs(self._host) and not has_library(self._host):
            raise Unavailable(NO_DRIVER)  # most machines: they're spared two megabytes of package
        try:
            with warnings.catch_warnings():
                # One of the packages under this name warns at import, which -W error turns into an exception.
                warnings.simplefilter("ignore", FutureWarning)
                library: Any = importlib.import_module("pynvml")
            self._error = library.NVMLError
        except Exception as error:  # other people's module: what it raises at import is its own affair
            if isinstance(error, ModuleNotFoundError) and error.name == "pynvml":
                raise DriverUnusable(NOT_INSTALLED) from None
            found = f"the installed pynvml package can't be used ({type(error).__name__})"
            raise DriverUnusable(f"{found}: {_REINSTALL}") from None
        return library


def sort_code(code: int) -> Unavailable | ReadFailed:
    """The error that one of NVML's codes stands for."""
    if code in NEVER:
        return Unavailable(NEVER[code])
    if code in CARD:
        return CardFailed(f"GPU {CARD[code]}")
    if code in EVERYTHING:
        return DriverFailed(EVERYTHING[code])
    return ReadFailed(f"{LATER.get(code, 'NVML error')} (NVML code {code})")
