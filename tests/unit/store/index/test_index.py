"""The index says what the lines say, however it came to know them."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

np = pytest.importorskip("numpy", reason="NumPy isn't installed")

from metrana.store import lines as lines_module  # noqa: E402
from metrana.store.catalog import find_run, find_runs  # noqa: E402 - after the skip
from metrana.store.index import RunIndex, intake, state  # noqa: E402
from metrana.store.index import run as run_module  # noqa: E402
from metrana.store.index.groups import MOST_GROUPS  # noqa: E402
from metrana.store.index.intake import CHUNK_BYTES  # noqa: E402
from metrana.store.reader import read_run  # noqa: E402
from metrana.store.run_info import RunInfo  # noqa: E402 - after the skip
from tests.unit.store.build import GOLDEN, T0, declare, end, head, line, make_host, points, put  # noqa: E402
from tests.unit.store.test_reader import odd_lines  # noqa: E402


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def find(store: Path, run: str = "train-id") -> RunInfo:
    return find_run(str(store), run, make_host(store.parent / "machine"))


def as_dict(index: RunIndex) -> dict[Any, Any]:
    """Everything that an index tells of a run."""
    series = {}
    for info in index.series:
        columns = index.read(info)
        series[info.name, info.labels] = (
            columns.times.tolist(),
            columns.steps.tolist(),
            list(map(repr, columns.values)),
        )
        assert info.count == len(columns)
        assert (info.lowest_step, info.highest_step) == (columns.steps.min(), columns.steps.max())
    return {
        "series": series,
        "attributes": index.attributes,
        "skipped": index.skipped_lines,
        "unreadable": index.unreadable,
        "version": index.newest_version,
    }


def as_read(info: RunInfo) -> dict[Any, Any]:
    """The same as the plain reader has it, which looks at one line after the other."""
    run = read_run(info)
    return {
        "series": {
            key: (list(series.timestamps), list(series.steps), [repr(np.float64(value)) for value in series.values])
            for key, series in run.series.items()
        },
        "attributes": run.attributes,
        "skipped": run.skipped_lines,
        "unreadable": run.unreadable,
        "version": run.newest_version,
    }


@pytest.mark.parametrize("info", find_runs(str(GOLDEN)), ids=lambda info: info.run_name)
def test_golden_runs_are_what_the_reader_says(info: RunInfo) -> None:
    """Torn lines, garbage, rotated segments and values that JSON lacks, all the same."""
    assert as_read(info) == as_dict(RunIndex.open(info, may_write=False))


number_lists = st.lists(st.sampled_from([1, 2, 3, 4, True, 1.0, "1", None]), max_size=4)
values = st.sampled_from([1.5, -2, 0, "NaN", "Infinity", "12", None, True, 10**400, 1e300, [], {}])
near_lines = st.one_of(
    odd_lines,
    st.builds(
        lambda t, s, i, v: line(t=T0 + t, s=s, i=i, v=v),
        st.integers(0, 9),
        st.one_of(st.integers(0, 9), st.sampled_from([2**63, -(2**63), 1.5, None])),
        number_lists,
        st.lists(values, max_size=4),
    ),
    st.builds(
        lambda c, u, s, v: line(c=c, u=u, s=s, v=v, t=T0),
        st.sampled_from([1, 2, 3, "1", None]),
        st.lists(st.sampled_from([0, 5, 2**53 + 1, 1.5, None, 10**400]), max_size=3),
        st.lists(st.sampled_from([0, 5, 2**63, 1.5]), max_size=3),
        st.lists(values, max_size=3),
    ),
    st.builds(declare, st.integers(1, 3), st.sampled_from(["a", "b"])),
    st.builds(lambda n: points(T0 + n, n, {1: 1.0 * n, 2: 2.0 * n}), st.integers(0, 9)),
    st.sampled_from([b"\n", b"  \n", b"[]\n", b"1\n", b'{"t":1}{"t":2}\n', b'{"v":[{}\n', b"{}]}\n"]),
    st.builds(
        lambda key, colon, numbers: b'{"t":1767225600.5,"s":1,%s%s%s,"v":[7.5]}\n' % (key, colon, numbers),
        st.sampled_from([b'"i"', b'"\\u0069"']),
        st.sampled_from([b":", b" : "]),
        st.sampled_from([b"[1]", b"[[1]]", b"[{}]", b"[true]", b"[1.0]", b"[null]"]),
    ),
)


@settings(
    deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.lists(near_lines, max_size=12), st.lists(near_lines, max_size=6), st.integers(0, 400), st.binary(max_size=9))
def test_any_lines_are_what_the_reader_says(
    tmp_path: Path, first: list[bytes], second: list[bytes], cut: int, torn: bytes
) -> None:
    """Whatever stands in two writers' segments, read at once or in two goes, comes out as the plain reader has it."""
    store = tmp_path / "store"
    shutil.rmtree(store, ignore_errors=True)
    whole = b"".join([head(), declare(1, "a"), declare(2, "b"), *first]) + torn
    path = put(store, whole[:cut])
    put(store, head(pid=43, t=T0 + 1), declare(1, "b"), *second, writer="node7-43-1")
    info = find(store)
    growing = RunIndex.open(info, may_write=False)
    if cut < len(whole):
        with open(path, "ab") as file:
            file.write(whole[cut:])
    growing.refresh()
    read = as_read(info)
    assert read == as_dict(RunIndex.open(info, may_write=False))
    told = as_dict(growing)
    # Attributes of equal time are told apart by the order of reading.
    told["attributes"] = read["attributes"]
    assert read == told


def test_a_live_run_grows(store: Path) -> None:
    """What's appended, in old segments, in new ones and by new processes, is there after a refresh; else it's cheap."""
    path = put(store, head(), declare(1, "loss"), points(T0, 0, {1: 5.0}))
    index = RunIndex.open(find(store))
    assert not index.refresh()
    with open(path, "ab") as file:
        file.write(points(T0 + 1, 1, {1: 4.0}))
    assert index.refresh()
    put(store, head(), declare(7, "loss"), points(T0 + 2, 2, {7: 3.0}), number=2)
    put(store, head(pid=43), declare(1, "loss"), points(T0 + 0.5, 3, {1: 2.0}), writer="node7-43-1")
    assert index.refresh()
    assert not index.refresh()
    (series,) = index.series
    assert [5.0, 2.0, 4.0, 3.0] == index.read(series).values.tolist()
    assert (4, T0, T0 + 2, 3.0, 2.0, 5.0) == (
        series.count,
        series.first_time,
        series.last_time,
        series.last_value,
        series.low,
        series.high,
    )


def test_series_that_part_ways_keep_their_own_times(store: Path) -> None:
    """Logged in one call for a while, then each by itself, some with a clock that was set back, while it's followed."""
    for seed in range(150):
        chance = random.Random(seed)
        numbers = range(1, chance.randint(3, 13))
        together = [points(T0 + t, t, dict.fromkeys(numbers, float(t))) for t in range(chance.randint(8, 40))]
        path = put(store, head(), *(declare(n, f"m{n}") for n in numbers), *together[:-3])
        index = RunIndex.open(find(store), may_write=False)
        now = T0 + len(together)
        apart: list[bytes] = []
        for n in numbers:
            start = now - 1.5 if chance.random() < 0.7 else now + 1.0
            times = [start + n * 0.01 + each * 0.001 for each in range(chance.randint(1, 15))]
            apart += [points(time, 0, {n: time}) for time in times]
        for lines in (together[-3:], apart):
            with open(path, "ab") as file:
                file.write(b"".join(lines))
            index.refresh()
        assert as_read(index.info) == as_dict(index), seed


def test_a_description_is_that_of_the_points(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Points that turn up while somebody else describes the series are in the next description."""
    path = put(store, head(), declare(1, "x"), points(T0, 0, {1: 1.0}))
    index = RunIndex.open(find(store))
    describe = run_module._describe

    def describe_meanwhile(*args: Any) -> Any:
        monkeypatch.undo()
        with open(path, "ab") as file:
            file.write(points(T0 + 1, 1, {1: 2.0}))
        assert index.refresh()
        return describe(*args)

    monkeypatch.setattr(run_module, "_describe", describe_meanwhile)
    assert 1 == index.series[0].count
    assert 2 == index.series[0].count


def test_lines_that_lack_different_values_keep_each_its_own_time(store: Path) -> None:
    """As many points in each series, but not of the same lines."""
    lines = [
        points(T0, 0, {1: None, 2: 1.5}),
        points(T0 + 1, 1, {1: 2.5, 2: None}),
        points(T0 + 2, 2, {1: 3.5, 2: 3.5}),
    ]
    put(store, head(), declare(1, "a"), declare(2, "b"), *lines)
    assert as_read(find(store)) == as_dict(RunIndex.open(find(store)))


def test_attributes_of_any_depth_are_told_or_skipped(store: Path) -> None:
    """What can be read can be shown: a reader may go deeper than what writes JSON."""
    deep = [b'{"a":{"x":' + b"[" * levels + b"]" * levels + b'},"t":1.0}\n' for levels in (8, 60, 100, 1000, 100_000)]
    put(store, head(), *deep)
    index = RunIndex.open(find(store))
    assert as_read(find(store)) == as_dict(index)
    assert 3 == index.skipped_lines
    assert 60 == json.dumps(index.attributes).count("[")


def test_half_a_line_is_taken_once_it_is_whole(store: Path) -> None:
    """A write that's seen in the middle is no damage."""
    path = put(store, head(), declare(1, "loss"))
    whole = points(T0, 0, {1: 5.0})
    with open(path, "ab") as file:
        file.write(whole[:20])
    index = RunIndex.open(find(store))
    assert () == index.series
    assert not index.refresh()
    with open(path, "ab") as file:
        file.write(whole[20:])
    assert index.refresh()
    assert (1, 0) == (index.series[0].count, index.skipped_lines)


def test_a_line_longer_than_what_is_read_at_once_is_taken(store: Path) -> None:
    """One batch of very many series is one line."""
    count = CHUNK_BYTES // 8
    put(store, head(), declare(1, "a"), line(t=T0, s=0, i=[1] * count, v=[1.0] * count), points(T0 + 1, 1, {1: 2.0}))
    index = RunIndex.open(find(store), may_write=False)
    assert (count + 1, 2.0) == (index.series[0].count, index.series[0].last_value)


def test_a_line_too_long_for_a_line_is_skipped(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It isn't held in memory, and what follows it is taken; without an end it's the torn end of the segment."""
    monkeypatch.setattr(intake, "CHUNK_BYTES", 1000)
    for module in (intake, lines_module):
        monkeypatch.setattr(module, "LONGEST_LINE_BYTES", 3000)
    for length in (2900, 2999, 3000, 3001, 4000, 9001):
        long = b"x" * (length - 1) + b"\n"
        path = put(
            store, head(), declare(1, "a"), points(T0, 0, {1: 1.0}), long, points(T0 + 1, 1, {1: 2.0}), long[:-1]
        )
        index = RunIndex.open(find(store), may_write=False)
        assert as_read(index.info) == as_dict(index)
        assert (2, 2) == (index.series[0].count, index.skipped_lines)
        with open(path, "ab") as file:
            file.write(b"\n" + points(T0 + 2, 2, {1: 3.0}))
        assert index.refresh()
        assert as_read(index.info) == as_dict(index)
        assert (3, 2) == (index.series[0].count, index.skipped_lines)


def test_a_stretch_of_a_series_is_read(store: Path) -> None:
    """Both ends belong to it."""
    put(store, head(), declare(1, "x"), *(points(T0 + t, t, {1: float(t)}) for t in range(10)))
    index = RunIndex.open(find(store))
    (series,) = index.series
    assert [3, 4, 5] == index.read(series, T0 + 3, T0 + 5).steps.tolist()
    assert [8, 9] == index.read(series, start=T0 + 7.5).steps.tolist()
    assert [] == index.read(series, T0 + 20).values.tolist()


def test_a_budget_brings_the_first_series_first(store: Path) -> None:
    """Whoever can't wait gets what there is, is told how far that is, and goes on."""
    for rank in range(3):
        lines = [declare(1, "loss", rank=str(rank)), *(points(T0 + t, t, {1: 1.0}) for t in range(100))]
        put(store, head(pid=50 + rank, t=T0 + rank), *lines, writer=f"node7-{50 + rank}-1")
    index = RunIndex.open(find(store), budget_secs=0.0)
    assert index.progress < 1.0
    goes = 0
    while index.progress < 1.0:
        index.refresh(budget_secs=0.0)
        goes += 1
        assert goes < 100
    assert ["0", "1", "2"] == [dict(series.labels)["rank"] for series in index.series]
    assert as_read(index.info) == as_dict(index)


def test_a_segment_that_cannot_be_read_is_told(store: Path) -> None:
    """The rest is there."""
    put(store, head(), declare(1, "x"), points(T0, 0, {1: 1.0}))
    path = put(store, number=2)
    path.unlink()
    path.mkdir()
    index = RunIndex.open(find(store))
    assert ((str(path),), 1) == (index.unreadable, index.series[0].count)
    assert not index.refresh()
    assert ((str(path),), 1.0) == (index.unreadable, index.progress)


def test_a_segment_that_can_be_read_again_is_read(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file server was away: the path isn't named any more, and its points are there."""
    put(store, head(), declare(1, "x"), points(T0, 0, {1: 1.0}))
    path = put(store, declare(1, "x"), points(T0 + 1, 1, {1: 2.0}), number=2)
    index = RunIndex(find(store))

    def open_but_one(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == str(path):
            raise OSError(errno.EIO, "not now")
        return open(name, *args, **kwargs)

    monkeypatch.setattr(state, "open", open_but_one, raising=False)
    index.refresh()
    assert ((str(path),), 1, 1.0) == (index.unreadable, index.series[0].count, index.progress)
    monkeypatch.undo()
    assert not index.refresh()  # not at once
    monkeypatch.setattr(state, "RETRY_SECS", 0.0)
    assert index.refresh()
    assert ((), 2, 1.0) == (index.unreadable, index.series[0].count, index.progress)
    monkeypatch.undo()
    assert not index.refresh()
    assert () == index.unreadable


def test_a_small_run_gets_no_index_on_disk(store: Path) -> None:
    """Its lines are read again as fast."""
    path = put(store, head(), declare(1, "x"), points(T0, 0, {1: 1.0}), end(T0 + 1))
    RunIndex.open(find(store))
    assert [path.parent.name] == os.listdir(path.parent.parent)


def test_lines_of_ever_other_series_are_taken(store: Path) -> None:
    """Whoever logs another handful of metrics each time gets them all."""
    lines = [declare(number, f"m{number}") for number in range(60)]
    pairs = [(one, other) for one in range(60) for other in range(one)]
    lines += [points(T0 + t, t, {one: float(t), other: -float(t)}) for t, (one, other) in enumerate(pairs)]
    put(store, head(), *lines)
    assert len(pairs) > MOST_GROUPS
    index = RunIndex.open(find(store), may_write=False)
    assert as_read(find(store)) == as_dict(index)
    assert 60 == len(index.series)


def test_points_of_one_time_keep_their_order_whatever_else_is_in_their_lines(store: Path) -> None:
    """As the plain reader has them."""
    lines = [points(T0, step, {1: float(step)} | ({2: 0.0} if step % 3 else {})) for step in range(12)]
    put(store, head(), declare(1, "a"), declare(2, "b"), *lines)
    index = RunIndex.open(find(store))
    assert list(range(12)) == index.read(index.series[0]).steps.tolist()
