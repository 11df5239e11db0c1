"""Buckets lose no spike, whichever way they were summed up."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

np = pytest.importorskip("numpy", reason="NumPy isn't installed")

from metrana.store.catalog import find_run  # noqa: E402 - after the skip
from metrana.store.index import RunIndex  # noqa: E402
from metrana.store.index.buckets import Buckets, add_up  # noqa: E402
from metrana.store.index.pieces import BLOCK_POINTS, FEWEST_BLOCKS, Piece, make_piece  # noqa: E402
from tests.unit.store.build import T0, declare, head, points, put  # noqa: E402


def count_by_hand(pieces: list[Piece], start: float, end: float, count: int, by_step: bool = False) -> Buckets:
    """The same one point after the other."""
    shares = np.arange(count + 1) / count
    edges = start * (1.0 - shares) + end * shares
    edges[-1] = end
    rows: list[list[tuple[float, float]]] = [[] for _ in range(count)]
    for piece in pieces:
        for at, value in zip(piece.steps if by_step else piece.times, piece.values, strict=True):
            if start <= at <= end:
                place = int(np.searchsorted(edges, float(at), side="right")) - 1
                rows[min(place, count - 1)].append((float(at), float(value)))
    filled = [row for row in rows if row]
    finite = [[value for _, value in row if math.isfinite(value)] for row in filled]
    nan = math.nan
    return Buckets(
        np.array([min(at for at, _ in row) / 2 + max(at for at, _ in row) / 2 for row in filled]),
        np.array([min(row, default=nan) for row in finite]),
        np.array([math.fsum(row) / len(row) if row else nan for row in finite]),
        np.array([max(row, default=nan) for row in finite]),
        np.array([len(row) for row in filled]),
    )


def assert_equal(expected: Buckets, found: Buckets) -> None:
    for name in ("x", "low", "high", "count"):
        assert np.array_equal(getattr(expected, name), getattr(found, name), equal_nan=name != "count"), name
    assert np.allclose(expected.mean, found.mean, rtol=1e-9, atol=1e-9, equal_nan=True)


def make(count: int, seed: int, odd_values: bool = False, odd_steps: bool = False) -> Piece:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=count)
    if odd_values:
        values[rng.integers(0, count, count // 7 + 1)] = rng.choice([np.nan, np.inf, -np.inf], count // 7 + 1)
    times = T0 + np.sort(rng.random(count)) * 1000.0
    steps = rng.integers(0, 500, count) if odd_steps else np.arange(count)
    return make_piece(times, steps, values)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(0, 9), st.booleans(), st.booleans()), min_size=1, max_size=3),
    st.integers(1, 40),
    st.floats(-100, 1100),
    st.floats(0, 1200),
    st.booleans(),
)
def test_buckets_are_what_counting_by_hand_gives(
    made: list[tuple[int, int, bool, bool]], count: int, start: float, width: float, by_step: bool
) -> None:
    """Any pieces, overlapping or not, and any stretch of either axis."""
    pieces = [make(*one) for one in made]
    start, end = (start, start + width) if by_step else (T0 + start, T0 + start + width)
    assert_equal(count_by_hand(pieces, start, end, count, by_step), add_up(pieces, start, end, count, by_step))


@pytest.mark.parametrize("odd", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 100])
def test_what_is_summed_up_from_blocks_is_the_same(count: int, odd: bool) -> None:
    """Long pieces are read by their blocks, with the points at both ends of each bucket."""
    piece = make(BLOCK_POINTS * FEWEST_BLOCKS * 4 + 77, 1, odd)
    assert piece.blocks is not None
    for start, end in ((T0, T0 + 1000), (T0 + 1.5, T0 + 998.25), (T0 + 300, T0 + 301)):
        assert_equal(count_by_hand([piece], start, end, count), add_up([piece], start, end, count))


@pytest.mark.parametrize("spike", [0, 1, 255, 256, 257, 9_999, 50_000, 99_998, 99_999])
def test_a_single_spike_is_never_lost(spike: int) -> None:
    """Wherever it stands, in however few buckets."""
    values = np.zeros(100_000)
    values[spike] = 1.0
    piece = make_piece(T0 + np.arange(100_000.0), np.arange(100_000), values)
    for count in (1, 7, 1000, 99_999):
        buckets = add_up([piece], T0, T0 + 99_999, count)
        assert 1.0 == buckets.high.max()
        assert 100_000 == buckets.count.sum()


def test_sums_beyond_all_measure_have_a_mean_all_the_same() -> None:
    """It lies between the extremes."""
    piece = make_piece(T0 + np.arange(4.0), np.arange(4), np.array([1e308, 1.5e308, 1e308, 1.2e308]))
    (mean,) = add_up([piece], T0, T0 + 3, 1).mean
    assert 1e308 <= mean <= 1.5e308


def put_cards(store: Path) -> RunIndex:
    lines = [declare(n, "gpu", gpu=str(n)) for n in (1, 2, 3)]
    lines += [points(T0 + t, t, {n: float(100 * n + t) for n in (1, 2, 3)}) for t in range(10)]
    put(store, head(), *lines)
    return RunIndex.open(find_run(str(store), "train"))


def test_a_band_holds_all_its_series(tmp_path: Path) -> None:
    """The lowest, the mean and the highest over many series, in the same buckets."""
    index = put_cards(tmp_path)
    band = index.band(index.series, T0, T0 + 9, 2)
    assert ([100.0, 105.0], [202.0, 207.0], [304.0, 309.0], [15, 15]) == (
        band.low.tolist(),
        band.mean.tolist(),
        band.high.tolist(),
        band.count.tolist(),
    )


def test_buckets_go_by_time_or_by_step(tmp_path: Path) -> None:
    """From end to end where none is named."""
    index = put_cards(tmp_path)
    assert [T0 + 2, T0 + 7] == index.buckets(index.series[0], count=2).x.tolist()
    assert [2, 7] == index.buckets(index.series[0], count=2, by="step").x.tolist()
    assert [3.0] == index.buckets(index.series[0], 3, 3, count=2, by="step").x.tolist()


def test_empty_buckets_are_left_out(tmp_path: Path) -> None:
    """What isn't there takes no room, and no series has none at all."""
    index = put_cards(tmp_path)
    assert 10 == len(index.buckets(index.series[0], count=1000).x)
    assert 0 == len(index.band([], T0, T0 + 9, 5).x)
    assert 0 == len(index.buckets(index.series[0], T0 + 100, T0 + 200, 5).x)


@pytest.mark.parametrize("arguments", [{"count": 0}, {"by": "epoch"}])
def test_senseless_buckets_are_an_error(arguments: dict[str, object], tmp_path: Path) -> None:
    """The message names the argument."""
    index = put_cards(tmp_path)
    with pytest.raises(ValueError, match=next(iter(arguments))):
        index.buckets(index.series[0], **arguments)  # type: ignore[arg-type]
