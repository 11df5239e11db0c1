"""The threads of the training process never keep it waiting."""

from __future__ import annotations

import subprocess
import sys

from tests.scripts import DEADLINE_SECS

NEVER_ENDED = """
import os, threading
from metrana.threads import Worker
up, gate = threading.Event(), threading.Event()
worker = Worker(lambda: (up.set(), gate.wait()), "worker")
worker.start()
up.wait()
threading._active_limbo_lock.acquire()  # what an interrupt at the wrong moment may leave behind
gate.set()
print(worker.join(), flush=True)
os._exit(0)
"""


def test_a_thread_that_the_interpreter_does_not_end_keeps_nobody_waiting() -> None:
    """All that it had to do is done."""
    done = subprocess.run([sys.executable, "-c", NEVER_ENDED], capture_output=True, text=True, timeout=DEADLINE_SECS)
    assert ("True\n", "") == (done.stdout, done.stderr)
