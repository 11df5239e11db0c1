"""Hints come from frameworks that run already, and from nothing else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from metrana.system.devices import Hint
from metrana.system.hints import find_hint

UUID = "9942190a-aa31-4ff1-4aa9-c388d80f85f1"


class Cuda:
    """torch.cuda as far as it's asked; ``woken`` after a question that would have initialized CUDA."""

    def __init__(self, reserved: list[int], current: int = 0, initialized: bool = True) -> None:
        self._reserved = reserved
        self._current = current
        self._initialized = initialized
        self.woken = False

    def is_initialized(self) -> bool:
        return self._initialized

    def _ask(self) -> None:
        self.woken = self.woken or not self._initialized

    def current_device(self) -> int:
        self._ask()
        return self._current

    def device_count(self) -> int:
        self._ask()
        return len(self._reserved)

    def memory_reserved(self, index: int) -> int:
        self._ask()
        return self._reserved[index]

    def get_device_properties(self, index: int) -> Any:
        self._ask()
        return SimpleNamespace(uuid=UUID) if index == 1 else SimpleNamespace()


def torch_of(cuda: object) -> dict[str, object]:
    return {"torch": SimpleNamespace(cuda=cuda)}


def jax_of(devices: list[Any], initialized: bool = True) -> dict[str, object]:
    bridge = SimpleNamespace(backends_are_initialized=lambda: initialized)

    return {"jax": SimpleNamespace(local_devices=lambda: devices), "jax._src.xla_bridge": bridge}


def gpu(ordinal: int, platform: str = "gpu") -> Any:
    return SimpleNamespace(platform=platform, local_hardware_id=ordinal)


def test_no_framework() -> None:
    """A process without Torch and JAX gives no hint."""
    assert find_hint({}) is None


@pytest.mark.parametrize("own_thread", [False, True])
def test_torch_is_never_woken(own_thread: bool) -> None:
    """A Torch that hasn't initialized CUDA is asked nothing that would."""
    cuda = Cuda([0, 4096], initialized=False)
    assert find_hint(torch_of(cuda), own_thread) is None
    assert not cuda.woken


def test_torch_goes_by_memory() -> None:
    """The device that holds memory is the one driven, whatever the calling thread's current device is."""
    assert Hint("torch", 2) == find_hint(torch_of(Cuda([0, 0, 4096], current=0)))


def test_torch_tells_the_uuid() -> None:
    """Where Torch knows the UUID it comes along, in the driver's spelling."""
    assert Hint("torch", 1, f"GPU-{UUID}") == find_hint(torch_of(Cuda([0, 4096])))


@pytest.mark.parametrize("own_thread", [False, True])
def test_torch_on_several_devices(own_thread: bool) -> None:
    """A process that holds memory on several devices drives several: no hint."""
    assert find_hint(torch_of(Cuda([4096, 4096])), own_thread) is None


def test_torch_without_memory_yet() -> None:
    """Before any memory is reserved only the training thread knows its current device."""
    assert find_hint(torch_of(Cuda([0, 0, 0], current=2))) is None
    assert Hint("torch", 2) == find_hint(torch_of(Cuda([0, 0, 0], current=2)), own_thread=True)


def test_torch_without_memory_reserved() -> None:
    """A Torch that doesn't tell its memory is asked for its current device."""
    cuda = SimpleNamespace(is_initialized=lambda: True, current_device=lambda: 3)
    assert Hint("torch", 3) == find_hint(torch_of(cuda))


def test_half_imported_modules() -> None:
    """Modules whose import is still going on give no hint and no error."""
    assert find_hint({"torch": SimpleNamespace(), "jax": SimpleNamespace()}) is None
    assert find_hint({"torch": None, "jax": None}) is None


def test_jax_is_never_woken() -> None:
    """A JAX without a backend isn't asked for its devices: it would give them, and start the backend."""
    assert find_hint(jax_of([gpu(1)], initialized=False)) is None


def test_jax_with_one_gpu() -> None:
    """JAX's one local GPU is the one driven."""
    assert Hint("jax", 3) == find_hint(jax_of([gpu(3, "cuda")]))
    assert Hint("jax", 3) == find_hint(jax_of([gpu(3), gpu(0, "cpu")]))


@pytest.mark.parametrize("devices", [[], [gpu(0), gpu(1)], [gpu(0, "tpu")], [gpu(-1)]])
def test_jax_without_one_gpu(devices: list[Any]) -> None:
    """Several GPUs, other chips or a number that's none give no hint."""
    assert find_hint(jax_of(devices)) is None


def test_jax_behind_an_idle_torch() -> None:
    """A Torch that runs on the CPU only doesn't hide JAX."""
    assert Hint("jax", 1) == find_hint({**torch_of(Cuda([], initialized=False)), **jax_of([gpu(1)])})
