"""Reading runs from Python, as somebody with a notebook does."""

from __future__ import annotations

import math
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import metrana
from metrana.data import RunData
from tests.scripts import DEADLINE_SECS
from tests.unit.store.build import GOLDEN, T0, declare, end, head, line, points, put


def need(name: str) -> ModuleType:
    """An optional package, or a skip that says which."""
    module: ModuleType = pytest.importorskip(name, reason=f"{name} isn't installed")
    return module


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A loss every second and two cards every two seconds, half a second later."""
    put(
        tmp_path,
        head(),
        declare(1, "loss"),
        *(declare(2 + n, "system/gpu/utilization", gpu=str(n), host="node7") for n in range(2)),
        line(a={"config/lr": 0.1, "config/model/depth": 3, "seed": 1}, t=T0),
        *(points(T0 + t, 10 * t, {1: 1.0 / (t + 1)}) for t in range(10)),
        *(points(T0 + t + 0.5, t // 2, {2: 50.0 + t, 3: 60.0 + t}) for t in range(0, 10, 2)),
        end(T0 + 10),
    )
    return tmp_path


def open_run(store: Path, run: str | None = "train") -> RunData:
    opened: RunData = metrana.open_run(run, dir=store)
    return opened


def test_a_run_tells_what_it_is(store: Path) -> None:
    """Identity, status and times at once; attributes and names when they're asked for."""
    run = open_run(store)
    assert ("train-id", "train", "default", "closed", T0, T0 + 10) == (
        run.id,
        run.name,
        run.project,
        run.status,
        run.started,
        run.last,
    )
    assert ("loss", "system/gpu/utilization") == run.names
    assert {"lr": 0.1, "model/depth": 3} == run.config
    assert 1 == run.attributes["seed"]
    assert [] == run.problems
    assert "train" in repr(run)


def test_the_newest_run_is_opened_where_none_is_named(store: Path) -> None:
    """As one wants right after a training."""
    put(store, head("later", T0 + 100), run="later")
    assert "later" == open_run(store, None).name
    (store.parent / "empty").mkdir()
    with pytest.raises(metrana.RunNotFoundError, match="METRANA_DIR"):
        open_run(store.parent / "empty", None)
    with pytest.raises(metrana.RunNotFoundError, match="'nope'"):
        open_run(store, "nope")


def test_runs_are_listed_and_narrowed_down() -> None:
    """Newest first, by name, project and status, patterns too."""
    names = [run.name for run in metrana.runs(dir=GOLDEN)]
    assert ["garbage", "killed", "rotated", "not-finite", "torn-lines", "two-writers"] == names
    assert ["torn-lines", "two-writers"] == [run.name for run in metrana.runs(dir=GOLDEN, name="t*")]
    assert 3 == len(metrana.runs(dir=GOLDEN, project="llm", status="closed"))
    assert ["garbage"] == [run.name for run in metrana.runs(dir=GOLDEN, name="g*", status="ended")]
    assert ["garbage"] == [run.name for run in metrana.runs(dir=GOLDEN, limit=1)]
    assert ["two-writers"] == [run.name for run in metrana.runs(dir=GOLDEN, name="llm/two*")]


@pytest.mark.parametrize("argument", [{"limit": 0}, {"limit": True}, {"limit": "2"}, {"status": "over"}])
def test_a_limit_or_status_that_is_none_is_an_error(argument: dict[str, Any]) -> None:
    """The message names it."""
    with pytest.raises(metrana.SettingError, match=next(iter(argument))):
        metrana.runs(dir=GOLDEN, **argument)


def test_a_named_folder_that_is_not_there_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By argument or by variable; the default folder needn't be there before the first run."""
    for look in (metrana.runs, metrana.open_run):
        with pytest.raises(metrana.StoreError, match=r"none, which dir= names, isn't there"):
            look(dir=tmp_path / "none")
    monkeypatch.setenv("METRANA_DIR", str(tmp_path / "none"))
    with pytest.raises(metrana.StoreError, match="METRANA_DIR"):
        metrana.runs()
    monkeypatch.delenv("METRANA_DIR")
    monkeypatch.chdir(tmp_path)
    assert [] == metrana.runs()
    with pytest.raises(metrana.RunNotFoundError, match="no such folder"):
        metrana.open_run()


def test_series_are_selected_by_name_and_labels(store: Path) -> None:
    """Names, patterns and labels, as a sequence of series."""
    run = open_run(store)
    assert 3 == len(run.series())
    cards = run.series("system/gpu/*")
    assert ["0", "1"] == [series.labels["gpu"] for series in cards]
    (one,) = run.series(gpu=1)
    assert ("system/gpu/utilization", [60.0, 62.0, 64.0, 66.0, 68.0]) == (one.name, list(one.values))
    assert 2 == len(run.series(labels={"host": "node*"}))
    assert "1" == cards[-1].labels["gpu"]
    assert "1" == cards[1:][0].labels["gpu"]
    assert 5 == len(cards[0])


@pytest.mark.parametrize(("words", "told"), [({"patterns": ["los"]}, "'los'"), ({"gpu": "7"}, "gpu=7")])
def test_what_selects_nothing_is_a_clear_error(words: dict[str, object], told: str, store: Path) -> None:
    """A typing error isn't an empty table."""
    patterns = words.pop("patterns", [])
    with pytest.raises(metrana.SeriesNotFoundError, match=told):
        open_run(store).series(*patterns, **words)  # type: ignore[misc]


def test_a_stretch_of_time_is_taken(store: Path) -> None:
    """From when until when: spans, numbers and datetimes."""
    run = open_run(store)
    since = datetime.fromtimestamp(T0 + 3, tz=timezone.utc)
    assert [30, 40, 50] == list(run.series("loss", since=since, until="5s")[0].steps)
    assert [80, 90] == list(run.series("loss", since="-1s")[0].steps)


def test_plain_lists_need_no_library(store: Path) -> None:
    """Without NumPy the same comes as lists, and the rest is one clear error with the command that helps."""
    code = """if True:
        import sys
        for name in ("numpy", "pandas", "polars"):
            sys.modules[name] = None
        import metrana
        series = metrana.open_run("train", dir=sys.argv[1]).series("loss", since="8s")
        print(series.to_lists())
        for convert in (series.to_numpy, series.to_pandas, series.to_polars):
            try:
                convert()
            except metrana.MissingExtraError as error:
                print(error)
        """
    done = subprocess.run(
        [sys.executable, "-c", code, str(store)], capture_output=True, text=True, timeout=DEADLINE_SECS, check=True
    )
    lists, *errors = done.stdout.splitlines()
    assert f"times=[{T0 + 8}, {T0 + 9}], steps=[80, 90], values=[{1 / 9}, {1 / 10}]" in lists
    assert ["pip install numpy", "pip install pandas numpy", "pip install polars numpy"] == [
        error.rpartition(": ")[2] for error in errors
    ]


def test_lists_are_plain_lists(store: Path) -> None:
    """With NumPy too: JSON takes them."""
    (loss,) = open_run(store).series("loss").to_lists()
    assert (list, list, list) == (type(loss.times), type(loss.steps), type(loss.values))
    assert (float, int, float) == (type(loss.times[0]), type(loss.steps[0]), type(loss.values[0]))


def test_numpy_arrays(store: Path) -> None:
    """Doubles and 64-bit integers."""
    need("numpy")
    (loss,) = open_run(store).series("loss").to_numpy()
    assert ("float64", "int64", "float64") == (str(loss.times.dtype), str(loss.steps.dtype), str(loss.values.dtype))


def test_a_long_pandas_frame(store: Path) -> None:
    """A row a point, a column a label, moments in UTC."""
    need("pandas")
    frame = open_run(store).series().to_pandas()
    assert ["name", "gpu", "host", "step", "timestamp", "value"] == list(frame.columns)
    assert (20, "UTC") == (len(frame), str(frame["timestamp"].dt.tz))
    assert 10 == frame["gpu"].isna().sum()
    assert [50.0, 52.0, 54.0, 56.0, 58.0] == frame[frame["gpu"] == "0"]["value"].tolist()


def test_a_wide_pandas_frame(store: Path) -> None:
    """A row a time, a column a series, which is named by the labels that tell it from others."""
    need("pandas")
    names = ["loss", "system/gpu/utilization{gpu=0}", "system/gpu/utilization{gpu=1}"]
    frame = open_run(store).series().to_pandas(wide=True)
    assert names == list(frame.columns)
    assert (15, "timestamp") == (len(frame), frame.index.name)
    assert 10 == frame["loss"].count()
    by_step = open_run(store).series("loss").to_pandas(wide=True, on="step")
    assert list(range(0, 100, 10)) == by_step.index.tolist()


def test_series_of_different_times_stand_side_by_side(store: Path) -> None:
    """The loss beside the utilization, as means over stretches of time."""
    need("pandas")
    frame = open_run(store).series().to_pandas(every_secs=2)
    assert 5 == len(frame)
    assert not frame.isna().any().any()
    assert [0.75, 50.0, 60.0] == frame.iloc[0].tolist()


def test_a_long_polars_frame(store: Path) -> None:
    """As pandas has it."""
    need("numpy")
    need("polars")
    frame = open_run(store).series().to_polars()
    assert ["name", "gpu", "host", "step", "timestamp", "value"] == frame.columns
    assert (20, 10) == (frame.height, frame["gpu"].null_count())
    assert datetime(2026, 1, 1, tzinfo=timezone.utc) == frame["timestamp"].min()


def test_a_wide_polars_frame() -> None:
    """Where a series has no point it's empty; NaN is a value."""
    need("numpy")
    need("polars")
    frame = metrana.open_run("two-writers", dir=GOLDEN).series().to_polars(wide=True)
    assert ["timestamp", "loss", "system/cpu/utilization{host=node7}", "system/cpu/utilization{host=node8}"] == (
        frame.columns
    )
    assert [2.5, 2.0, 1.5, 1.0, None] == frame["loss"].to_list()
    odd = metrana.open_run("not-finite", dir=GOLDEN).series().to_polars(wide=True)["loss"].to_list()
    assert math.isnan(odd[1])
    assert (6, math.inf) == (len(odd), odd[2])


@pytest.mark.parametrize("words", [{"wide": True, "on": "epoch"}, {"every_secs": 0}, {"every_secs": 5, "on": "step"},
     {"every_secs": "3"}, {"every_secs": 1e-320}, {"every_secs": True}])  # fmt: skip
def test_senseless_tables_are_a_clear_error(words: dict[str, object], store: Path) -> None:
    """It names the argument."""
    need("pandas")
    with pytest.raises(metrana.SettingError, match="on=|every_secs="):
        open_run(store).series().to_pandas(**words)  # type: ignore[arg-type]


def test_a_label_called_as_another_column_keeps_apart(tmp_path: Path) -> None:
    """Nothing is lost where a label is called ``step``."""
    need("pandas")
    put(tmp_path, head(), declare(1, "x", step="a", value="b"), points(T0, 7, {1: 1.0}))
    frame = open_run(tmp_path).series().to_pandas()
    assert ["name", "label_step", "label_value", "step", "timestamp", "value"] == list(frame.columns)


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize(
    ("named", "long", "wide"),
    [
        ([("acc{gpu=0}", {}), ("acc", {"gpu": "0"}), ("acc", {"gpu": "1"})], ["gpu"],
         ["acc{gpu=0}", "acc{gpu=0} (2)", "acc{gpu=1}"]),
        ([("x", {"a": "1,b=2"}), ("x", {"a": "1", "b": "2"})], ["a", "b"], ["x{a=1,b=2}", "x{a=1,b=2} (2)"]),
        ([("x", {"name": "1", "label_name": "y"}), ("timestamp", {})], ["label_name", "label_label_name"],
         ["timestamp (2)", "x"]),
        ([("x\ud800", {"k\udfff": "\ud801"})], ["k\\udfff"], ["x\\ud800"]),
    ],
    ids=["metric like labels", "label like labels", "names of columns", "no UTF-8"],
)  # fmt: skip
def test_each_series_has_a_column_of_its_own(
    named: list[tuple[str, dict[str, str]]], long: list[str], wide: list[str], library: str, tmp_path: Path
) -> None:
    """Whatever metrics and labels are called."""
    need(library)
    lines = [declare(number, name, **labels) for number, (name, labels) in enumerate(named, 1)]
    put(tmp_path, head(), *lines, points(T0, 0, {number: float(number) for number in range(1, len(named) + 1)}))
    series = open_run(tmp_path).series()
    make = getattr(series, f"to_{library}")
    frame = make(wide=True)
    assert wide == sorted(name for name in frame.columns if name != "timestamp")
    values = [float(next(iter(frame[name]))) for name in wide]
    assert [float(number) for number in range(1, len(named) + 1)] == sorted(values)
    assert {"name", "step", "timestamp", "value", *long} == set(make().columns)


def test_a_run_is_found_by_a_name_that_looks_like_a_pattern(tmp_path: Path) -> None:
    """The name itself counts, too; a status that is none is told."""
    with metrana.init(run_name="lab[0.1]", dir=tmp_path, capture_system_metrics=False):
        pass
    assert ["lab[0.1]"] == [run.name for run in metrana.runs(dir=tmp_path, name="lab[0.1]")]
    with pytest.raises(metrana.SettingError, match="running"):
        metrana.runs(dir=tmp_path, status="bogus")


def test_moments_that_no_calendar_reaches_are_none(tmp_path: Path) -> None:
    """The points are there all the same."""
    need("pandas")
    put(tmp_path, head(), declare(1, "x"), points(1e300, 0, {1: 1.0}), points(T0, 1, {1: 2.0}))
    frame = open_run(tmp_path).series().to_pandas()
    assert ([2.0, 1.0], 1) == (frame["value"].tolist(), frame["timestamp"].isna().sum())


def test_a_running_run_is_refreshed(store: Path) -> None:
    """What was appended is there afterwards."""
    run = open_run(store)
    assert 3 == len(run.series())
    assert not run.refresh()
    put(store, head(), declare(1, "accuracy"), points(T0 + 11, 0, {1: 0.9}), writer="node7-43-1")
    assert run.refresh()
    assert "accuracy" in run.names


def test_what_could_not_be_read_is_told() -> None:
    """In sentences."""
    assert ["29 lines not readable as a whole and skipped"] == metrana.open_run("garbage", dir=GOLDEN).problems


def test_importing_metrana_loads_none_of_it() -> None:
    """A training pays nothing for the reading side."""
    code = "import metrana, sys; print([n for n in ('metrana.data', 'numpy', 'dataclasses') if n in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=DEADLINE_SECS, check=True
    )
    assert "[]\n" == done.stdout
    with pytest.raises(AttributeError, match="'nothing'"):
        metrana.nothing  # noqa: B018


def test_very_many_label_keys_make_one_column(tmp_path: Path) -> None:
    """Up to 32 keys each has a column; beyond that the set is one, so a frame grows with its points alone."""
    pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    lines = [declare(number, "x", **{f"k{number}": "é"}) for number in range(33)]
    put(tmp_path, head(), *lines, *(points(T0 + number, 0, {number: 1.0}) for number in range(33)))
    run = metrana.open_run(dir=tmp_path)
    columns = ["name", "labels", "step", "timestamp", "value"]
    for frame in (run.series().to_pandas(), run.series().to_polars()):
        assert columns == list(frame.columns)
        assert '{"k0": "é"}' == frame["labels"][0]
    few = run.series(labels={"k1": "*"}).to_polars()
    assert ["name", "k1", "step", "timestamp", "value"] == few.columns
    assert isinstance(few, polars.DataFrame)
