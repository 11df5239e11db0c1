"""Asks a framework that the training process has initialized already which GPU it drives."""

from __future__ import annotations

from metrana.system.devices import Hint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def find_hint(modules: Mapping[str, object], own_thread: bool = False) -> Hint | None:
    """The GPU that an initialized Torch or JAX among ``modules`` (sys.modules) drives, or None as yet.

    Never imports and never initializes. ``own_thread`` says that the caller is the training thread itself. Never raises
    an Exception.
    """
    for name, find in (("torch", _find_torch_hint), ("jax", _find_jax_hint)):
        module = modules.get(name)
        if module is None:
            continue
        try:
            hint = find(module, modules, own_thread)
        except Exception:  # half imported modules and private names of other people's code may fail in any way
            continue
        if hint is not None:
            return hint
    return None


def _find_torch_hint(torch: Any, modules: Mapping[str, object], own_thread: bool) -> Hint | None:
    cuda = torch.cuda
    # Without this question the later ones would initialize CUDA: half a gigabyte, and no fork after it.
    if not cuda.is_initialized():
        return None
    index = _find_torch_index(cuda, own_thread)
    return None if index is None else Hint("torch", index, _find_torch_uuid(cuda, index))


def _find_torch_index(cuda: Any, own_thread: bool) -> int | None:
    memory_reserved = getattr(cuda, "memory_reserved", None)
    if memory_reserved is None:
        return int(cuda.current_device())
    # The current device belongs to a thread and is 0 in one that never set it; memory belongs to the process.
    used = [index for index in range(cuda.device_count()) if memory_reserved(index) > 0]
    if len(used) == 1:
        return used[0]
    return int(cuda.current_device()) if own_thread and not used else None


def _find_torch_uuid(cuda: Any, index: int) -> str | None:
    try:
        uuid = str(cuda.get_device_properties(index).uuid)
    except Exception:  # older versions have no UUID, some builds fail to decode it: the ordinal still stands
        return None
    return uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"


def _find_jax_hint(jax: Any, modules: Mapping[str, object], own_thread: bool) -> Hint | None:
    bridge: Any = modules.get("jax._src.xla_bridge") or jax._src.xla_bridge
    # Without this question local_devices() would start the backend, which takes most of the GPU's memory.
    if not bridge.backends_are_initialized():
        return None
    gpus = [device for device in jax.local_devices() if device.platform in ("gpu", "cuda")]
    if len(gpus) != 1:
        return None
    index = int(gpus[0].local_hardware_id)
    return Hint("jax", index) if index >= 0 else None
