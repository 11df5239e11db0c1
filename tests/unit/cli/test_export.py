from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from metrana.cli import main
from metrana.cli.tables import open_whole
from tests.scripts import DEADLINE_SECS
from tests.unit.store.build import GOLDEN, T0, declare, head, points, put

Capture = pytest.CaptureFixture[str]
HEADER = "name,labels,step,timestamp,value\n"


def test_rows_are_ordered_by_name_labels_and_time(capsys: Capture) -> None:
    """The whole run as one table, in an order that's the same each time."""
    assert 0 == main(["export", "two-writers", "--dir", str(GOLDEN), "--format", "csv"])
    assert (
        HEADER
        + (
            "loss,{},0,1767225601.0,2.5\n"
            "loss,{},1,1767225602.0,2.0\n"
            "loss,{},2,1767225603.0,1.5\n"
            "loss,{},3,1767225604.0,1.0\n"
            'system/cpu/utilization,"{""host"": ""node7""}",0,1767225610.0,20.0\n'
            'system/cpu/utilization,"{""host"": ""node8""}",0,1767225610.0,80.0\n'
        )
        == capsys.readouterr().out
    )


def test_values_are_written_to_the_last_digit(capsys: Capture) -> None:
    """Floats as Python writes them, with its words for what isn't finite."""
    main(["export", "not-finite", "--dir", str(GOLDEN)])
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert ["1.0", "nan", "inf", "-inf", "0.5", "2.0"] == [row["value"] for row in rows]


def test_any_name_survives(tmp_path: Path) -> None:
    """Commas, quotes, line ends and lone surrogates come back from the file as they were, or escaped."""
    names = ["a,b", 'a"b', "a\nb", "a\rb", "größe", "\ud800"]
    put(
        tmp_path / "store",
        head(),
        *(declare(n, name, k=name) for n, name in enumerate(names)),
        points(T0, 0, dict.fromkeys(range(len(names)), 1.0)),
    )
    output = tmp_path / "out.csv"
    assert 0 == main(["export", "train", "--dir", str(tmp_path / "store"), "--output", str(output)])
    with output.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert sorted([*names[:-1], r"\ud800"]) == sorted(row[0] for row in rows[1:])


def test_what_could_not_be_read_is_told_on_stderr(capsys: Capture) -> None:
    """The table stays a table."""
    assert 0 == main(["export", "garbage", "--dir", str(GOLDEN)])
    out, err = capsys.readouterr()
    assert 4 == len(out.splitlines())
    assert "metrana: 29 lines not readable as a whole and skipped\n" == err


def test_a_file_is_written_whole_beside_and_renamed(tmp_path: Path, capsys: Capture) -> None:
    """Nothing else stays in the folder, and an older file is replaced."""
    output = tmp_path / "out.csv"
    output.write_text("old")
    assert 0 == main(["export", "killed", "--dir", str(GOLDEN), "--output", str(output)])
    assert HEADER + "loss,{},0,1767226001.0,1.0\n" == output.read_text()
    assert ["out.csv"] == os.listdir(tmp_path)
    assert ("", "") == capsys.readouterr()


def test_a_file_that_is_replaced_keeps_its_mode(tmp_path: Path) -> None:
    """What was private stays so."""
    output = tmp_path / "out.csv"
    output.touch()
    output.chmod(0o600)
    assert 0 == main(["export", "killed", "--dir", str(GOLDEN), "--output", str(output)])
    assert 0o600 == output.stat().st_mode & 0o777


def test_what_a_killed_export_has_left_is_in_nobodys_way(tmp_path: Path) -> None:
    """A later one may have the same pid: in a container it's often 1."""
    output = tmp_path / "out.csv"
    with suppress(KeyboardInterrupt), open_whole(str(output), "w"):  # as good as killed: its part lies there
        (left,) = tmp_path.iterdir()
        assert 0 == main(["export", "killed", "--dir", str(GOLDEN), "--output", str(output)])
        assert {left, output} == set(tmp_path.iterdir())
        raise KeyboardInterrupt
    assert HEADER + "loss,{},0,1767226001.0,1.0\n" == output.read_text()


def test_a_pipe_is_written_to() -> None:
    """``--output /dev/stdout`` behind which a pipe is."""
    command = [sys.executable, "-m", "metrana", "export", "killed", "--dir", str(GOLDEN), "--output", "/dev/stdout"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_SECS)
    assert (0, HEADER + "loss,{},0,1767226001.0,1.0\n", "") == (done.returncode, done.stdout, done.stderr)


def test_a_series_that_is_not_there_may_be_in_what_cannot_be_read(capsys: Capture) -> None:
    """The error says so."""
    assert 2 == main(["export", "garbage", "nothing", "--dir", str(GOLDEN)])
    assert "has no series 'nothing'" in (err := capsys.readouterr().err)
    assert "29 lines not readable" in err


@pytest.mark.parametrize("output", ["missing/out.csv", "folder"])
def test_a_file_that_cannot_be_written_is_one_line(output: str, tmp_path: Path, capsys: Capture) -> None:
    """The message names the file; nothing half-written stays."""
    (tmp_path / "folder").mkdir()
    assert 2 == main(["export", "killed", "--dir", str(GOLDEN), "--output", str(tmp_path / output)])
    err = capsys.readouterr().err
    assert 1 == len(err.splitlines())
    assert output in err
    assert ["folder"] == os.listdir(tmp_path)


def test_a_device_is_written_to_not_replaced() -> None:
    """``--output /dev/null`` leaves the device where it is."""
    assert 0 == main(["export", "killed", "--dir", str(GOLDEN), "--output", os.devnull])
    assert not os.path.isfile(os.devnull)


def test_an_unknown_format_is_one_line(capsys: Capture) -> None:
    """It names what there is."""
    assert 2 == main(["export", "killed", "--dir", str(GOLDEN), "--format", "xls"])
    assert "metrana: --format 'xls' isn't known: choose from csv, jsonl, parquet\n" == capsys.readouterr().err


def put_cards(store: Path) -> None:
    """Two cards and a loss, a point a second."""
    put(
        store,
        head(),
        declare(1, "loss"),
        *(declare(n + 2, "system/gpu/utilization", gpu=str(n), host="node7") for n in range(2)),
        *(points(T0 + t, t, {1: 1.0 / (t + 1), 2: 10.0 + t, 3: 20.0 + t}) for t in range(60)),
    )


def export(store: Path, capsys: Capture, *words: str) -> list[dict[str, str]]:
    assert 0 == main(["export", "train", "--dir", str(store), *words])
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


def test_names_and_labels_select_series(tmp_path: Path, capsys: Capture) -> None:
    """Patterns of names, and labels that all have to match."""
    put_cards(tmp_path)
    assert 60 == len(export(tmp_path, capsys, "loss"))
    assert 120 == len(export(tmp_path, capsys, "system/gpu/*"))
    rows = export(tmp_path, capsys, "--label", "gpu=1", "--label", "host=node*")
    assert {'{"gpu": "1", "host": "node7"}'} == {row["labels"] for row in rows}


@pytest.mark.parametrize(
    ("words", "steps"),
    [
        (["--since", "50s"], range(50, 60)),
        (["--until", "0.5m"], range(31)),
        (["--since=-4s"], range(55, 60)),
        (["--since", "2026-01-01T00:00:10Z", "--until", "2026-01-01T00:00:12+00:00"], range(10, 13)),
    ],
)
def test_a_stretch_of_time_is_taken(words: list[str], steps: range, tmp_path: Path, capsys: Capture) -> None:
    """Both ends belong to it: ISO times, and spans from the run's start or back from its end."""
    put_cards(tmp_path)
    assert [str(step) for step in steps] == [row["step"] for row in export(tmp_path, capsys, "loss", *words)]


def test_json_lines_hold_the_same_points(tmp_path: Path, capsys: Capture) -> None:
    """One object a line, with labels as an object and the store's words for what isn't finite."""
    assert 0 == main(["export", "not-finite", "--dir", str(GOLDEN), "--format", "jsonl"])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [1.0, "NaN", "Infinity", "-Infinity", 0.5, 2.0] == [row["value"] for row in rows]
    assert {"name": "loss", "labels": {}, "step": 0, "timestamp": T0 + 200, "value": 1.0} == rows[0]


def test_the_files_name_tells_the_format(tmp_path: Path) -> None:
    """Unless it's given; a name that tells nothing means CSV."""
    for name, start in (("a.jsonl", '{"name"'), ("a.csv", HEADER[:4]), ("a.txt", HEADER[:4])):
        assert 0 == main(["export", "rotated", "--dir", str(GOLDEN), "--output", str(tmp_path / name)])
        assert (tmp_path / name).read_text().startswith(start)


def test_parquet_has_columns_for_labels_and_real_timestamps(tmp_path: Path) -> None:
    """What reads Parquet gets types: a moment in UTC, and a column a label, empty where a series lacks it."""
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow isn't installed")
    pytest.importorskip("numpy", reason="NumPy isn't installed")
    put_cards(tmp_path / "store")
    output = tmp_path / "train.parquet"
    assert 0 == main(["export", "train", "--dir", str(tmp_path / "store"), "--output", str(output)])
    rows = parquet.read_table(output).to_pylist()
    assert 180 == len(rows)
    assert ["name", "gpu", "host", "step", "timestamp", "value"] == list(rows[0])
    assert ("loss", None, None, 0, T0, 1.0) == (*list(rows[0].values())[:4], rows[0]["timestamp"].timestamp(), 1.0)
    assert ("system/gpu/utilization", "1", "node7", 59, 79.0) == tuple(
        rows[-1][key] for key in ("name", "gpu", "host", "step", "value")
    )


def test_parquet_has_a_column_for_each_label_whatever_it_is_called(tmp_path: Path) -> None:
    """Readers refuse a file in which two are called the same."""
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs the extra parquet")
    lines = [declare(1, "x", name="1", label_name="y"), declare(2, "x\ud800", **{"k\udfff": "2"})]
    put(tmp_path, head(), *lines, points(T0, 0, {1: 1.0, 2: 2.0}))
    output = tmp_path / "out.parquet"
    assert 0 == main(["export", "train", "--dir", str(tmp_path), "--output", str(output)])
    (first, second) = parquet.read_table(output).to_pylist()
    assert ("x", "y", "1", None) == tuple(first[key] for key in ("name", "label_name", "label_label_name", "k\\udfff"))
    assert ("x\\ud800", None, None, "2") == tuple(
        second[key] for key in ("name", "label_name", "label_label_name", "k\\udfff")
    )


def test_missing_packages_are_one_line_with_the_command_that_brings_them(tmp_path: Path) -> None:
    """Nothing is written then."""
    put_cards(tmp_path)
    absent = "sys.modules['pyarrow'] = sys.modules['numpy'] = None"
    code = f"import sys; {absent}; from metrana.cli import main; sys.exit(main(sys.argv[1:]))"
    words = ["--dir", str(tmp_path), "export", "train", "--output", str(tmp_path / "train.parquet")]
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=DEADLINE_SECS, check=False
    )
    assert (2, "") == (done.returncode, done.stdout)
    assert done.stderr.endswith("needs pyarrow and NumPy, which aren't installed: pip install pyarrow numpy\n")
    assert not (tmp_path / "train.parquet").exists()


def test_without_numpy_the_table_is_the_same(tmp_path: Path) -> None:
    """Plain lists do, a little slower."""
    put_cards(tmp_path)
    code = "import sys; {} from metrana.cli import main; sys.exit(main(sys.argv[1:]))"
    outputs = [
        subprocess.run(
            [sys.executable, "-c", code.format(block), "--dir", str(tmp_path), "export", "train", "--since", "9s"],
            capture_output=True,
            text=True,
            timeout=DEADLINE_SECS,
            check=True,
        ).stdout
        for block in ("", "sys.modules['numpy'] = None;")
    ]
    assert outputs[0] == outputs[1]
    assert 1 + 3 * 51 == len(outputs[0].splitlines())


def test_parquet_of_very_many_label_keys_has_one_column_for_them(tmp_path: Path) -> None:
    """A column for each of as many keys as series would hold points times keys."""
    parquet = pytest.importorskip("pyarrow.parquet")
    lines = [declare(number, "x", **{f"k{number}": "1"}) for number in range(33)]
    put(tmp_path, head(), *lines, *(points(T0 + number, 7, {number: 1.0}) for number in range(33)))
    file = tmp_path / "out.parquet"
    assert 0 == main(["export", "--dir", str(tmp_path), "--output", str(file)])
    table = parquet.read_table(file)
    assert ["name", "labels", "step", "timestamp", "value"] == table.schema.names
    assert sorted(f'{{"k{number}": "1"}}' for number in range(33)) == sorted(table.column("labels").to_pylist())
    assert [7] * 33 == table.column("step").to_pylist()
