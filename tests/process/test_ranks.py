"""Many processes of one run on one node: real ones, with the scripted driver, killed as they come."""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from metrana.store.reader import StoredRun
from tests.fake_driver import FakeDriver
from tests.scripts import DEADLINE_SECS, Script, children_of, is_alive, needs_namespaces, read_writer, wait_until

# Trains until the test has seen enough.
BODY = """
import metrana, os, pathlib, time
run = metrana.init(run_name="r", system_metrics_interval_secs=1)
folder = pathlib.Path(os.environ["METRANA_DIR"]).parent
while not (folder / "stop").exists():
    metrana.log("loss", 0.5)
    metrana.flush()
    time.sleep(0.1)
metrana.close()
"""
CARD = {"util": 93, "mem_total": 80_000_000_000, "mem_used": 40_000_000_000, "temp": 41, "clock_sm": 1980}
READINGS = 6
NODE_SERIES = {
    "system/cpu/utilization",
    "system/memory/used_bytes",
    "system/memory/utilization",
}


class Launch:
    """Ranks on a node with as many cards, ended and reaped however the test goes."""

    def __init__(self, folder: Path, cards: int) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.script = Script(folder, BODY)
        self.driver = FakeDriver(folder)
        self.driver.script({"system": {"count": cards}, "gpu": CARD})
        self.ranks: dict[int, subprocess.Popen[str]] = {}

    def environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        own = self.driver.environment()
        names = ("LD_LIBRARY_PATH", "FAKE_NVML_CONFIG", "FAKE_NVML_LOG")
        return {**{name: own[name] for name in names}, **extra}

    def start(self, rank: int, size: int, extra: Mapping[str, str] | None = None) -> None:
        """A rank with the environment that torchrun gives."""
        torchrun = {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(size),
            "LOCAL_WORLD_SIZE": str(size),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": "29500",
            "TORCHELASTIC_RUN_ID": "none",
        }
        self.ranks[rank] = self.script.start(environ=self.environment({**torchrun, **(extra or {})}))

    def run(self) -> StoredRun:
        return self.script.stored()

    def stop(self) -> None:
        """Let the ranks that live end in order: silently, with status 0."""
        (self.folder / "stop").touch()
        for process in self.ranks.values():
            out, err = process.communicate(timeout=DEADLINE_SECS)
            assert ("", "") == (out, err)
            assert process.returncode in (0, -signal.SIGKILL)

    def kill(self, rank: int) -> None:
        self.ranks[rank].kill()
        self.ranks[rank].communicate()

    def rank_of(self, name: str, **labels: str) -> int | None:
        """The rank that reported a series last."""
        points = [(max(times), rank) for rank, times in writers_of(self.run(), name, **labels).items()]
        return max(points)[1] if points else None

    def end(self) -> None:
        for process in self.ranks.values():
            process.kill()
            process.communicate()


@contextmanager
def launched(folder: Path, size: int, cards: int, extra: Mapping[str, str] | None = None) -> Iterator[Launch]:
    """Ranks that train, and at the end leave no lock file."""
    launch = Launch(folder, cards)
    try:
        for rank in range(size):
            launch.start(rank, size, extra)
        yield launch
    finally:
        launch.end()
    wait_until(lambda: not launch.script.lock_files(), "the end of the lock files")


def writers_of(run: StoredRun, name: str, **labels: str) -> dict[int, list[float]]:
    """The timestamps of a series by the rank that wrote them."""
    found = {}
    for writer in run.info.writers:
        for (n, own_labels), series in read_writer(run.info, writer).series.items():
            if n == name and labels.items() <= dict(own_labels).items():
                found[int(writer.rank or 0)] = list(series.timestamps)
    return found


def gpu_writers(run: StoredRun, card: int) -> dict[int, list[float]]:
    return writers_of(run, "system/gpu/utilization", gpu=str(card))


def check_series(run: StoredRun, cards: int) -> None:
    """Each series of the node and of a card was one writer's at any time, without a moment twice."""
    names = [(name, {}) for name in sorted(NODE_SERIES)]
    names += [("system/gpu/utilization", {"gpu": str(card)}) for card in range(cards)]
    for name, labels in names:
        spans = sorted((min(times), max(times)) for times in writers_of(run, name, **labels).values())
        assert all(before[1] < after[0] for before, after in zip(spans, spans[1:], strict=False)), (name, labels, spans)
    check_moments(run)


def check_doctor(*launches: Launch) -> None:
    """``metrana doctor`` lists each launch's claims with the processes that hold them."""
    out = launches[0].script.run(sys.executable, "-m", "metrana", "doctor", "--json")
    for launch in launches:
        run = launch.run()
        claims = [claim for claim in json.loads(out)["claims"] if claim["run_id"] == run.info.id]
        (reporter,) = writers_of(run, "system/memory/used_bytes")
        cards = {card: rank for card in launch.ranks for rank in gpu_writers(run, card)}
        assert sorted([reporter, *cards.values()]) == sorted(claim["rank"] for claim in claims)
        assert [reporter] == [claim["rank"] for claim in claims if claim["file"] == "node"]
        for claim in claims:
            assert (True, launch.ranks[claim["rank"]].pid) == (claim["alive"], claim["pid"])


def check_moments(run: StoredRun) -> None:
    """No timestamp stands twice in a series of the system."""
    for key, series in run.series.items():
        if key[0].startswith("system/"):
            assert len(set(series.timestamps)) == len(series.timestamps), key


def is_charted(launch: Launch, size: int, cards: int) -> bool:
    """Whether all that's to be charted has been seen."""
    if len(launch.script.infos()) != 1:
        return False
    names = [(name, dict(labels)) for name, labels in launch.run().series]
    return (
        any(name == "system/cpu/utilization" for name, _ in names)
        and len({labels["gpu"] for name, labels in names if name.startswith("system/gpu/")}) == cards
        and len({labels["pid"] for name, labels in names if name == "system/process/rss_bytes"}) == size
    )


def check_eight(launch: Launch) -> None:
    """Eight ranks, eight cards: what each of them has to have written."""
    run = launch.run()
    check_series(run, cards=8)
    assert [{card} for card in range(8)] == [set(gpu_writers(run, card)) for card in range(8)]
    names = [name for name, _ in run.series]
    assert 8 * READINGS - 8 <= sum(name.startswith("system/gpu/") for name in names) <= 8 * READINGS
    (reporter,) = writers_of(run, "system/memory/used_bytes")
    assert all({reporter} == set(writers_of(run, name)) for name in NODE_SERIES)
    assert 8 == names.count("system/process/rss_bytes")
    assert ("shm", "ok", "ok") == tuple(
        run.attributes[name] for name in ("system/arbitration_mode", "system/capture/gpu", "system/capture/cpu")
    )
    assert "closed" == run.info.status


def test_eight_ranks_chart_eight_cards_once(tmp_path: Path) -> None:
    """One run; each card by the rank that drives it, the node by one of them, each process by itself."""
    with launched(tmp_path, size=8, cards=8) as launch:
        wait_until(lambda: is_charted(launch, 8, 8), "all charts")
        launch.stop()
        check_eight(launch)


def find_port() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


@pytest.mark.torch
@pytest.mark.parametrize("options", [("--standalone",), ("--master-addr", "127.0.0.1", "--master-port")])
def test_eight_ranks_of_real_torchrun(tmp_path: Path, options: tuple[str, ...]) -> None:
    """The same as with the environment that it's said to give."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("needs torch")
    launch = Launch(tmp_path, cards=8)
    ports = (find_port(),) if options[-1] == "--master-port" else ()
    command = (sys.executable, "-m", "torch.distributed.run", *options, *ports, "--nproc-per-node", "8")
    process = launch.script.start(*command, str(launch.script.path), environ=launch.environment({}))
    try:
        wait_until(lambda: process.poll() is not None or is_charted(launch, 8, 8), "all charts")
        (tmp_path / "stop").touch()
        out, err = process.communicate(timeout=DEADLINE_SECS)
    finally:
        process.kill()
        process.communicate()
    assert (0, "") == (process.returncode, out), err
    assert "metrana" not in err
    check_eight(launch)
    wait_until(lambda: not launch.script.lock_files(), "the end of the lock files")


@pytest.mark.parametrize("first", ["reporter", "rank"])
def test_what_a_killed_rank_charted_goes_on(tmp_path: Path, first: str) -> None:
    """Whoever reports the node takes over its cards; when that one dies, another takes over the node and all of it."""
    with launched(tmp_path, size=3, cards=3) as launch:
        wait_until(lambda: is_charted(launch, 3, 3), "all charts")
        reporter = launch.rank_of("system/memory/used_bytes")
        assert reporter is not None
        others = [rank for rank in range(3) if rank != reporter]
        killed = [reporter, others[0]] if first == "reporter" else [others[0], reporter]
        for rank in killed:
            launch.kill(rank)
            wait_until(
                lambda rank=rank: (
                    rank  # type: ignore[misc]
                    not in {launch.rank_of("system/memory/used_bytes")}
                    | {launch.rank_of("system/gpu/utilization", gpu=str(card)) for card in range(3)}
                ),
                f"an heir of rank {rank}",
            )
        launch.stop()
        run = launch.run()
        check_series(run, cards=3)
        assert [others[1]] * 4 == [
            launch.rank_of("system/memory/used_bytes"),
            *(launch.rank_of("system/gpu/utilization", gpu=str(card)) for card in range(3)),
        ]


def test_what_a_killed_sampling_child_charted_goes_on(tmp_path: Path) -> None:
    """Its training process lives and gets another child; the node is reported by one of the ranks all the same."""
    with launched(tmp_path, size=2, cards=2) as launch:
        wait_until(lambda: is_charted(launch, 2, 2), "all charts")
        reporter = launch.rank_of("system/memory/used_bytes")
        assert reporter is not None
        (child,) = children_of(launch.ranks[reporter].pid)
        os.kill(child, signal.SIGKILL)
        wait_until(lambda: not is_alive(child), "the child's end")
        run = launch.run()
        last = max(max(times) for times in writers_of(run, "system/cpu/utilization").values())

        def goes_on() -> bool:
            now = launch.run()
            return all(
                max(max(times, default=0.0) for times in found.values()) > last + 1.5
                for found in (writers_of(now, "system/cpu/utilization"), gpu_writers(now, 0), gpu_writers(now, 1))
            )

        wait_until(goes_on, "points of every series")
        launch.stop()
        run = launch.run()
        check_moments(run)


def test_two_launches_on_one_node_dont_see_each_other(tmp_path: Path) -> None:
    """Each charts the node and its cards."""
    with (
        launched(tmp_path / "a", 2, 2, {"METRANA_ORCHESTRATION_ID": f"{tmp_path}/a"}) as first,
        launched(tmp_path / "b", 2, 2, {"METRANA_ORCHESTRATION_ID": f"{tmp_path}/b"}) as second,
    ):
        for launch in (first, second):
            wait_until(lambda launch=launch: is_charted(launch, 2, 2), "all charts")  # type: ignore[misc]
        check_doctor(first, second)
        for launch in (first, second):
            launch.stop()
            check_series(launch.run(), cards=2)
            assert [{0}, {1}] == [set(gpu_writers(launch.run(), card)) for card in range(2)]


MONITOR = """
import json, os, pathlib, time
from metrana.system import SystemMonitor
folder = pathlib.Path(os.environ["METRANA_DIR"]).parent
told, found = set(), folder / os.environ["TOLD"]
def take(batch):
    told.update(f"{name.split('/')[1]}{dict(labels).get('gpu', '')}" for name, labels in batch.series)
    fresh = found.with_suffix(".new")
    fresh.write_text(json.dumps(sorted(told)))
    fresh.replace(found)
monitor = SystemMonitor(take, interval_secs=1.0, run_id=os.environ["KEY"], grace_secs=GRACE)
monitor.start()
while not (folder / "stop").exists(): time.sleep(0.05)
monitor.stop()
"""


def test_rank_0_alone_charts_every_card_after_the_grace(tmp_path: Path) -> None:
    """The others never call init(); a rank that comes late keeps quiet about its card."""
    launch = Launch(tmp_path, cards=4)
    launch.script.path.write_text(MONITOR.replace("GRACE", "1.0"))

    key = secrets.token_hex(8)

    def told(name: str) -> set[str]:
        path = tmp_path / name
        return set(json.loads(path.read_text())) if path.exists() else set()

    try:
        launch.start(0, 4, {"TOLD": "first", "KEY": key})
        node = {"cpu", "memory", "disk", "process", "gpu0", "gpu1", "gpu2", "gpu3"}
        wait_until(lambda: node - {"disk"} <= told("first"), "all cards")
        launch.start(2, 4, {"TOLD": "late", "KEY": key})
        wait_until(lambda: told("late"), "the late rank")
        launch.stop()
        assert {"process"} == told("late")
        assert told("first") <= node
    finally:
        launch.end()


def count_cards(launch: Launch) -> int:
    series = launch.run().series if launch.script.infos() else ()
    return [name for name, _ in series].count("system/gpu/utilization")


def test_containers_with_a_shared_memory_of_their_own_agree_each_by_itself(tmp_path: Path) -> None:
    """One run, and within each container nothing twice."""
    needs_namespaces("-mu")
    launch = Launch(tmp_path, cards=2)
    shell = (
        'mount -t tmpfs tmpfs /dev/shm; hostname "$1"; LOCAL_RANK=0 "$2" "$3" & LOCAL_RANK=1 "$2" "$3"; wait;'
        " ls /dev/shm"
    )
    containers = [
        launch.script.start(
            *("unshare", "-mu", "sh", "-c", shell, "sh", name, sys.executable, str(launch.script.path)),
            environ=launch.environment({"METRANA_ORCHESTRATION_ID": str(tmp_path)}),
        )
        for name in ("one", "two")
    ]
    try:
        wait_until(
            lambda: (
                4
                == [name for name, _ in (launch.run().series if launch.script.infos() else ())].count(
                    "system/gpu/utilization"
                )
            ),
            "the cards of both",
        )
        (tmp_path / "stop").touch()
        assert [("", "")] * 2 == [process.communicate(timeout=DEADLINE_SECS) for process in containers]
    finally:
        (tmp_path / "stop").touch()
        for process in containers:
            process.communicate()
    run = launch.run()
    assert "shm" == run.attributes["system/arbitration_mode"]
    check_moments(run)
    for host in ("one", "two"):
        for name, labels in (("system/memory/used_bytes", {}), ("system/gpu/utilization", {"gpu": "0"})):
            holders = [
                writer
                for writer in run.info.writers
                for (n, own), _ in read_writer(run.info, writer).series.items()
                if n == name and {"host": host, **labels}.items() <= dict(own).items()
            ]
            assert 1 == len(holders), (host, name)


BASE = f"/dev/shm/metrana-{os.geteuid()}"
BARE_DEV = (
    "mkdir {tmp}/dev; mount -t tmpfs tmpfs {tmp}/dev; for n in null zero random urandom; do"
    " touch {tmp}/dev/$n; mount --bind /dev/$n {tmp}/dev/$n; done; mount --move {tmp}/dev /dev"
)
TMPFS = "mount -t tmpfs -o mode=1777 tmpfs /dev/shm"


@pytest.mark.parametrize(
    ("commands", "expected"),
    [
        (f"{TMPFS}; ln -s {{tmp}}/elsewhere {BASE}", "tmp"),
        (f"{TMPFS}; touch {BASE}", "tmp"),
        (f"{TMPFS}; mkdir {BASE}; chown 12345 {BASE}", "tmp"),
        (f"{TMPFS}; mount -o remount,ro /dev/shm", "tmp"),
        (f"{TMPFS}; mount -o remount,nr_inodes=1 /dev/shm", "tmp"),
        (f"{TMPFS}; mount -o remount,size=4k /dev/shm; head -c 4096 /dev/zero > /dev/shm/filler", "shm"),
        (BARE_DEV, "tmp"),
        (f"{BARE_DEV}; export TMPDIR={{tmp}}/nowhere", "unavailable"),
    ],
    ids=["link", "file", "other user", "read-only", "no inode left", "no byte left", "none", "and no temp folder"],
)
def test_a_hostile_shared_memory_harms_no_training(tmp_path: Path, commands: str, expected: str) -> None:
    """The lock files lie elsewhere, or only the process is charted; nothing is told on stderr."""
    needs_namespaces("-mu")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "temp").mkdir()
    last = "system/memory/used_bytes" if expected != "unavailable" else "system/process/rss_bytes"
    is_charted = f"any({last!r} in path.read_text() for path in folder.rglob('*.jsonl'))"
    script = Script(tmp_path, BODY.replace('(folder / "stop").exists()', is_charted))
    look = f"ls -A /dev/shm 2> /dev/null >> {tmp_path}/found || true; echo . >> {tmp_path}/found"
    shell = f'set -e; {commands.format(tmp=tmp_path)}; {look}; "$@"; {look}'
    script.run(
        *("unshare", "-m", "sh", "-c", shell, "sh", sys.executable, str(script.path)),
        environ={"TMPDIR": str(tmp_path / "temp")},
    )
    before, after, _ = (tmp_path / "found").read_text().split(".\n")
    assert before == after
    run = script.stored()
    assert expected == run.attributes["system/arbitration_mode"]
    names = {name for name, _ in run.series}
    assert {"loss", "system/process/rss_bytes"} <= names
    assert (expected != "unavailable") == ("system/memory/used_bytes" in names)
    if expected == "unavailable":
        assert str(run.attributes["system/capture/memory"]).startswith("no folder for lock files: ")
    assert "closed" == run.info.status
    assert [] == [*(tmp_path / "elsewhere").iterdir(), *(tmp_path / "temp").iterdir()]
