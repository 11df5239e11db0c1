"""The runs as the page sees them: keys, changes, and what's kept open."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="NumPy isn't installed: pip install numpy")

from metrana.errors import RunNotFoundError
from metrana.ui.shelf import Shelf
from tests.scripts import wait_until
from tests.unit.store.build import T0, declare, end, head, points, put


def put_run(store: Path, run: str, start: float = T0, *, id: str | None = None, folder_id: str | None = None) -> Path:
    lines = [head(run, start, id=id), declare(0, "loss"), points(start, 0, {0: 1.0}), end(start + 1)]
    return put(store, *lines, run=run, id=folder_id)


def test_a_run_is_found_by_its_id(tmp_path: Path) -> None:
    """A run's key is its id; what isn't a key of a run is an error, paths too."""
    put_run(tmp_path, "train")
    shelf = Shelf(str(tmp_path))
    assert "train" == shelf.find_info("train-id").run_name
    for key in ("", "nope", "..", "../train-id", str(tmp_path)):
        with pytest.raises(RunNotFoundError, match="no such run"):
            shelf.open_run(key)


def test_runs_with_one_id_have_keys_of_their_own(tmp_path: Path) -> None:
    """A copy of a run, and ids that no address could hold, get keys that stay."""
    put_run(tmp_path, "train", id="same", folder_id="one")
    put_run(tmp_path, "copy", T0 + 1, id="same", folder_id="two")
    put_run(tmp_path, "odd", T0 + 2, id="<odd> / id", folder_id="three")
    shelf = Shelf(str(tmp_path))
    runs = shelf.list_runs().runs
    assert ["odd", "copy", "train"] == [info.run_name for info in runs.values()]
    assert all(key.isalnum() for key in runs)
    assert {shelf.find_info(key).run_name for key in runs} == {"odd", "copy", "train"}


def test_a_listing_holds_what_changed(tmp_path: Path) -> None:
    """Since an earlier listing: new and changed runs, and those that have gone; all for a token of another server."""
    put_run(tmp_path, "old")
    gone = put_run(tmp_path, "gone")
    shelf = Shelf(str(tmp_path))
    first = shelf.list_runs()
    assert first.is_whole and {"old-id", "gone-id"} == set(first.runs)
    assert {} == shelf.list_runs(first.token).runs
    put_run(tmp_path, "new", T0 + 5)
    shutil.rmtree(gone.parents[1])
    wait_until(lambda: shelf.list_runs(first.token).runs, "the new run")
    later = shelf.list_runs(first.token)
    assert (False, {"new-id"}, ("gone-id",)) == (later.is_whole, set(later.runs), later.removed)
    other = Shelf(str(tmp_path)).list_runs(later.token)
    assert other.is_whole and {"old-id", "new-id"} == set(other.runs)


def test_a_store_that_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    """Where the folder isn't one, the listing says so; where it isn't there yet, it's empty."""
    (tmp_path / "file").touch()
    assert "can't read the folder" in str(Shelf(str(tmp_path / "file")).list_runs().problem)
    nothing = Shelf(str(tmp_path / "later")).list_runs()
    assert (None, {}) == (nothing.problem, nothing.runs)


def test_series_keep_their_numbers(tmp_path: Path) -> None:
    """A series keeps its number while others turn up, and only what has changed is listed."""
    start = [head("train"), declare(0, "m"), points(T0, 0, {0: 1.0})]
    put(tmp_path, *start)
    run = Shelf(str(tmp_path)).open_run("train-id")
    run.refresh(1.0)
    token, series = run.list_series("")
    assert ["m"] == [one.name for one in series.values()]
    assert {} == run.list_series(token)[1]
    put(tmp_path, *start, declare(1, "a"), points(T0 + 1, 1, {1: 2.0}))
    run.refresh(1.0)
    assert {1: "a"} == {number: one.name for number, one in run.list_series(token)[1].items()}
    assert {0: "m", 1: "a"} == {number: one.name for number, one in run.list_series("other-5")[1].items()}


def test_few_runs_are_kept_open(tmp_path: Path) -> None:
    """Of many runs that were looked at only the last ones stay in memory, and a dropped one opens again."""
    for index in range(12):
        put_run(tmp_path, f"run{index}", T0 + index)
    shelf = Shelf(str(tmp_path))
    first = shelf.open_run("run0-id")
    assert first is shelf.open_run("run0-id")
    for index in range(1, 12):
        shelf.open_run(f"run{index}-id").refresh(1.0)
    again = shelf.open_run("run0-id")
    assert again is not first
    again.refresh(1.0)
    assert 1 == len(again.series)


def test_a_token_of_any_length_is_no_error(tmp_path: Path) -> None:
    """One that no listing has given out means all."""
    put_run(tmp_path, "train")
    shelf = Shelf(str(tmp_path))
    era = shelf.list_runs().token.partition("-")[0]
    assert shelf.list_runs(f"{era}-{'9' * 5000}").is_whole
