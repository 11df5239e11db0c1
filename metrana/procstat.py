"""What identifies a process: its host, and its start time, which no later process of the same pid has."""

from __future__ import annotations

import os


def parse_start_ticks(stat: bytes) -> int:
    """Clock ticks since boot from ``/proc/<pid>/stat``, field 22 (proc(5)). Raises ValueError, IndexError."""
    return int(stat.rpartition(b")")[2].split()[19])


def read_start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None where /proc doesn't tell."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return parse_start_ticks(file.read())
    except (OSError, ValueError, IndexError):
        return None


def read_hostname() -> str:
    """This host's name."""
    if hasattr(os, "uname"):
        return os.uname().nodename
    import socket  # Windows

    return socket.gethostname()


def read_pid_namespace() -> int | None:
    """The namespace that this process's pids belong to (pid_namespaces(7)); None where /proc doesn't tell."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return None
