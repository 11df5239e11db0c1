"""``metrana ui`` as a process, asked over HTTP."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from tests.scripts import DEADLINE_SECS


def start_ui(store: Path, *words: str) -> subprocess.Popen[str]:
    """The command, its output piped. A ``.metrana`` isn't named: it's the default in its own folder."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("METRANA_", "PYTHON"))}
    is_default = store.name == ".metrana"
    return subprocess.Popen(
        [sys.executable, "-m", "metrana", "ui", *([] if is_default else [str(store)]), *words],
        cwd=store.parent if is_default else Path(__file__).parents[2],
        env={**environ, "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def refuse(store: Path, *words: str) -> str:
    """The one line on stderr of a command that can't serve."""
    process = start_ui(store, *words)
    try:
        out, err = process.communicate(timeout=DEADLINE_SECS)
    finally:
        process.kill()
        process.communicate()
    assert (2, "", 1) == (process.returncode, out, err.count("\n")), err
    return err


class Server:
    """A running ``metrana ui`` on a free port; ends with the ``with`` block, quietly."""

    def __init__(self, store: Path, *words: str) -> None:
        self.process = start_ui(store, "--port", "0", *words)
        # A server that never says anything would hold up the test for good.
        watch = threading.Timer(DEADLINE_SECS, self.process.kill)
        watch.start()
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()
        watch.cancel()
        self.url = self.line.split()[0] if self.line else ""
        if not self.url:
            _, err = self.process.communicate(timeout=DEADLINE_SECS)
            raise AssertionError(f"no server: {err}")

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> tuple[int, str, str]:
        """Ctrl-C. Returns the exit status and what it said meanwhile on stdout and stderr."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            out, err = self.process.communicate(timeout=DEADLINE_SECS)
        finally:
            self.process.kill()
            self.process.wait()
        return self.process.returncode, out, err

    def ask(
        self, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of one answer. The path goes out as it is, dots and all."""
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=DEADLINE_SECS)
        try:
            data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
            connection.request("GET" if body is None else "POST", path, data, headers or {})
            response = connection.getresponse()
            return response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()
        finally:
            connection.close()

    def get(self, path: str, **query: str) -> dict[str, object]:
        """A JSON answer."""
        status, _, data = self.ask(f"{path}?{urlencode(query)}")
        record: dict[str, object] = json.loads(data)
        assert 200 == status, record
        return record
