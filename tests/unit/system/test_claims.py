"""Claims: each piece of hardware once, whoever comes, goes, dies, or meddles with the files."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from metrana.system.claim import OWNER_BYTES, STATE_BYTES
from metrana.system.claims import Claims, Sole
from metrana.system.collectors.cpu import CpuCollector
from metrana.system.devices import Device, Hint, resolve
from tests.unit.system.played import PlayedHost, build_health, build_tree
from tests.unit.system.ranks import GRACE_SECS, HANDOVER_SECS, KEY, Node


def drives(card: int) -> dict[str, str]:
    """The environment of the rank that drives a card."""
    return {"LOCAL_RANK": str(card)}


def test_one_of_many_reports_the_node(tmp_path: Path) -> None:
    """The first to tick has it, and the others get nothing however often they try."""
    node = Node(tmp_path)
    processes = [node.start() for _ in range(8)]
    for _ in range(3):
        assert [True, *[False] * 7] == [process.tick() for process in processes]
    assert {"shm"} == {process.claims.mode for process in processes}


def test_what_a_dead_reporter_leaves_is_taken_at_the_next_tick(tmp_path: Path) -> None:
    """No release, no waiting: the kernel gives the claim back."""
    node = Node(tmp_path)
    first, second, third = (node.start() for _ in range(3))
    assert [True, False, False] == [first.tick(), second.tick(), third.tick()]
    first.die()
    assert [False, True] == [third.claims.holds_node, second.tick()]
    assert not third.tick()


def test_a_killed_process_gives_its_claims_back(tmp_path: Path) -> None:
    """A real one, by SIGKILL."""
    node = Node(tmp_path, cards=2)
    code = (
        "import sys, time\nfrom metrana.system.claims import Claims\n"
        "from metrana.system.devices import Device, resolve\n"
        f"claims = Claims({KEY!r}, {node.places!r}, {{'pid': 1}}, time.monotonic, 45.0, 2.0)\nclaims.tick(False)\n"
        f"devices = {node.devices!r}\nclaims.choose(resolve({{'LOCAL_RANK': '1'}}, devices), devices)\n"
        "print(claims.holds_node, flush=True)\nsys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        try:
            assert other.stdout is not None
            assert "True\n" == other.stdout.readline()
            process = node.start()
            assert (False, {}) == (process.tick(), process.cards(drives(1)))
        finally:
            other.send_signal(signal.SIGKILL)
    assert (True, {1: "1"}) == (process.tick(), process.cards(drives(1)))


def test_each_rank_reports_the_card_that_it_drives(tmp_path: Path) -> None:
    """Eight ranks, eight cards, one each, long after the grace too."""
    node = Node(tmp_path, cards=8)
    ranks = [node.start() for _ in range(8)]
    for secs in (0.0, 1.0, GRACE_SECS, 1.0):
        node.clock.now += secs
        for rank in ranks:
            rank.tick()
        assert [{n: str(n)} for n in range(8)] == [rank.cards(drives(n)) for n, rank in enumerate(ranks)]


def test_cards_that_nobody_claims_go_to_the_reporter_after_the_grace(tmp_path: Path) -> None:
    """Not before, not to anybody else, and a rank that comes later keeps quiet about its own."""
    node = Node(tmp_path, cards=3)
    reporter, other = node.start(), node.start()
    reporter.tick(), other.tick()
    node.clock.now += GRACE_SECS - 0.1
    assert ({0: "0"}, {}) == (reporter.cards(drives(0)), other.cards({}))
    node.clock.now += 0.2
    assert ({}, {0: "0", 1: "1", 2: "2"}) == (other.cards({}), reporter.cards(drives(0)))
    late = node.start()
    late.tick()
    assert {} == late.cards(drives(2))
    reporter.die()
    late.tick()
    assert {0: "0", 1: "1", 2: "2"} == late.cards(drives(2))


def test_only_the_visible_cards_are_taken_over(tmp_path: Path) -> None:
    """CUDA_VISIBLE_DEVICES says which the reporter may see."""
    node = Node(tmp_path, cards=4)
    process = node.start(grace_secs=0.0)
    process.tick()
    assert {1: "1", 3: "3"} == process.cards({"CUDA_VISIBLE_DEVICES": "3,1"})


def test_what_a_dead_rank_reported_is_gone_on_with_at_once(tmp_path: Path) -> None:
    """Within the grace, and by a reporter that isn't shown the card; a card never claimed is left alone."""
    node = Node(tmp_path, cards=3)
    reporter, rank = node.start(), node.start()
    own = {"CUDA_VISIBLE_DEVICES": "0"}
    reporter.tick(), rank.tick()
    assert ({0: "0"}, {1: "1"}) == (reporter.cards(own), rank.cards({"CUDA_VISIBLE_DEVICES": "1"}))
    rank.die()
    assert {0: "0", 1: "1"} == reporter.cards(own)
    node.clock.now += GRACE_SECS
    assert {0: "0", 1: "1"} == reporter.cards(own)


def test_what_was_given_back_in_order_is_left_alone_for_a_while(tmp_path: Path) -> None:
    """At a run's end its processes leave one by one: the node and the cards don't wander through all of them."""
    node = Node(tmp_path, cards=2)
    first, second = node.start(), node.start()
    first.tick(), second.tick()
    assert ({0: "0"}, {1: "1"}) == (first.cards(drives(0)), second.cards(drives(1)))
    node.clock.now += GRACE_SECS
    first.release()
    node.clock.now += HANDOVER_SECS - 0.1
    assert (False, {1: "1"}) == (second.tick(), second.cards(drives(1)))
    node.clock.now += 0.2
    assert (True, {0: "0", 1: "1"}) == (second.tick(), second.cards(drives(1)))


def test_the_driver_of_a_card_need_not_wait_for_what_was_given_back(tmp_path: Path) -> None:
    """Handing over is for those who'd report somebody else's card."""
    node = Node(tmp_path, cards=2)
    first, second = node.start(), node.start()
    first.tick(), first.cards(drives(0)), second.tick()
    first.release()
    assert {0: "0"} == second.cards(drives(0))


def test_nothing_new_in_the_last_tick(tmp_path: Path) -> None:
    """What a process has it reports to its end; what others have left it doesn't touch any more."""
    node = Node(tmp_path, cards=3)
    first, second, third = node.start(), node.start(), node.start()
    first.tick(), second.tick()
    first.cards(drives(0)), second.cards(drives(1))
    node.clock.now += GRACE_SECS
    first.die()
    assert not second.tick(is_last=True)
    assert {1: "1"} == second.cards(drives(1))
    assert third.tick()
    assert {0: "0", 2: "2"} == third.cards(drives(2))
    second.die()
    assert third.tick(is_last=True)
    assert {0: "0", 2: "2"} == third.cards(drives(2))


def test_a_hint_changes_the_card(tmp_path: Path) -> None:
    """A rank whose framework turns out to drive another card gives the first one back and takes that."""
    node = Node(tmp_path, cards=4)
    reporter, rank = node.start(), node.start()
    reporter.tick(), rank.tick()
    assert {} == rank.cards()
    assert {2: "2"} == rank.cards(hint=Hint("torch", 2))
    assert {3: "3"} == rank.cards(hint=Hint("torch", 3))
    assert {2: "2"} == reporter.cards(hint=Hint("torch", 2))


def test_a_card_cut_up_by_mig_is_nobodys(tmp_path: Path) -> None:
    """Not its driver's, not the reporter's; one that's cut up in mid-run is given back."""
    node = Node(tmp_path, cards=2)
    process = node.start(grace_secs=0.0)
    process.tick()
    assert {0: "0", 1: "1"} == process.cards()
    cut = [Device(0, node.devices[0].uuid, partitioned=True), node.devices[1]]
    assert {1: "1"} == process.cards(devices=cut)
    other = node.start()
    assert {} == other.cards(drives(0), devices=cut)
    assert {0: "0"} == other.cards(drives(0))


@pytest.mark.parametrize(
    ("second", "label"),
    [(Device(0, "GPU-abcdef01-2222"), "0:abcdef01"), (Device(0, pci="00000000:1B:00.0"), "0:00000000:1B:00.0")],
)
def test_two_cards_under_one_number_have_two_labels(tmp_path: Path, second: Device, label: str) -> None:
    """Where each rank is shown its own card only, every card is number 0 to the driver."""
    node = Node(tmp_path)
    devices = [Device(0, "GPU-12345678-1111"), second]
    ranks = [node.start(), node.start()]
    for _ in range(2):
        for rank in ranks:
            rank.tick()
        assert [{0: "0"}, {0: label}] == [
            rank.cards(devices=[device]) for rank, device in zip(ranks, devices, strict=True)
        ]
    third = node.start()
    assert {} == third.cards(devices=[second])


def test_cards_that_tell_no_uuid_are_told_apart_by_their_bus_or_their_number(tmp_path: Path) -> None:
    """An old driver is no reason for a chart twice."""
    node = Node(tmp_path)
    devices = [Device(0), Device(1, pci="00000000:3B:00.0")]
    first, second = node.start(), node.start()
    assert {0: "0"} == first.cards(drives(0), devices=devices)
    assert {1: "1"} == second.cards(drives(1), devices=devices)
    third = node.start()
    assert [{}, {}] == [third.cards(drives(n), devices=devices) for n in (0, 1)]


def test_a_card_whose_uuid_turns_up_later_keeps_its_label(tmp_path: Path) -> None:
    """It had failed to tell it in the first reading."""
    node = Node(tmp_path)
    process = node.start()
    process.tick()
    assert {0: "0"} == process.cards(devices=[Device(0)])
    assert {0: "0"} == process.cards(devices=[Device(0, "GPU-abcdef01-2222")])


def test_names_from_a_driver_stay_within_the_folder(tmp_path: Path) -> None:
    """A UUID is a text like any other: slashes, dots, zeros and length are harmless."""
    node = Node(tmp_path)
    process = node.start()
    for uuid in ("GPU-../../../x", "/etc/passwd", "a\0b", "é" * 500, "x" * 5000):
        assert {0: "0"} == process.cards(devices=[Device(0, uuid)])
    assert [node.shm, node.tmp] == sorted(path for path in tmp_path.iterdir())
    process.release()
    assert [] == [*node.shm.iterdir(), *node.tmp.iterdir()]


def test_a_folder_deleted_under_the_run_is_made_anew(tmp_path: Path) -> None:
    """As a clean-up at a logout does it: each process claims anew at its next tick, and each thing has one reporter."""
    node = Node(tmp_path, cards=2)
    ranks = [node.start(grace_secs=0.0), node.start(grace_secs=0.0)]
    for n, rank in enumerate(ranks):
        rank.tick(), rank.cards(drives(n))
    shutil.rmtree(node.run_folder.parent)
    for _ in range(2):
        found = [rank.tick() for rank in reversed(ranks)]
        cards = [rank.cards(drives(n)) for n, rank in enumerate(ranks)]
        assert [True, False] == found
        assert [0, 1] == sorted(card for own in cards for card in own)
    assert {"shm"} == {rank.claims.mode for rank in ranks}
    for rank in ranks:
        rank.release()
    assert [] == list(node.shm.iterdir())


def test_a_single_file_deleted_under_the_run_has_one_holder_again(tmp_path: Path) -> None:
    """As a sweeper of old files does it: whoever held the deleted one isn't the reporter any more."""
    node = Node(tmp_path, cards=2)
    first, second = node.start(grace_secs=0.0), node.start(grace_secs=0.0)
    first.tick(), second.tick()
    assert {0: "0", 1: "1"} == first.cards(drives(0))
    for path in node.run_folder.iterdir():
        if path.name != "present":
            path.unlink()
    for _ in range(2):
        assert (True, {0: "0", 1: "1"}) == (second.tick(), second.cards(drives(1)))
        assert (False, {}) == (first.tick(), first.cards(drives(0)))


def test_an_abandoned_child_no_longer_counts(tmp_path: Path) -> None:
    """It hangs in a driver with its locks: the child in its place goes on; nobody else may."""
    node = Node(tmp_path, cards=1)
    stuck = node.start()
    assert (True, {0: "0"}) == (stuck.tick(), stuck.cards(drives(0)))
    other = node.start()
    assert (False, {}) == (other.tick(), other.cards(drives(0)))
    owner = {**stuck.owner, "child": 300}
    places = node.places
    resolution = resolve(drives(0), node.devices)
    stranger = Claims(KEY, places, {**owner, "pid": 999}, node.clock, 0.0, HANDOVER_SECS, [stuck.owner["child"]])  # type: ignore[list-item]
    stranger.tick(False)
    assert (False, {}) == (stranger.holds_node, stranger.choose(resolution, node.devices))
    heir = Claims(KEY, places, owner, node.clock, 0.0, HANDOVER_SECS, [stuck.owner["child"]])  # type: ignore[list-item]
    heir.tick(False)
    assert (True, {0: "0"}) == (heir.holds_node, heir.choose(resolution, node.devices))
    assert (False, {}) == (other.tick(), other.cards(drives(0)))
    # Should it wake up for a moment, it sees that it has lost.
    assert (False, {}) == (stuck.tick(), stuck.cards(drives(0)))
    for claims in (stranger, heir):
        claims.release()


def test_the_next_reporter_has_a_rate_with_its_first_reading(tmp_path: Path) -> None:
    """The CPU counters are handed down: over the takeover, too, the rate is that of the whole time since."""
    files = {
        "proc/self/cgroup": "0::/a\n",
        "proc/self/mountinfo": "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        "sys/fs/cgroup/a/cpu.max": "200000 100000\n",
        "sys/fs/cgroup/a/cpu.stat": "usage_usec 5000000\n",
    }
    host = PlayedHost(build_tree(tmp_path / "machine", files))
    node = Node(tmp_path)
    first, second = node.start(), node.start()
    first.tick(), second.tick()
    assert {} == first.claims.inherited()
    collector = CpuCollector(host, build_health())
    assert [] == collector.collect()
    first.claims.hand_down({"cpu": collector.hand_down()})
    first.die()
    build_tree(tmp_path / "machine", {"sys/fs/cgroup/a/cpu.stat": "usage_usec 6000000\n"})
    host.move_on(2.0)
    assert {} == second.claims.inherited()
    assert second.tick()
    successor = CpuCollector(host, build_health())
    successor.resume(second.claims.inherited()["cpu"])
    assert [25.0] == [sample.value for sample in successor.collect()]
    assert {} == second.claims.inherited()


@pytest.mark.parametrize(
    "left",
    [None, 3, "x", [], [1.0], ["x", [1.0], []], [0.0, [1.0, "x"], []], [1e18, [1.0, 0.0], []], [-1e9, [1.0, 0.0], []],
     [float("nan"), [1.0, 0.0], []], [0.0, [], []], [0.0, [1.0], ["quota"]], [10**400, [1.0, 0.0], []], {}],
)  # fmt: skip
def test_what_was_handed_down_may_be_anything(tmp_path: Path, left: object) -> None:
    """What makes no sense is ignored: at worst there's no rate with the first reading."""
    files = {
        "proc/self/cgroup": "0::/a\n",
        "proc/self/mountinfo": "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        "sys/fs/cgroup/a/cpu.max": "200000 100000\n",
        "sys/fs/cgroup/a/cpu.stat": "usage_usec 5000000\n",
    }
    host = PlayedHost(build_tree(tmp_path, files))
    collector = CpuCollector(host, build_health())
    collector.resume(left)
    assert [] == collector.collect()
    host.move_on(2.0)
    assert [0.0] == [sample.value for sample in collector.collect()]


def garbage() -> list[bytes]:
    chance = random.Random(5)
    texts = [
        b"",
        b"\0" * 600,
        b"null",
        b"[]",
        b"{",
        b"[" * OWNER_BYTES + b"[" * STATE_BYTES,
        b"\xff\xfe" * 3000,
        b'{"released": "soon"}',
        b'{"released": null, "pid": []}',
        b'{"released": 1e308}',
        b'{"released": NaN, "child": {}}',
        b'{"released": ' + b"9" * 400 + b"}",
        json.dumps({"pid": -1, "released": True}).encode(),
        b" " * OWNER_BYTES + b'{"cpu": 7}',
    ]
    return texts + [chance.randbytes(length) for length in (1, 511, 512, 513, 10_000)]


@pytest.mark.parametrize("content", garbage())
@pytest.mark.parametrize("is_locked", [True, False])
def test_whatever_stands_in_a_lock_file_is_harmless(tmp_path: Path, content: bytes, is_locked: bool) -> None:
    """It's the lock that counts: who holds it reports, and who gets it goes on."""
    node = Node(tmp_path, cards=2)
    first = node.start(grace_secs=0.0)
    first.tick(), first.cards()
    for path in node.run_folder.iterdir():
        path.write_bytes(content)
    second = node.start(grace_secs=0.0, abandoned=[7, 201])
    if is_locked:
        assert (False, {}) == (second.tick(), second.cards())
        assert (True, {0: "0", 1: "1"}) == (first.tick(), first.cards())
    first.die()
    assert (True, {0: "0", 1: "1"}) == (second.tick(), second.cards())
    assert isinstance(second.claims.inherited(), dict)
    second.release()
    assert [] == list(node.shm.iterdir())


def test_a_huge_lock_file_is_harmless(tmp_path: Path) -> None:
    """No more than the first pages of it are ever read."""
    node = Node(tmp_path)
    first = node.start()
    first.tick()
    os.truncate(node.run_folder / "node", 1 << 40)
    first.die()
    second = node.start()
    assert second.tick()
    assert {} == second.claims.inherited()


def test_two_runs_dont_see_each_other(tmp_path: Path) -> None:
    """Each has its own folder, its own reporter and its own claims on every card."""
    node = Node(tmp_path, cards=2)
    runs = [node.start(key=digit * 16, grace_secs=0.0) for digit in "ab"]
    assert [True, True] == [process.tick() for process in runs]
    assert [{0: "0", 1: "1"}] * 2 == [process.cards() for process in runs]
    runs[0].release()
    assert runs[1].tick()
    runs[1].release()
    assert [] == list(node.shm.iterdir())


@pytest.mark.parametrize("key", ["", "../../../etc", "0123456789abcdeg", "0123456789ABCDEF", "0" * 15, "0" * 17, "/"])
def test_a_key_that_is_no_run_id_touches_nothing(tmp_path: Path, key: str) -> None:
    """Then there's no agreeing, and the processes alone are charted."""
    node = Node(tmp_path, cards=1)
    process = node.start(key=key, grace_secs=0.0)
    assert (False, {}) == (process.tick(), process.cards())
    assert ("unavailable", False) == (process.claims.mode, process.claims.may_report_devices)
    assert "is no run key" in process.claims.reason
    process.claims.hand_down({"cpu": 1})
    process.release()
    process.claims.leave()
    assert [] == [*node.shm.iterdir(), *node.tmp.iterdir()]


def test_without_descriptors_nothing_is_lost_but_the_moment(tmp_path: Path) -> None:
    """A process whose file can't be opened tries again at its next tick."""
    node = Node(tmp_path, cards=1)
    process = node.start(grace_secs=0.0)
    (node.run_folder / "node").mkdir()
    (node.run_folder / f"gpu-{node.devices[0].uuid}").mkdir()
    assert (False, {}) == (process.tick(), process.cards(drives(0)))
    (node.run_folder / "node").rmdir()
    (node.run_folder / f"gpu-{node.devices[0].uuid}").rmdir()
    assert (True, {0: "0"}) == (process.tick(), process.cards(drives(0)))


def test_leaving_after_the_training_process_leaves_nothing(tmp_path: Path) -> None:
    """The last child to leave deletes the folder, also without giving anything back in order."""
    node = Node(tmp_path, cards=1)
    first, second = node.start(), node.start()
    first.tick(), second.tick(), first.cards(drives(0))
    first.leave()
    first.die()
    # At once: nothing was given back in order.
    assert (True, {0: "0"}) == (second.tick(), second.cards({"CUDA_VISIBLE_DEVICES": ""}))
    second.leave()
    assert [] == list(node.shm.iterdir())


def test_alone_a_process_reports_what_is_its_own(tmp_path: Path) -> None:
    """Without a run there's nobody to agree with."""
    devices = [Device(0), Device(1), Device(2, partitioned=True)]
    sole = Sole()
    assert {0: "0", 1: "1"} == sole.choose(resolve({}, devices), devices)
    assert {1: "1"} == sole.choose(resolve(drives(1), devices), devices)
    assert ("none", True, {}) == (sole.mode, sole.holds_node, sole.inherited())
