"""What's kept on disk is taken where it fits, and made anew where it doesn't."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="NumPy isn't installed")

from metrana.store.catalog import find_run, find_runs, read_catalog
from metrana.store.index import RunIndex
from metrana.store.index.crew import Crew
from metrana.store.index.files import FOLDER, SUFFIX
from metrana.store.index.intake import SegmentPosition
from metrana.store.index.manifest import NAME
from metrana.store.index.state import CREW_BYTES, SAVED_BYTES
from metrana.store.place import find_cache_folder, find_place, remove_unused
from metrana.store.run_info import RunInfo
from tests.scripts import DEADLINE_SECS
from tests.unit.store.build import T0, declare, end, head, line, points, put
from tests.unit.store.index.test_index import as_dict, as_read

POINTS = 20_000


def put_long(store: Path, writers: int = 1, rows: int = POINTS) -> list[Path]:
    """A run whose lines are worth an index."""
    paths = []
    for rank in range(writers):
        lines = [points(T0 + t, t, {1: t / 7, 2: -t / 3}) for t in range(rows)]
        first = [head(pid=50 + rank, t=T0 + rank), declare(1, "a", rank=str(rank)), declare(2, "b")]
        attributes = line(a={"note": [1, {"k": None}]}, t=T0)
        paths.append(put(store, *first, attributes, *lines, end(T0 + rows), writer=f"node7-{50 + rank}-1"))
    assert paths[0].stat().st_size > SAVED_BYTES
    return paths


def find(store: Path) -> RunInfo:
    return find_run(str(store), "train")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def saved_files(store: Path) -> dict[str, int]:
    """The index's files and when each was written."""
    folder = Path(find(store).folder) / FOLDER
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


def test_the_index_is_taken_from_disk_the_second_time(store: Path) -> None:
    """It says the same, and nothing is written again."""
    put_long(store, writers=2)
    read = as_read(find(store))
    assert read == as_dict(RunIndex.open(find(store)))
    files = saved_files(store)
    assert {NAME} < set(files)
    again = RunIndex(find(store))
    assert again.refresh()
    assert read == as_dict(again)
    assert not again.refresh()
    assert files == saved_files(store)


def test_the_listings_do_not_see_it(store: Path) -> None:
    """A run is a run, with as many writers."""
    put_long(store)
    before = read_catalog(str(store))
    RunIndex.open(find(store))
    assert (before.runs, before.unreadable) == (read_catalog(str(store)).runs, ())
    assert 1 == len(find_runs(str(store)))


def test_what_was_appended_since_is_read_from_the_lines(store: Path) -> None:
    """To old segments and in new ones."""
    (path,) = put_long(store)
    RunIndex.open(find(store))
    with open(path, "ab") as file:
        file.write(points(T0 + POINTS, POINTS, {1: 99.0, 2: 98.0}) + declare(3, "c") + points(T0, 0, {3: 1.0}))
    put(store, head(), declare(9, "a", rank="0"), points(T0 + POINTS + 1, 0, {9: 1.0}), writer="node7-50-1", number=2)
    assert as_read(find(store)) == as_dict(RunIndex.open(find(store)))


def damage_manifest(folder: Path) -> None:
    (folder / NAME).write_text("{")


def claim_another_version(folder: Path) -> None:
    record = json.loads((folder / NAME).read_text())
    (folder / NAME).write_text(json.dumps({**record, "index": record["index"] + 1}))


def shuffle_manifest(folder: Path) -> None:
    record = json.loads((folder / NAME).read_text())
    record["pieces"][0][3][1] = 10**12
    (folder / NAME).write_text(json.dumps(record))


def misspell_manifest(folder: Path) -> None:
    record = json.loads((folder / NAME).read_text())
    record["pieces"][0][3][6] = "soon"
    (folder / NAME).write_text(json.dumps(record))


def empty_manifest(folder: Path) -> None:
    (folder / NAME).write_text("[]")


def cut_columns(folder: Path) -> None:
    (path,) = folder.glob(f"*{SUFFIX}")
    path.write_bytes(path.read_bytes()[:-8])


def swap_columns(folder: Path) -> None:
    (path,) = folder.glob(f"*{SUFFIX}")
    path.write_bytes(b"x" * path.stat().st_size)


def lose_columns(folder: Path) -> None:
    (path,) = folder.glob(f"*{SUFFIX}")
    path.unlink()


@pytest.mark.parametrize(
    "damage",
    [
        damage_manifest,
        claim_another_version,
        shuffle_manifest,
        misspell_manifest,
        empty_manifest,
        cut_columns,
        swap_columns,
        lose_columns,
    ],
)
def test_an_index_that_is_not_whole_is_made_anew(damage: object, store: Path) -> None:
    """In silence: it's all in the lines."""
    put_long(store)
    read = as_read(find(store))
    RunIndex.open(find(store))
    damage(Path(find(store).folder) / FOLDER)  # type: ignore[operator]
    assert read == as_dict(RunIndex.open(find(store)))
    assert read == as_dict(RunIndex.open(find(store)))


def test_an_index_of_other_lines_is_made_anew(store: Path) -> None:
    """A run that was replaced by another one, shorter, longer or as long, isn't shown as it was."""
    (path,) = put_long(store)
    whole = path.read_bytes()
    for other in (
        whole.replace(b'"s": 5,', b'"s": 6,')[:-2000] + b"\n",
        whole.replace(b'"a"', b'"x"', 1),
        whole.replace(b'"v": [0.0', b'"v": [7.0', 1),
        whole[: len(whole) // 2],
    ):
        path.write_bytes(whole)
        RunIndex.open(find(store))
        path.write_bytes(other)
        assert as_read(find(store)) == as_dict(RunIndex.open(find(store)))


def test_a_run_that_is_replaced_while_it_is_open_is_read_anew(store: Path) -> None:
    """rsync may bring another copy at any time."""
    (path,) = put_long(store)
    index = RunIndex.open(find(store))
    path.write_bytes(b"".join([head(), declare(1, "z"), points(T0, 0, {1: 1.0})]))
    assert index.refresh()
    assert ["z"] == [series.name for series in index.series]
    path.unlink()
    assert index.refresh()
    assert () == index.series


def test_what_was_read_of_a_folder_that_is_gone_stands(store: Path) -> None:
    """A file server that's away for a while costs no chart; that it's away is told."""
    (path,) = put_long(store)
    index = RunIndex.open(find(store))
    path.parent.rename(path.parent.parent / ".away")
    assert not index.refresh()
    assert (2, (str(path.parent),)) == (len(index.series), index.unreadable)


def test_a_copied_run_brings_its_index(store: Path, tmp_path: Path) -> None:
    """Paths and times of files don't matter."""
    put_long(store)
    RunIndex.open(find(store))
    shutil.copytree(store, tmp_path / "copy")
    files = saved_files(tmp_path / "copy")
    assert as_read(find(tmp_path / "copy")) == as_dict(RunIndex.open(find(tmp_path / "copy")))
    assert files == saved_files(tmp_path / "copy")


def test_nothing_is_written_where_nothing_may_be(store: Path) -> None:
    """The run's folder stays as it was."""
    (path,) = put_long(store)
    assert as_read(find(store)) == as_dict(RunIndex.open(find(store), may_write=False))
    assert [path.parent.name] == os.listdir(path.parent.parent)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a folder away")
def test_another_users_run_is_indexed_in_the_cache(store: Path, tmp_path: Path) -> None:
    """What we'd put into their folder they couldn't remove."""
    put_long(store)
    info = find(store)
    os.chown(info.folder, 12345, 12345)
    code = (
        "import sys; from metrana.store.catalog import find_run; from metrana.store.index import RunIndex;"
        "print(sum(s.count for s in RunIndex.open(find_run(sys.argv[1], 'train')).series))"
    )
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", code, str(store)],
            env=environ,
            capture_output=True,
            text=True,
            timeout=DEADLINE_SECS,
            check=True,
        )
        assert f"{2 * POINTS}\n" == done.stdout
    (kept,) = (tmp_path / "cache" / "metrana" / "index").iterdir()
    assert (kept / NAME).exists()
    assert not (Path(info.folder) / FOLDER).exists()


def test_the_cache_forgets_what_was_not_used_for_long(tmp_path: Path) -> None:
    """An index of a month ago goes, a new one and what isn't an index stay."""
    for name in ("old", "new", "own", "foreign"):
        (tmp_path / name).mkdir()
        (tmp_path / name / (NAME if name != "foreign" else "photo")).touch()
        if name != "new":
            os.utime(tmp_path / name, (0, 0))
    remove_unused(str(tmp_path), str(tmp_path / "own"), NAME)
    assert ["foreign", "new", "own"] == sorted(os.listdir(tmp_path))


def test_the_place_is_the_runs_own_folder(tmp_path: Path) -> None:
    """Where it's ours; a folder that's gone has none."""
    assert str(tmp_path / FOLDER) == find_place(str(tmp_path), FOLDER, NAME)
    assert find_place(str(tmp_path / "gone"), FOLDER, NAME) is None
    assert "metrana" == os.path.basename(find_cache_folder())


def jobs_of(info: RunInfo) -> list[tuple[int, dict[str, SegmentPosition]]]:
    return [
        (number, {path: SegmentPosition() for path in writer.segments}) for number, writer in enumerate(info.writers)
    ]


@pytest.mark.once
def test_a_long_run_is_read_by_several_processes(store: Path) -> None:
    """With the same outcome, saved and not saved."""
    values = list(range(1000))
    burst = b"".join(
        line(c=1, u=[int((T0 + first + v / 1000) * 1e6) for v in values], s=values, v=[v / 3 for v in values], t=T0)
        for first in range(CREW_BYTES // 2 // 50_000)
    )
    for rank in range(3):
        put(
            store,
            head(pid=50 + rank, t=T0 + rank),
            declare(1, "a", rank=str(rank)),
            burst,
            writer=f"node7-{50 + rank}-1",
        )
    assert sum(path.stat().st_size for path in store.rglob("*.jsonl")) > CREW_BYTES
    read = as_read(find(store))
    assert read == as_dict(RunIndex.open(find(store), may_write=False))
    index = RunIndex.open(find(store), budget_secs=0.0)
    seen = {len(index.series)}
    while index.progress < 1.0:
        is_new = index.refresh(budget_secs=0.01)
        assert is_new or len(index.series) in seen
        seen.add(len(index.series))
    assert 3 in seen
    assert read == as_dict(index)
    index.close()
    assert NAME in saved_files(store)
    assert read == as_dict(RunIndex.open(find(store)))
    assert len(list((Path(find(store).folder) / FOLDER).glob(f"*{SUFFIX}"))) <= 3


def test_a_crew_that_dies_leaves_the_rest_to_read(store: Path, tmp_path: Path) -> None:
    """What none of them answered for stays in ``left``."""
    put_long(store, writers=2, rows=POINTS)
    crew = Crew(jobs_of(find(store)), str(tmp_path))
    for pid in crew.pids:
        os.kill(pid, 9)
    assert [] == list(crew.results(None))
    assert ({0, 1}, True) == (crew.left, crew.is_over)


def test_a_crew_without_a_folder_ends(store: Path, tmp_path: Path) -> None:
    """A worker that can't write says nothing and is gone."""
    put_long(store)
    crew = Crew(jobs_of(find(store)), str(tmp_path / "missing"))
    assert [] == list(crew.results(None))
    assert crew.is_over
