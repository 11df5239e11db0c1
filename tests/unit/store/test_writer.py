"""The writing side: segments, and a disk that refuses."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from metrana.descriptors import OwnDescriptor
from metrana.identity import Identity
from metrana.store.catalog import find_runs
from metrana.store.process import WriterProcess
from metrana.store.reader import read_run
from metrana.store.writer import Writer

IDENTITY = Identity("acme", "research", "llm", "train", "launch")


def make_writer(store: Path, segment_bytes: int = 1 << 20) -> Writer:
    return Writer(str(store), IDENTITY, WriterProcess(os.uname().nodename), segment_bytes)


def test_points_of_one_tick_share_a_line(tmp_path: Path) -> None:
    """Same timestamp and step; a series is declared once."""
    writer = make_writer(tmp_path)
    lines = writer.encode_points([(1.5, 0, "a", 1.0), (1.5, 0, ("b", (("x", "y"),)), float("nan")), (2.5, 1, "a", 2.0)])
    assert [
        {"d": 1, "n": "a"},
        {"d": 2, "n": "b", "l": {"x": "y"}},
        {"t": 1.5, "s": 0, "i": [1, 2], "v": [1.0, "NaN"]},
        {"t": 2.5, "s": 1, "i": [1], "v": [2.0]},
    ] == [json.loads(line) for line in lines]


def test_every_segment_stands_for_itself(tmp_path: Path) -> None:
    """Head and declarations are repeated, so that each can be read alone."""
    writer = make_writer(tmp_path, segment_bytes=1000)
    for i in range(100):
        writer.write(writer.encode_points([(float(i), i, "loss", float(i)), (float(i), i, "lr", 0.5)]), float(i))
    writer.close()
    segments = sorted(Path(writer.path).iterdir())
    assert len(segments) > 3
    for segment in segments:
        head, *rest = [json.loads(line) for line in segment.read_text().splitlines()]
        assert IDENTITY.run_id == head["run"]["id"]
        declared: set[int] = set()
        for record in rest:
            declared |= {record["d"]} if "d" in record else set()
            assert set(record.get("i", ())) <= declared
    (info,) = find_runs(str(tmp_path))
    run = read_run(info)
    assert list(range(100)) == list(run.series["loss", ()].steps)
    assert 0 == run.skipped_lines


def test_a_burst_is_written_in_columns(tmp_path: Path) -> None:
    """A third of the room; nothing of it is lost, NaN and infinities included, and the order is kept."""
    writer = make_writer(tmp_path)
    burst = [(1767225600.0 + i / 1e6, i, "loss", i * 0.37) for i in range(2500)]
    burst[7] = (burst[7][0], 7, "loss", float("inf"))
    burst[8] = (-1.5, 8, "loss", -1.0)
    entries = [(1767225599.0, 0, "lr", 1.0), *burst, (1767225601.5, 3, "lr", 2)]
    lines = writer.encode_points(entries)
    assert len(lines) < 10
    writer.write(lines, 0.0)
    writer.close()
    (info,) = find_runs(str(tmp_path))
    run = read_run(info)
    loss = run.series["loss", ()]
    by_time = sorted(burst, key=lambda entry: entry[0])
    assert [(t, s, v) for t, s, _, v in by_time] == list(zip(loss.timestamps, loss.steps, loss.values, strict=True))
    assert [1.0, 2.0] == list(run.series["lr", ()].values)
    assert 0 == run.skipped_lines
    assert 1767225601.5 == info.last


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_what_the_disk_refuses_is_kept_in_order(tmp_path: Path) -> None:
    """ENOSPC raises; the next write brings it all."""
    writer = make_writer(tmp_path)
    writer.open(0.0)
    good = writer._file
    full = writer._file = OwnDescriptor(os.open("/dev/full", os.O_WRONLY))
    for i in range(3):
        with pytest.raises(OSError, match="No space left"):
            writer.write(writer.encode_points([(float(i), i, "loss", float(i))]), 0.0)
    full.close()
    writer._file = good
    writer.write((), 0.0)
    writer.close()
    (info,) = find_runs(str(tmp_path))
    assert [0.0, 1.0, 2.0] == list(read_run(info).series["loss", ()].values)


@pytest.mark.parametrize("limit", range(1, 60))
def test_a_short_write_tears_at_most_one_line(tmp_path: Path, limit: int) -> None:
    """Wherever the kernel stops, every point is there once, and only whole lines count."""
    writer = make_writer(tmp_path)
    writer.open(0.0)
    real, calls = os.write, 0

    def short_write(fd: int, data: bytes) -> int:
        nonlocal calls
        calls += 1
        return real(fd, data[:limit] if calls % 2 else data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", short_write)
        for i in range(5):
            writer.write(writer.encode_points([(float(i), i, "loss", float(i))]), 0.0)
    writer.close()
    (info,) = find_runs(str(tmp_path))
    assert [0.0, 1.0, 2.0, 3.0, 4.0] == list(read_run(info).series["loss", ()].values)


def test_a_store_of_its_own_is_hidden_from_git_as_a_whole(tmp_path: Path) -> None:
    """A folder that was there before may be somebody's project: only what's metrana's in it is hidden."""
    make_writer(tmp_path / "store").open(0.0)
    assert "*\n" == (tmp_path / "store" / ".gitignore").read_text()
    make_writer(tmp_path).open(0.0)
    assert not (tmp_path / ".gitignore").exists()
    assert "*\n" == (tmp_path / "acme" / ".gitignore").read_text()


def test_a_file_of_the_script_under_our_number_is_let_alone(tmp_path: Path) -> None:
    """A daemon closes what it finds open and opens its own: the store goes on in a new segment."""
    writer = make_writer(tmp_path / "store")
    writer.write(writer.encode_points([(0.0, 0, "loss", 0.0)]), 0.0)
    assert writer._file is not None
    number = writer._file.fd
    os.close(number)
    users = os.open(tmp_path / "users", os.O_RDWR | os.O_CREAT)
    if users != number:
        os.dup2(users, number)
        os.close(users)
    writer.write(writer.encode_points([(1.0, 1, "loss", 1.0)]), 1.0)
    writer.sync()
    writer.close()
    assert b"" == (tmp_path / "users").read_bytes()
    assert os.path.samestat(os.fstat(number), os.stat(tmp_path / "users"))
    os.close(number)
    (info,) = find_runs(str(tmp_path / "store"))
    assert [0.0, 1.0] == list(read_run(info).series["loss", ()].values)
