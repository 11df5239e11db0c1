from __future__ import annotations

import csv
import io
import os
from pathlib import Path

import pytest

from metrana.cli import main
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
    assert "lines 29" in err


def test_a_file_is_written_whole_beside_and_renamed(tmp_path: Path, capsys: Capture) -> None:
    """Nothing else stays in the folder, and an older file is replaced."""
    output = tmp_path / "out.csv"
    output.write_text("old")
    assert 0 == main(["export", "killed", "--dir", str(GOLDEN), "--output", str(output)])
    assert HEADER + "loss,{},0,1767226001.0,1.0\n" == output.read_text()
    assert ["out.csv"] == os.listdir(tmp_path)
    assert ("", "") == capsys.readouterr()


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
    assert "metrana: --format 'xls' isn't known: choose from csv\n" == capsys.readouterr().err
