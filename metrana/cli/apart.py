"""Asking in a process apart: what may crash or hang there, such as a driver, costs an answer and not the command."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Callable
from typing import Any

_CHUNK_BYTES = 1 << 16


class NoAnswer(Exception):
    """The question came to nothing; the message says how: a signal, an exit status, or the time that was up."""


def ask_apart(question: Callable[[], dict[str, Any]], timeout_secs: float) -> dict[str, Any]:
    """What ``question`` returns, asked in a forked copy of this process. Raises NoAnswer, OSError.

    Only for a process without threads of its own, as a command is.
    """
    read_fd, write_fd = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(read_fd)
            data = json.dumps(question()).encode("ascii")
            while data:
                data = data[os.write(write_fd, data) :]
        finally:
            os._exit(0)  # without any exit handler: a driver's may hang
    os.close(write_fd)
    try:
        data, is_complete = _read(read_fd, time.monotonic() + timeout_secs)
    finally:
        os.close(read_fd)
    if not is_complete:
        os.kill(pid, signal.SIGKILL)
        _reap(pid, os.WNOHANG)  # one that's stuck in the kernel is left to init
        raise NoAnswer(f"no answer within {timeout_secs:g} s")
    code = _reap(pid, 0)
    if data:
        answer: dict[str, Any] = json.loads(data)
        return answer
    raise NoAnswer(f"crashed: {signal.Signals(-code).name}" if code < 0 else f"ended the process with status {code}")


def _reap(pid: int, options: int) -> int:
    """How a child ended; 0 where somebody else has reaped it, as the kernel does with SIGCHLD ignored."""
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, options)[1])
    except ChildProcessError:
        return 0


def _read(fd: int, deadline: float) -> tuple[bytes, bool]:
    """Everything up to the end of a pipe, and whether that came in time."""
    data = b""
    while True:
        ready, _, _ = select.select([fd], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return data, False
        chunk = os.read(fd, _CHUNK_BYTES)
        if not chunk:
            return data, True
        data += chunk
