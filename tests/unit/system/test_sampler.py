"""The sampler: a grid that doesn't drift, one timestamp a tick, and failures that cost no more than themselves."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import pytest

from metrana.errors import ReadFailed, Unavailable
from metrana.model import Batch, Kind, Metric, Sample, Scope
from metrana.system.health import Health
from metrana.system.host import Host
from metrana.system.sampler import Sampler
from tests.scripts import DEADLINE_SECS, wait_until
from tests.unit.system.ranks import Clock

NODE = Metric("system/node/value", "bytes", Kind.GAUGE, Scope.NODE, "A value of the node.")
OWN = Metric("system/process/value", "bytes", Kind.GAUGE, Scope.PROCESS, "A value of the process.")
DEVICE = Metric("system/gpu/value", "bytes", Kind.GAUGE, Scope.DEVICE, "A value of a card.")


class Node:
    """Costs time at each reading, as the real ones do."""

    name = "node"
    metrics = (NODE,)
    work: Callable[[], None] = staticmethod(lambda: None)

    def __init__(self, host: Host, health: Health) -> None:
        pass

    def collect(self) -> list[Sample]:
        type(self).work()
        return [Sample(NODE, 1.0)]

    def attributes(self) -> dict[str, object]:
        return {"system/node/fact": 1}


class Devices(Node):
    """Two cards and the process itself."""

    name = "devices"

    def collect(self) -> list[Sample]:
        return [Sample(DEVICE, 1.0, (("gpu", "0"),)), Sample(DEVICE, 2.0, (("gpu", "3"),)), Sample(OWN, 3.0)]


class Absent(Node):
    """There's no such thing on this machine."""

    name = "absent"

    def __init__(self, host: Host, health: Health) -> None:
        raise Unavailable("no such thing")


class Broken(Node):
    """Can't be built, or fails at each reading."""

    name = "broken"

    def collect(self) -> list[Sample]:
        raise ReadFailed("no answer")


class Bug(Node):
    """A fault of our own."""

    name = "bug"

    def __init__(self, host: Host, health: Health) -> None:
        raise ZeroDivisionError("division by zero")


class Recorder:
    """A sampler with a clock of its own, and all that it says."""

    def __init__(
        self,
        *collectors: type[Node],
        interval_secs: float = 1.0,
        first_step: int = 0,
        claims: Any = None,
        left_out: dict[str, str] | None = None,
        start: float | None = None,
    ) -> None:
        self.clock = Clock()
        self.batches: list[Batch] = []
        self.attributes: dict[str, object] = {}
        self.warnings: list[str] = []
        host = Host(environ={}, pid=42, hostname="node7", monotonic=self.clock, time=self.clock)
        self.sampler = Sampler(
            host,
            interval_secs,
            self.batches.append,
            self.attributes.update,
            self.warnings.append,
            first_step,
            tuple((c.name, f"{c.__module__}:{c.__qualname__}", c.metrics[0].scope) for c in collectors),
            claims=claims,
            left_out=left_out,
            start=start,
        )

    def run(self, ticks: int, late_secs: Callable[[], float] = lambda: 0.0) -> str | None:
        """As many ticks on the grid, each woken a little late, and the last one after the stop."""
        left = ticks - 1

        def wait(until: float) -> bool:
            nonlocal left
            self.clock.now = max(self.clock.now, until + late_secs())
            left -= 1
            return left < 0

        return self.sampler.run(wait)


def test_an_hour_of_ticks_stays_on_the_grid() -> None:
    """Tick n falls at start + n x interval within 20 ms, whatever each one costs: nothing adds up."""
    chance = random.Random(7)
    recorder = Recorder(Node)

    def work() -> None:
        recorder.clock.now += chance.uniform(0.0, 0.4)

    Node.work = staticmethod(work)
    try:
        recorder.run(3600, late_secs=lambda: chance.uniform(0.0, 0.019))
    finally:
        Node.work = staticmethod(lambda: None)
    on_grid = recorder.batches[:-1]
    assert 3600 == len(on_grid)
    assert max(abs(batch.timestamp - 1000.0 - n) for n, batch in enumerate(on_grid)) <= 0.02


def test_a_tick_that_outlasts_its_interval_skips_what_it_missed() -> None:
    """No storm of late ticks afterwards, and the grid is kept."""
    recorder = Recorder(Node)
    costs = iter([0.1, 3.5, 0.1, 0.1, 0.1])

    def work() -> None:
        recorder.clock.now += next(costs)

    Node.work = staticmethod(work)
    try:
        recorder.run(4)
    finally:
        Node.work = staticmethod(lambda: None)
    assert [0.0, 1.0, 5.0, 6.0] == [batch.timestamp - 1000.0 for batch in recorder.batches[:-1]]
    assert [0, 1, 2, 3, 4] == [batch.step for batch in recorder.batches]


def test_a_run_shorter_than_an_interval_has_a_first_and_a_last_tick() -> None:
    """The first one at once, the last one at the stop."""
    recorder = Recorder(Node, interval_secs=30.0)
    assert recorder.run(1) is None
    assert 2 == len(recorder.batches)


def test_a_trial_of_twenty_seconds_has_a_chart() -> None:
    """With the default interval it has seven points: the first, five of the dense first minute, and the last."""
    recorder = Recorder(Node, interval_secs=30.0)
    ends = recorder.clock.now + 20.0

    def wait(until: float) -> bool:
        recorder.clock.now = min(until, ends)
        return until > ends

    assert recorder.sampler.run(wait) is None
    assert [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 20.0] == [batch.timestamp - 1000.0 for batch in recorder.batches]


def test_steps_go_on_from_the_first_one() -> None:
    """A resumed run's counter continues."""
    recorder = Recorder(Node, first_step=7)
    recorder.run(2)
    assert [7, 8, 9] == [batch.step for batch in recorder.batches]


def test_labels_follow_the_scope() -> None:
    """host on every series, gpu on those of a card, pid on those of the process."""
    recorder = Recorder(Node, Devices)
    recorder.run(1)
    assert [
        ("system/node/value", (("host", "node7"),), 1.0),
        ("system/gpu/value", (("gpu", "0"), ("host", "node7")), 1.0),
        ("system/gpu/value", (("gpu", "3"), ("host", "node7")), 2.0),
        ("system/process/value", (("host", "node7"), ("pid", "42")), 3.0),
    ] == recorder.batches[0].points


def test_every_missing_chart_is_explained() -> None:
    """system/capture/<collector> is ok, or says why; a collector's own facts come with it."""
    recorder = Recorder(Node, Absent, Bug)
    recorder.run(1)
    assert {
        "system/capture/node": "ok",
        "system/capture/absent": "no such thing",
        "system/capture/bug": "can't be started: division by zero",
        "system/node/fact": 1,
    }.items() <= recorder.attributes.items()
    assert [] == recorder.warnings


def test_a_collector_that_cannot_be_imported_costs_only_itself() -> None:
    """A package that isn't there, or is broken."""
    recorder = Recorder(Node)
    sampler = Sampler(
        Host(environ={}, pid=42, hostname="h", monotonic=recorder.clock, time=recorder.clock),
        1.0,
        recorder.batches.append,
        recorder.attributes.update,
        recorder.warnings.append,
        0,
        (("gone", "metrana.system.collectors.gone:Gone", Scope.NODE), ("node", f"{__name__}:Node", Scope.NODE)),
    )
    sampler.run(lambda until: True)
    assert 2 == len(recorder.batches)
    assert "can't be imported" in str(recorder.attributes["system/capture/gone"])


def test_a_collector_that_fails_five_times_is_left_out_and_the_others_go_on() -> None:
    """One warning, and the attribute says it."""
    recorder = Recorder(Node, Broken)
    recorder.run(8)
    assert (9, 1) == (len(recorder.batches), len(recorder.warnings))
    assert "failed 5 times in a row: no answer" == recorder.attributes["system/capture/broken"]


def test_a_bad_start_is_not_for_good() -> None:
    """What fails through the dense first seconds and then answers is charted; what goes on failing is dropped."""
    recorder = Recorder(Node, Broken, interval_secs=30.0)

    def work() -> None:
        if recorder.clock.now < 1020.0:
            raise ReadFailed("not awake yet")

    Node.work = staticmethod(work)
    try:
        recorder.run(9)
        assert [30.0, 60.0, 90.0, 120.0] == [batch.timestamp - 1000.0 for batch in recorder.batches]
        assert "ok" == recorder.attributes["system/capture/node"]
        assert "failed 5 times in a row: no answer" == recorder.attributes["system/capture/broken"]
    finally:
        Node.work = staticmethod(lambda: None)


def test_capture_ends_when_nothing_is_left() -> None:
    """Five failed ticks in a row are the end of it."""
    recorder = Recorder(Broken)
    assert recorder.run(20) is not None
    assert [] == recorder.batches


@pytest.mark.parametrize("collectors", [(), (Absent,)])
def test_a_machine_with_nothing_to_read_ends_capture_at_once(collectors: tuple[type[Node], ...]) -> None:
    """No loop over nothing."""
    recorder = Recorder(*collectors)
    assert recorder.run(20) is not None


class Claimed:
    """Claims as a test wants them."""

    mode = "shm"
    may_report_devices = True
    waits = False
    reason = "no folder for lock files"

    def __init__(self, holds_node: bool = False, may_report_devices: bool = True) -> None:
        self.holds_node = holds_node
        self.may_report_devices = may_report_devices
        self.handed_down: list[object] = []

    def tick(self, is_last: bool) -> None:
        pass

    def inherited(self) -> dict[str, object]:
        return {}

    def hand_down(self, state: object) -> None:
        self.handed_down.append(state)

    def release_cards(self) -> None:
        pass


class Own(Node):
    """The process's own."""

    name = "own"
    metrics = (OWN,)

    def collect(self) -> list[Sample]:
        return [Sample(OWN, 3.0)]


def test_a_process_without_the_node_reports_itself_alone() -> None:
    """And says nothing of what others report; it goes on to wait for the node."""
    recorder = Recorder(Node, Own, claims=Claimed())
    assert recorder.run(2) is None
    assert {"system/process/value"} == {name for batch in recorder.batches for name, _, _ in batch.points}
    assert "system/capture/node" not in recorder.attributes


def test_a_process_takes_the_node_over_in_the_middle() -> None:
    """Its series begin at that tick, in the same batch as the process's."""
    claims = Claimed()
    recorder = Recorder(Node, Own, claims=claims)
    recorder.sampler.tick()
    claims.holds_node = True
    assert 2 == len(recorder.sampler.tick().values)
    assert "ok" == recorder.attributes["system/capture/node"]
    claims.holds_node = False
    assert 1 == len(recorder.sampler.tick().values)


def test_without_an_agreement_only_the_process_is_charted() -> None:
    """Every other chart says why it's missing."""
    recorder = Recorder(Node, Own, claims=Claimed(may_report_devices=False))
    recorder.run(1)
    assert "no folder for lock files" == recorder.attributes["system/capture/node"]
    assert "ok" == recorder.attributes["system/capture/own"]


def test_what_is_left_out_is_not_built_and_says_why() -> None:
    """A driver that crashed twice isn't asked again."""
    recorder = Recorder(Node, Bug, left_out={"bug": "crashed twice"})
    recorder.run(1)
    assert "crashed twice" == recorder.attributes["system/capture/bug"]
    assert [] == recorder.warnings


def test_a_successor_goes_on_with_the_grid() -> None:
    """Its first tick comes at once, the next one where its predecessor's would have been."""
    recorder = Recorder(Node, start=997.5)
    recorder.run(2)
    assert [0.0, 0.5] == [batch.timestamp - 1000.0 for batch in recorder.batches[:2]]


def test_the_way_of_agreeing_is_told_when_it_changes() -> None:
    """Lock files that are deleted may come to lie elsewhere."""
    claims = Claimed()
    recorder = Recorder(Own, claims=claims)
    told = []
    for mode in ("shm", "shm", "tmp"):
        claims.mode = mode
        recorder.sampler.tick()
        recorder.clock.now += 1.0
        told.append(recorder.attributes.pop("system/arbitration_mode", None))
    assert ["shm", None, "tmp"] == told


class Slow(Node):
    """A driver that answers when it's let."""

    name = "slow"
    metrics = (DEVICE,)
    gate = threading.Event()

    def collect(self) -> list[Sample]:
        assert type(self).gate.wait(DEADLINE_SECS)
        return [Sample(DEVICE, 7.0, (("gpu", "0"),))]


def test_a_late_answer_keeps_its_own_ticks_time() -> None:
    """It's sent by itself, with the step and the timestamp of the tick that asked; no step comes twice."""
    recorder = Recorder(Node, Slow)
    first = recorder.sampler.tick()
    recorder.clock.now += 1.0
    second = recorder.sampler.tick()
    Slow.gate.set()
    wait_until(lambda: not recorder.sampler._devices.is_busy, "the driver's answer")
    recorder.clock.now += 1.0
    third = recorder.sampler.tick()
    (late,) = recorder.batches
    assert (1000.0, 0, (7.0,)) == (late.timestamp, late.step, late.values)
    assert [(0, 1), (1, 1), (2, 2)] == [(batch.step, len(batch.values)) for batch in (first, second, third)]


class Exiting(Node):
    """A library that ends the process that imports it."""

    name = "exiting"

    def __init__(self, host: Host, health: Health) -> None:
        raise SystemExit(1)


class ExitingDevices(Exiting):
    """The same in the thread that reads the driver."""

    metrics = (DEVICE,)


@pytest.mark.parametrize("exiting", [Exiting, ExitingDevices])
def test_a_library_that_exits_while_it_is_loaded_is_left_out(exiting: type[Node]) -> None:
    """It's loaded once, and why it's missing is told."""
    recorder = Recorder(Node, exiting)

    def is_told() -> bool:
        recorder.sampler.tick()
        return recorder.attributes.get("system/capture/exiting") == "can't be started: raised SystemExit"

    wait_until(is_told, "the reason")
    assert [] == recorder.warnings


def test_a_failure_of_the_rest_costs_no_card() -> None:
    """The driver's values are kept where the collector of the loop fails."""
    Slow.gate.set()
    recorder = Recorder(Broken, Slow)
    assert (7.0,) == recorder.sampler.tick().values
