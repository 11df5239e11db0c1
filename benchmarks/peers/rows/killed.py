"""What's left of the points when the training process is killed right after the last one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from benchmarks.peers.fresh import command_of
from benchmarks.peers.processes import TOKEN, wait_until_gone

TYPE_CHECKING = False
if TYPE_CHECKING:
    from benchmarks.peers.adapters import Adapter

SECS = 2.0
PAUSE_SECS = 0.001
DEADLINE_SECS = 40.0
GONE_SECS = 10.0


def measure(adapter: Adapter, folder: str, size: float) -> dict[str, float]:
    name = type(adapter).__module__.rpartition(".")[2]
    command = command_of(sys.executable, "killed", name, folder, str(size), "log_and_die")
    done = subprocess.run(
        command, env={**os.environ, TOKEN: os.environ[TOKEN] + "v"}, stdout=subprocess.PIPE, timeout=DEADLINE_SECS
    )
    if done.returncode != -signal.SIGKILL:
        raise RuntimeError(f"ended with {done.returncode} instead of being killed")
    logged = int(done.stdout.split()[-1])
    wait_until_gone(os.environ[TOKEN] + "v", GONE_SECS)
    adapter.load()
    return {"kept_percent": adapter.count(folder, "loss") / logged * 100}


def log_and_die(adapter: Adapter, folder: str, size: float) -> None:
    """Log a point about every millisecond, tell how many, and be killed."""
    adapter.load()
    adapter.open(folder, None)
    logged, end = 0, time.monotonic() + SECS * size
    while time.monotonic() < end:
        adapter.log("loss", logged * 0.37)
        logged += 1
        time.sleep(PAUSE_SECS)
    print(logged, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
