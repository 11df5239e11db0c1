"""Whether an NVIDIA driver and its library are there, told by their files: loading a library may crash."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from metrana.system.host import Host

LIBRARY = "libnvidia-ml.so.1"
DRIVER_SIGNS = ("/proc/driver/nvidia", "/dev/nvidiactl")
LIBRARY_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/nvidia/lib64",
    "/usr/lib/wsl/lib",
    "/run/opengl-driver/lib",
)

LOADER_CACHE = "/etc/ld.so.cache"  # full paths, each ended by a null byte
LOADER_CACHE_LIMIT_BYTES = 4 * 1024 * 1024


def has_driver_signs(host: Host) -> bool:
    """Whether the kernel's side of the driver is there. Source: /proc and /dev."""
    return any(host.exists(path) for path in DRIVER_SIGNS)


def has_library(host: Host) -> bool:
    """Whether the driver's library lies where the loader looks. Source: the places of ld.so(8)."""
    listed = os.environ.get("LD_LIBRARY_PATH", "").split(":")  # this process's own: it's what the loader goes by
    if any(host.exists(f"{folder}/{LIBRARY}") for folder in (*filter(None, listed), *LIBRARY_FOLDERS)):
        return True
    try:
        return f"/{LIBRARY}\0".encode() in host.read_bytes(LOADER_CACHE, LOADER_CACHE_LIMIT_BYTES)
    except OSError:
        return False
