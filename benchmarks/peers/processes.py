"""The processes of a tool, found by a variable that they inherit, and what they've used."""

from __future__ import annotations

import os
import time

TOKEN = "BENCHMARK_TOKEN"


def find_processes(token: str) -> list[int]:
    """The living processes, this one aside, whose token begins with this one."""
    wanted = f"\0{TOKEN}={token}".encode()
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            try:
                with open(f"/proc/{entry}/environ", "rb") as file:
                    if wanted in b"\0" + file.read():
                        found.append(int(entry))
            except OSError:
                continue
    return found


def cpu_secs(pid: int) -> float:
    """CPU time of a process with all its threads, ended ones too. Raises OSError where it's gone.

    https://man7.org/linux/man-pages/man3/clock_getcpuclockid.3.html: the clock's id is made of the pid.
    """
    return time.clock_gettime((~pid << 3) | 2)


def rss_bytes() -> int:
    """Resident memory of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def folder_bytes(folder: str) -> int:
    """Bytes of the files below a folder."""
    return sum(os.path.getsize(os.path.join(parent, name)) for parent, _, names in os.walk(folder) for name in names)


def wait_until_gone(token: str, secs: float) -> bool:
    """Whether the token's other processes end within that time."""
    end = time.monotonic() + secs
    while find_processes(token):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True
