from __future__ import annotations

import math
import os
from array import array
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metrana.errors import RunNotFoundError
from metrana.store.reader import StoredRun, last_steps, open_run
from tests.unit.store.build import GOLDEN, T0, declare, end, head, line, make_host, points, put


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def read(store: Path, run: str = "train") -> StoredRun:
    return open_run(str(store), run, make_host(store.parent / "machine"))


def read_golden(run: str, tmp_path: Path) -> StoredRun:
    return open_run(str(GOLDEN), run, make_host(tmp_path))


def columns(run: StoredRun, name: str, **labels: str) -> list[tuple[float, int, float]]:
    series = run.series[name, tuple(sorted(labels.items()))]
    return list(zip([t - T0 for t in series.timestamps], series.steps, series.values))  # noqa: B905


def test_two_writers_are_merged_by_time(tmp_path: Path) -> None:
    """A series that several processes wrote is one series ordered by time; other labels make another series."""
    run = read_golden("two-writers", tmp_path)
    assert [(1.0, 0, 2.5), (2.0, 1, 2.0), (3.0, 2, 1.5), (4.0, 3, 1.0)] == columns(run, "loss")
    assert [(10.0, 0, 20.0)] == columns(run, "system/cpu/utilization", host="node7")
    assert [(10.0, 0, 80.0)] == columns(run, "system/cpu/utilization", host="node8")
    assert (0, ()) == (run.skipped_lines, run.unreadable)


def test_the_later_attribute_wins_across_writers(tmp_path: Path) -> None:
    """What counts is when an attribute was set, not in which file it stands."""
    assert {"seed": 3, "system/platform": "Linux-6.1"} == read_golden("two-writers", tmp_path).attributes


def test_torn_lines_cost_no_other_line(tmp_path: Path) -> None:
    """A short write and a torn end are skipped and counted."""
    run = read_golden("torn-lines", tmp_path)
    assert [(101.0, 0, 3.0), (102.0, 1, 2.0)] == columns(run, "loss")
    assert 2 == run.skipped_lines


def test_nan_and_infinities_come_back(tmp_path: Path) -> None:
    """Values that JSON has no numbers for are values all the same."""
    values = [value for _, _, value in columns(read_golden("not-finite", tmp_path), "loss")]
    assert [1.0, math.inf, -math.inf, 0.5, 2.0] == [value for value in values if not math.isnan(value)]
    assert math.isnan(values[1])


def test_segments_are_read_in_order_each_with_its_own_numbers(tmp_path: Path) -> None:
    """A number means what its own segment declared it to mean."""
    run = read_golden("rotated", tmp_path)
    assert [(301.0, 0, 3.0), (303.0, 1, 2.0), (305.0, 2, 1.0)] == columns(run, "loss")
    assert [(301.0, 0, 0.1), (303.0, 1, 0.2)] == columns(run, "lr")


def test_garbage_is_skipped_and_counted(tmp_path: Path) -> None:
    """Bytes that are no text, wrong types and undeclared numbers cost no good point beside them."""
    run = read_golden("garbage", tmp_path)
    assert [(501.0, 0, 5.0), (503.0, 1, 4.0), (504.0, 2, 3.0)] == columns(run, "loss")
    assert 29 == run.skipped_lines
    assert [("loss", ())] == list(run.series)


def test_a_killed_writer_leaves_its_points(tmp_path: Path) -> None:
    """A run without an end is read like any other."""
    assert [(401.0, 0, 1.0)] == columns(read_golden("killed", tmp_path), "loss")


def test_a_last_line_without_newline_is_taken(store: Path) -> None:
    """A live run is read up to its newest point."""
    put(store, head(), declare(1, "loss"), points(T0 + 1, 0, {1: 0.5}).rstrip())
    run = read(store)
    assert [(1.0, 0, 0.5)] == columns(run, "loss")
    assert 0 == run.skipped_lines


def test_points_of_equal_time_keep_their_order(store: Path) -> None:
    """Merging is stable."""
    put(store, head(), declare(1, "x"), *(points(T0 + t, s, {1: s}) for s, t in enumerate([5, 1, 5, 1, 5])))
    assert [1, 3, 0, 2, 4] == [step for _, step, _ in columns(read(store), "x")]


def test_columns_are_compact_arrays(store: Path) -> None:
    """Timestamps and values are doubles, steps 64-bit integers to both ends."""
    put(store, head(), declare(1, "x"), points(T0, 2**63 - 1, {1: 1}), points(T0, -(2**63), {1: 2}))
    series = read(store).series["x", ()]
    assert ("d", "q", "d") == (series.timestamps.typecode, series.steps.typecode, series.values.typecode)
    assert array("q", [2**63 - 1, -(2**63)]) == series.steps


def test_a_series_without_points_is_none(store: Path) -> None:
    """A declaration alone makes no series."""
    put(store, head(), declare(1, "x"))
    assert {} == read(store).series


def test_points_count_without_a_head(store: Path) -> None:
    """A torn head costs the identity, which is then read off the folders, and nothing else."""
    put(store, head()[:30] + b"\n", declare(1, "x"), points(T0 + 1, 0, {1: 1.0}), run="a b", writer="node%2D1-77-1f")
    run = read(store, "a b")
    assert [(1.0, 0, 1.0)] == columns(run, "x")
    assert ("a b-id", "default", "node-1", 77) == (
        run.info.id,
        run.info.project_name,
        run.info.writers[0].host,
        run.info.writers[0].pid,
    )


def test_last_steps_are_the_highest_over_all_writers(store: Path) -> None:
    """A resumed run goes on after the highest step, whoever logged it and when."""
    put(store, head(), declare(1, "x", k="v"), points(T0 + 1, 9, {1: 1.0}), points(T0 + 2, 4, {1: 1.0}))
    put(store, head(pid=43), declare(1, "x"), points(T0 + 3, 5, {1: 1.0}), writer="node7-43-1")
    assert {("x", (("k", "v"),)): 9, ("x", ()): 5} == last_steps(read(store))


def test_a_segment_that_cannot_be_read_is_told(store: Path) -> None:
    """A file that the system doesn't let us read ends nothing and is named."""
    put(store, head(), declare(1, "x"), points(T0, 0, {1: 1.0}))
    path = put(store, number=2)
    path.unlink()
    path.mkdir()
    run = read(store)
    assert [(0.0, 0, 1.0)] == columns(run, "x")
    assert (str(path),) == run.unreadable


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_cannot_be_read_is_told(store: Path) -> None:
    """A writer's folder without permission costs that writer only."""
    put(store, head(), declare(1, "x"), points(T0, 0, {1: 1.0}))
    closed = put(store, head(), writer="node7-43-1").parent
    closed.chmod(0)
    try:
        assert (str(closed),) == read(store).unreadable
    finally:
        closed.chmod(0o700)


def test_an_unknown_run_is_a_clear_error(store: Path) -> None:
    """The message names the run, the folder and the way out in one line."""
    with pytest.raises(RunNotFoundError) as caught:
        read(store, "no\nsuch")
    message = str(caught.value)
    assert r"'no\nsuch'" in message and str(store) in message and "metrana runs" in message and "--dir" in message
    assert 1 == len(message.splitlines())


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("dniltsaevx"), inner, max_size=4),
    max_leaves=12,
)
odd_lines = st.one_of(
    st.binary(max_size=40),
    st.dictionaries(st.sampled_from(["d", "n", "l", "t", "s", "i", "v", "a", "e", "run", "writer"]), json_values).map(
        lambda record: line(**record)
    ),
    st.just(head()).flatmap(lambda whole: st.integers(0, len(whole)).map(lambda length: whole[:length])),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(odd_lines, max_size=8), st.lists(odd_lines, max_size=8), st.binary(max_size=30))
def test_valid_lines_are_found_among_any_bytes(
    tmp_path: Path, before: list[bytes], after: list[bytes], torn: bytes
) -> None:
    """No bytes in a segment ever raise, and what's valid around them is taken in order."""
    # A series and a number that the odd lines can't name.
    good = [points(T0 + 1, 1, {777777: 1.5}), points(T0 + 2, 2, {777777: 2.5})]
    odd = [b"\n".join([*before, b""]), b"\n".join([*after, b""])]
    put(tmp_path / "store", *odd[:1], declare(777777, "a good one"), good[0], odd[1], good[1], torn)
    run = open_run(str(tmp_path / "store"), "train-id", make_host(tmp_path / "machine"))
    assert [(1.0, 1, 1.5), (2.0, 2, 2.5)] == columns(run, "a good one")


def test_a_run_of_a_later_format_is_read_as_far_as_it_goes(store: Path) -> None:
    """A head with more in it and kinds of line we don't know leave the rest readable."""
    newer = head().replace(b'"v": 1', b'"more": [], "v": 2')
    put(store, newer, line(blob="?"), declare(1, "x"), points(T0, 0, {1: 1.0}), end(T0 + 1))
    run = read(store)
    assert [(0.0, 0, 1.0)] == columns(run, "x")
    assert 1 == run.skipped_lines


def test_columns_of_a_series_that_is_not_declared_are_counted(store: Path) -> None:
    """Nothing is known to hang them on; what stands around them is found."""
    bad = line(c=9, u=[1], s=[0], v=[1.0], t=T0)
    good = line(c=1, u=[int(T0 * 1e6)], s=[5], v=[2.0], t=T0)
    put(store, head(), declare(1, "loss"), bad, good, end(T0))
    run = read(store)
    assert ([2.0], [5], 1) == (
        list(run.series["loss", ()].values),
        list(run.series["loss", ()].steps),
        run.skipped_lines,
    )
