"""Scripts that train with the hardware charted, and what must hold of each, however it's started and ends."""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

from tests.scripts import Script, is_alive, values_of, wait_until

# train() trains until the first sample is on the disk: so the child has surely been up. Notes are files, each opened
# anew: they work without a standard output, in forked copies, and where every descriptor has been closed.
_BODY = """\
import metrana, os, sys, time
FOLDER = {folder!r}
def note(name, text):
    fd = os.open(os.path.join(FOLDER, name), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(fd, f"{{text}}\\n".encode())
    os.close(fd)
def log(times=1):
    for _ in range(times):
        metrana.log("loss", 0.5)
        note("logged", "point")
def children():
    found = []
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{{entry}}/stat") as file: name, _, fields = file.read().rpartition(")")
        except OSError: continue
        if "metrana-sampler" in name and fields.split()[1] == str(os.getpid()): found.append(int(entry))
    return found
def is_stored(*texts):
    metrana.flush()
    text = ""
    for folder, _, names in os.walk(os.path.join(FOLDER, "store")):
        for name in names:
            if name.endswith(".jsonl"):
                with open(os.path.join(folder, name)) as file: text += file.read()
    return all(part in text for part in texts)
def is_sampled():
    return is_stored('"system/process/rss_bytes","l":{{"host":', '"system/capture/process"')
def train(**options):
    note("trainings", os.getpid())
    run = metrana.init(run_name="r", system_metrics_interval_secs=1, **options)
    log()
    end = time.monotonic() + 100
    while not is_sampled() and time.monotonic() < end:
        log()
        time.sleep(0.02)
    for child in children(): note("children", child)
    return run
"""


class Training(Script):
    """A script with ``train()``, ``log()``, ``children()`` and ``note()`` at hand; ``first`` stands before these."""

    def __init__(self, folder: Path, code: str = "train()\n", name: str = "train.py", first: str = "") -> None:
        body = _BODY.format(folder=str(folder))
        super().__init__(folder, textwrap.dedent(first) + body + textwrap.dedent(code), name)

    def check_run(
        self,
        *command: str,
        environ: Mapping[str, str] | None = None,
        code: int = 0,
        stderr: str | None = "",
        trainings: int = 1,
    ) -> str:
        """Run it to its end and check all that must hold; return its output."""
        in_shm = shared_memory()
        out = self.run(*command, environ=environ, code=code, stderr=stderr)
        self.check(trainings, in_shm)
        return out

    def check_shell(self, command: str, **options: object) -> str:
        """The same, started by a shell: ``$PYTHON`` is this Python."""
        return self.check_run("bash", "-c", command, **options)  # type: ignore[arg-type]

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        return {**super().environment(extra), "PYTHON": sys.executable, **(extra or {})}

    def check(self, trainings: int = 1, in_shm: frozenset[str] | None = None) -> None:
        """The body ran so often, the hardware was charted, every point is there, and nothing is left behind."""
        assert trainings == len(self.notes("trainings"))
        children = [int(pid) for pid in self.notes("children")]
        assert 1 <= len(children), "no sampling child was seen"
        run = self.stored()
        assert len(self.notes("logged")) == len(values_of(run, "loss"))
        assert 1 <= len(values_of(run, "system/memory/used_bytes"))
        assert "ok" == run.attributes["system/capture/process"]
        wait_until(lambda: not [pid for pid in children if is_alive(pid)], "the end of the children")
        wait_until(lambda: not self.processes(), "the end of all the script's processes")
        if in_shm is not None:
            new = shared_memory() - in_shm
            wait_until(lambda: not (new & shared_memory()) - _in_use(new), "an empty /dev/shm")
        wait_until(lambda: not self.lock_files(), "the end of the lock files")

    def notes(self, name: str) -> list[str]:
        """What the script has noted under that name."""
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def processes(self) -> list[int]:
        """The living processes that have this script's store in their environment."""
        mark = f"METRANA_DIR={self.store}\0".encode()
        found = []
        for entry in os.listdir("/proc"):
            try:
                if entry.isdigit() and mark in Path(f"/proc/{entry}/environ").read_bytes() and is_alive(int(entry)):
                    found.append(int(entry))
            except OSError:
                continue
        return found


def shared_memory() -> frozenset[str]:
    """The files in /dev/shm that multiprocessing may have left there."""
    root = Path("/dev/shm")
    entries = [entry for entry in root.glob("*") if re.match(r"sem\.mp-|psm_|pymp-", entry.name)]
    files = [file for entry in entries for file in (entry, *entry.rglob("*")) if not file.is_dir()]
    return frozenset(str(file.relative_to(root)) for file in files)


def _in_use(names: frozenset[str]) -> set[str]:
    """Those of the entries that a living process has mapped or open: other programs may be at work here."""
    found: set[str] = set()
    for process in Path("/proc").glob("[0-9]*") if names else ():
        try:
            held = (process / "maps").read_text() + " ".join(os.readlink(fd) for fd in (process / "fd").iterdir())
        except OSError:
            continue
        found |= {name for name in names if f"/dev/shm/{name}" in held}
    return found
