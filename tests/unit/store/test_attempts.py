"""What a training resumed from a checkpoint has logged again: the later attempt supersedes the earlier ones."""

from __future__ import annotations

import random
from pathlib import Path
from typing import cast

import pytest

from metrana.data import RunData
from metrana.extras import has_package
from metrana.store.attempts import number_attempts
from metrana.store.catalog import find_run, find_runs
from metrana.store.ends import CLOSED, ENDED, RUNNING, WriterInfo
from metrana.store.reading import PlainReading, Reading
from metrana.store.run_info import RunInfo
from tests.unit.store.build import T0, declare, end, head, points, put, put_attempt, resumed

HAS_NUMPY = has_package("numpy")
if HAS_NUMPY:
    from metrana.store.index import RunIndex
needs_numpy = pytest.mark.skipif(not HAS_NUMPY, reason="NumPy isn't installed")

Point = tuple[float, int, float]


def writer(
    folder: str,
    started: float,
    last: float,
    *,
    rank: int | None = None,
    resumed: bool = True,
    forked: bool = False,
    status: str = ENDED,
    attempt: int | None = None,
) -> WriterInfo:
    return WriterInfo(folder, (), "node7", 42, rank, started, last, status, resumed, forked, attempt)


def open_both(info: RunInfo) -> list[Reading]:
    """Each reader that there is."""
    return [PlainReading(info), *([cast(Reading, RunIndex.open(info))] if HAS_NUMPY else [])]


@pytest.mark.parametrize(
    ("expected", "writers"),
    [
        ([0, 1, 2], [writer("a", 0, 5, resumed=False), writer("b", 10, 15), writer("c", 20, 25)]),
        ([0, 0], [writer("a", 0, 30, resumed=False), writer("b", 10, 15)]),
        ([0, 0], [writer("a", 0, 5, resumed=False), writer("b", 10, 15, resumed=False)]),
        ([0, 1, 1], [writer("a", 0, 5, resumed=False), writer("b", 10, 40), writer("c", 12, 42)]),
        ([0, 0, 1, 1], [
            writer("a", 0, 5, rank=0, resumed=False), writer("b", 1, 6, rank=1, resumed=False),
            writer("c", 10, 15, rank=1, resumed=False), writer("d", 11, 15, rank=0, resumed=False),
        ]),
        ([0, 0], [writer("a", 0, 90, rank=0, resumed=False), writer("b", 10, 15, rank=0, resumed=False)]),
        ([0, 1], [writer("a", 0, 5, resumed=False, status=RUNNING), writer("b", 10, 15)]),
        ([0, 1, 1, 2], [
            writer("a", 0, 5, attempt=0), writer("b", 10, 90, attempt=1), writer("c", 3, 4, attempt=1),
            writer("d", 20, 25, attempt=2),
        ]),
        ([0, 1, 2, 2], [
            writer("a", 0, 5, resumed=False), writer("b", 10, 15), writer("c", 20, 25, attempt=1),
            writer("d", 30, 35, attempt=1),
        ]),
        ([0, 1, 1], [writer("a", 0, 5, resumed=False), writer("b", 10, 15), writer("c", 20, 25, forked=True)]),
    ],
)  # fmt: skip
def test_writers_make_attempts(expected: list[int], writers: list[WriterInfo]) -> None:
    """Resumed launches, ranks, launchers' restarts, workers under an inherited rank, forked copies, and what heads say.

    Whether a writer seems to live changes nothing.
    """
    assert expected == list(number_attempts(writers).values())


@pytest.mark.parametrize("labels", [{}, {"policy": "greedy"}])
@pytest.mark.parametrize("is_closed", [True, False])
def test_each_step_counts_once_from_the_newest_attempt(tmp_path: Path, labels: dict[str, str], is_closed: bool) -> None:
    """Resumed twice from checkpoints; both readers, and all of it where that's asked for."""
    for number, steps in enumerate((range(16), range(10, 30), range(20, 40))):
        put_attempt(tmp_path, number, steps, labels=labels, is_closed=is_closed)
    expected = [(step, 1000.0 * number + step) for number, steps in
                enumerate((range(10), range(10, 20), range(20, 40))) for step in steps]  # fmt: skip
    info = find_run(str(tmp_path), "train")
    for reading in open_both(info):
        (series,) = reading.series
        found = reading.read(series)
        assert expected == list(zip(found.steps, found.values, strict=True))
        assert (40, 2039.0, 0.0, 2039.0) == (series.count, series.last_value, series.low, series.high)
        (whole,) = reading.everything.series
        assert (56, 56) == (whole.count, len(reading.everything.read(whole).values))
    (selected,) = RunData(info).series("loss", superseded=True).to_lists()
    assert 56 == len(selected)
    if not HAS_NUMPY:
        return
    buckets = RunIndex.open(info).buckets(RunIndex.open(info).series[0], 0, 39, 40, by="step")
    assert [value for _, value in expected] == buckets.high.tolist()


@needs_numpy
def test_what_is_superseded_is_charted_by_attempt(tmp_path: Path) -> None:
    """Each attempt's points that don't count, apart, in buckets; nothing where all count."""
    for number, steps in enumerate((range(16), range(10, 30), range(5, 8))):
        put_attempt(tmp_path, number, steps)
    index = RunIndex.open(find_run(str(tmp_path), "train"))
    (series,) = index.series
    found = index.superseded_bands([series], 0, 40, 40, by="step")
    expected = [[float(step) for step in range(5, 16)], [1000.0 + step for step in range(10, 30)]]
    assert expected == [one.mean.tolist() for one in found]
    left = index.find_superseded(series)
    assert left is not None
    assert (31, 5, 29) == (left.count, left.lowest_step, left.highest_step)
    put_attempt(tmp_path / "other", 0, range(16))
    whole = RunIndex.open(find_run(str(tmp_path / "other"), "train"))
    assert (None, []) == (
        whole.find_superseded(whole.series[0]),
        whole.superseded_bands(whole.series, 0, 40, 40),
    )


def test_the_hardware_is_never_superseded(tmp_path: Path) -> None:
    """A tick of the first attempt stays, whatever its number."""
    put_attempt(tmp_path, 0, range(10), name="system/cpu/utilization")
    put_attempt(tmp_path, 1, range(5, 15), name="system/cpu/utilization")
    info = find_run(str(tmp_path), "train")
    assert {20} == {reading.series[0].count for reading in open_both(info)}


def test_an_attempt_that_begins_while_a_reader_follows_is_told(tmp_path: Path) -> None:
    """refresh() takes it in, and what counted before no longer does."""
    put_attempt(tmp_path, 0, range(16))
    info = find_run(str(tmp_path), "train")
    readings = open_both(info)
    put_attempt(tmp_path, 1, range(10, 12))
    for reading in readings:
        assert reading.refresh()
        assert (12, 1011.0) == (reading.series[0].count, reading.series[0].last_value)


@pytest.mark.parametrize("seed", range(40))
def test_the_readers_agree_with_a_plain_rule(tmp_path: Path, seed: int) -> None:
    """A point counts where no later attempt has logged its step or an earlier one in its series."""
    chance = random.Random(seed)
    written: dict[str, list[list[Point]]] = {"loss": [], "lr": []}
    for attempt in range(chance.randint(1, 5)):
        start = T0 + 1000 * attempt
        lines = [head(t=start, pid=42 + attempt), declare(1, "loss"), declare(2, "lr")]
        lines[0] = resumed(lines[0]) if attempt else lines[0]
        for name, number in (("loss", 1), ("lr", 2)):
            own = []
            for place in range(chance.randint(0, 30)):
                own.append((start + 1 + place, chance.randint(0, 40), chance.random()))
                lines.append(points(own[-1][0], own[-1][1], {number: own[-1][2]}))
            written[name].append(own)
        put(tmp_path, *lines, end(start + 100), writer=f"node7-{42 + attempt}-{attempt}")
    expected = {}
    for name, attempts in written.items():
        kept = [
            point
            for number, own in enumerate(attempts)
            for point in own
            if all(point[1] < step for later in attempts[number + 1 :] for _, step, _ in later)
        ]
        if kept:
            expected[name] = sorted(kept)
    info = find_runs(str(tmp_path))[0]
    for reading in open_both(info):
        found = {}
        for series in reading.series:
            own = reading.read(series)
            found[series.name] = list(zip(own.times, own.steps, own.values, strict=True))
        assert expected == found
    assert all(PlainReading(info).series == reading.series for reading in open_both(info))
    assert CLOSED == info.status


@pytest.mark.parametrize("skew", [-3600.0, 0.0, 3600.0])
def test_attempts_are_in_order_on_hosts_whose_clocks_differ(tmp_path: Path, skew: float) -> None:
    """Each step once, in order; the last value is the newest attempt's, whatever the clocks say, and after a copy."""
    for attempt, host, first in ((0, "node7", 0), (1, "node8", 10), (2, "node7", 15)):
        start = T0 + 100 * attempt + skew * (host == "node8")
        lines = [resumed(head(t=start, host=host, pid=42 + attempt, rank=0), attempt), declare(1, "loss")]
        lines += [points(start + place, first + place, {1: 100.0 * attempt + first + place}) for place in range(20)]
        put(tmp_path, *lines, writer=f"{host}-{42 + attempt}-1")
    info = find_run(str(tmp_path), "train")
    expected = [float(step) for step in range(10)] + [110.0 + step for step in range(5)]
    expected += [215.0 + step for step in range(20)]
    readings = open_both(info)
    for reading in readings:
        (series,) = reading.series
        found = reading.read(series)
        assert (list(range(35)), expected) == (list(found.steps), list(found.values))
        assert (0, 34, 234.0) == (series.first_step, series.last_step, series.last_value)
        assert (min(found.times), max(found.times)) == (series.first_time, series.last_time)
        bounds = (T0 + 100 + skew, T0 + 104 + skew)
        assert expected[10:15] == [value for value in reading.read(series, *bounds).values if 100 < value < 200]
    whole = [reading.everything.read(reading.everything.series[0]) for reading in readings]
    assert 60 == len(whole[0].values)
    for reading, points_of in zip(readings, whole, strict=True):
        assert list(whole[0].values) == list(points_of.values)
        assert readings[0].everything.series == reading.everything.series
    if HAS_NUMPY:
        index = RunIndex.open(info)
        assert expected == index.buckets(index.series[0], 0, 34, 35, by="step").high.tolist()


@needs_numpy
def test_a_head_that_comes_late_says_of_which_attempt_its_writer_is(tmp_path: Path) -> None:
    """A file server may show a folder and its first bytes before the rest of them."""
    put_attempt(tmp_path, 0, range(10))
    late = [resumed(head(t=T0 + 1000, pid=43), 1), declare(1, "loss"), points(T0 + 1001, 5, {1: 7.0})]
    path = put(tmp_path, late[0][:40], writer="node7-43-1")
    index = RunIndex.open(find_run(str(tmp_path), "train"))
    assert 10 == index.series[0].count
    path.write_bytes(b"".join(late))
    assert index.refresh()
    assert (6, 7.0) == (index.series[0].count, index.series[0].last_value)


@needs_numpy
def test_what_is_left_of_an_ended_attempt_is_cut_once(tmp_path: Path) -> None:
    """A run that's followed grows by its newest attempt alone."""
    put_attempt(tmp_path, 0, range(100))
    put_attempt(tmp_path, 1, range(50, 60), is_closed=False)
    info = find_run(str(tmp_path), "train")
    index = RunIndex.open(info)
    before = index._by_key["loss", ()].pieces[0]
    with open(info.writers[1].segments[0], "ab") as file:
        file.write(points(T0 + 1100, 60, {1: 3.0}))
    assert index.refresh()
    assert (61, 3.0) == (index.series[0].count, index.series[0].last_value)
    assert before is index._by_key["loss", ()].pieces[0]
