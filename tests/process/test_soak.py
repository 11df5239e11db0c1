"""Minutes of killing whoever reports the node: ``pytest -m soak -s``, which prints the figures."""

from __future__ import annotations

import json
import operator
import os
import random
import signal
import time
from pathlib import Path

import pytest

from metrana.store.reader import StoredRun
from tests.process.test_ranks import Launch, check_moments, is_charted
from tests.scripts import is_alive, read_writer, wait_until

RANKS, KILLS = 6, 50
INTERVAL_SECS = 1.0
LOST_LIMIT = 4  # children that a training process may lose before it gives up capturing
HANDED_OVER = ("system/cpu/utilization", "system/memory/used_bytes", "system/memory/utilization")

Key = tuple[str, tuple[tuple[str, str], ...]]


def reporter_of(folder: Path) -> tuple[int, int]:
    """The training process and the sampling child that report the node, as the lock file says."""
    try:
        owner = json.loads((folder / "node").read_bytes()[:512] or b"{}")
    except (OSError, ValueError):
        return 0, 0
    return owner.get("pid", 0), owner.get("child", 0)


def changes_of(run: StoredRun) -> dict[Key, int]:
    """How often each series of the node and of the cards went over from one writer to another."""
    reported: dict[Key, list[tuple[float, str]]] = {}
    for writer in run.info.writers:
        for key, series in read_writer(run.info, writer).series.items():
            if key[0] in HANDED_OVER or key[0].startswith("system/gpu/"):
                reported.setdefault(key, []).extend((timestamp, writer.folder) for timestamp in series.timestamps)
    writers = {key: [writer for _, writer in sorted(points)] for key, points in reported.items()}
    return {key: sum(map(operator.ne, found, found[1:])) for key, found in writers.items()}


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("victim", ["training", "child"])
def test_the_node_is_charted_whoever_is_killed(tmp_path: Path, victim: str) -> None:
    """Never two reporters of a series at once, never a gap of more than two intervals."""
    chance = random.Random(os.getpid())
    launch = Launch(tmp_path, cards=RANKS)
    own_id = {"METRANA_ORCHESTRATION_ID": str(tmp_path)}
    lost = dict.fromkeys(range(RANKS), 0)
    kills = 0
    try:
        for rank in range(RANKS):
            launch.start(rank, RANKS, own_id)
        wait_until(lambda: is_charted(launch, RANKS, RANKS), "all charts")
        folder = Path(f"/dev/shm/metrana-{os.geteuid()}") / launch.script.infos()[0].id
        while kills < KILLS:
            # Long enough for the heir to have written what it took over: else one gap is that of several deaths.
            time.sleep(chance.uniform(1.5, 4.0) * INTERVAL_SECS)
            pid, child = reporter_of(folder)
            rank = next((rank for rank, process in launch.ranks.items() if process.pid == pid), None)
            if rank is None or not is_alive(pid) or not is_alive(child):
                continue
            lost[rank] += 1
            if victim == "child" and lost[rank] <= LOST_LIMIT:
                os.kill(child, signal.SIGKILL)
            else:
                launch.kill(rank)
                launch.start(rank, RANKS, own_id)
                lost[rank] = 0
            kills += 1
            wait_until(lambda child=child: reporter_of(folder)[1] not in (0, child), "a new reporter")  # type: ignore[misc]
        launch.stop()
    finally:
        launch.end()
    wait_until(lambda: not launch.script.lock_files(), "the end of the lock files")
    run = launch.run()
    changes = changes_of(run)
    # Two at once would write by turns.
    assert all(0 <= count <= kills for count in changes.values()), changes
    check_moments(run)
    gaps = {}
    for key, series in run.series.items():
        times = series.timestamps
        if key[0] in HANDED_OVER:
            steps = [after - before for before, after in zip(times, times[1:], strict=False)]
            gaps[key[0]] = max(steps)
            print(f"{victim}: {key[0]}: {len(times)} points, gaps: max {max(steps):.2f} s, {sorted(steps)[-5:]}")
    takeovers = max(changes.values())
    print(f"{victim}: {kills} kills, at most {takeovers} takeovers by another process, {len(run.info.writers)} writers")
    assert set(HANDED_OVER) == set(gaps)
    assert all(gap <= 2.0 * INTERVAL_SECS for gap in gaps.values()), gaps
