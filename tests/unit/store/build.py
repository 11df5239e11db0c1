"""Stores written by hand, as the format's page has them, and the machine they're read on."""

from __future__ import annotations

import json
import os
from pathlib import Path

from metrana.store.layout import run_folder, segment_file
from metrana.system.host import Host
from tests.trees import unpacked

GOLDEN = unpacked("store")
T0 = 1767225600.0


def make_host(root: Path, *processes: tuple[int, int, str], hostname: str = "node7", now: float = T0) -> Host:
    """A machine on which these processes live, each (pid, start in clock ticks, state)."""
    for pid, start, state in (*processes, (1, 1, "S")):
        path = root / "proc" / str(pid) / "stat"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{pid} (python (x) 3) {state} 1 " + "0 " * 17 + f"{start} 1 2 3\n")
    me = root / "proc" / "self" / "stat"
    me.parent.mkdir(exist_ok=True)
    me.write_text("1 (cli) R 0")
    return Host(root=str(root), environ={}, pid=1, hostname=hostname, time=lambda: now)


def line(**record: object) -> bytes:
    return json.dumps(record).encode() + b"\n"


def head(
    run: str = "train",
    t: float = T0,
    *,
    id: str | None = None,
    project: str = "default",
    organization: str = "default",
    workspace: str = "default",
    host: str = "node7",
    pid: int = 42,
    pid_start: int | None = 900,
    rank: int | None = None,
) -> bytes:
    identity = {
        "id": id or f"{run}-id",
        "organization": organization,
        "workspace_name": workspace,
        "project_name": project,
        "run_name": run,
        "orchestration_id": "token",
    }
    return line(v=1, run=identity, writer={"host": host, "pid": pid, "pid_start": pid_start, "rank": rank}, t=t)


def declare(number: int, name: str, /, **labels: str) -> bytes:
    return line(d=number, n=name, l=labels)


def points(t: float, step: int, values: dict[int, object]) -> bytes:
    return line(t=t, s=step, i=list(values), v=list(values.values()))


def end(t: float, event: str = "closed") -> bytes:
    return line(e=event, t=t)


def put(
    store: Path, *lines: bytes, run: str = "train", id: str | None = None, writer: str = "node7-42-1", number: int = 1
) -> Path:
    """Write a segment under the default project; the head decides what the run is called."""
    folder = store / run_folder("default", "default", "default", run, id or f"{run}-id") / writer
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / segment_file(number)
    path.write_bytes(b"".join(lines))
    return path


def resumed(text: bytes, attempt: int | None = None) -> bytes:
    record = json.loads(text)
    record["writer"]["resumed"] = True
    record["writer"]["attempt"] = attempt
    return json.dumps(record).encode() + b"\n"


def put_attempt(
    store: Path,
    number: int,
    steps: range,
    *,
    name: str = "loss",
    labels: dict[str, str] | None = None,
    is_closed: bool = True,
) -> None:
    start = T0 + 1000 * number
    lines = [head(t=start, pid=42 + number), declare(1, name, **(labels or {}))]
    if number:
        lines[0] = resumed(lines[0])
    lines += [points(start + 1 + place, step, {1: 1000.0 * number + step}) for place, step in enumerate(steps)]
    if is_closed:
        lines.append(end(start + 1 + len(steps)))
    path = put(store, *lines, writer=f"node7-{42 + number}-{number}")
    os.utime(path, (start + 1 + len(steps),) * 2)  # another host's: a fresh file would be one that runs
