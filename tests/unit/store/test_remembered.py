"""What's remembered of a store never shows: a listing is what one without any memory would be."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metrana.store.catalog import Catalog, CatalogReader
from metrana.store.ends import WriterEnds
from metrana.store.remembered import FOLDER, NAME, Remembered, State
from tests.unit.store.build import T0, end, head, make_host, points, put

UNSETTLED_NS = 30_000_000  # longer than the clock of a file system stands still
DEADLINE_SECS = 60


def remember(store: Path) -> Remembered:
    return Remembered(str(store), least=1, unsettled_ns=UNSETTLED_NS)


def list_plain(store: Path) -> Catalog:
    return CatalogReader(str(store), remembers=False).read(make_host(store.parent / "machine"))


def list_remembered(store: Path, reader: CatalogReader | None = None) -> Catalog:
    reader = reader or CatalogReader(str(store), remember(store))
    return reader.read(make_host(store.parent / "machine"))


def put_writers(store: Path, count: int) -> list[Path]:
    paths = []
    for number in range(count):
        run = f"r{number % 3}"
        lines = head(run, T0 + number, pid=50 + number), points(T0 + number + 1, 0, {1: 1.0})
        paths.append(put(store, *lines, run=run, writer=f"node7-{50 + number}-1"))
    return paths


def settle(store: Path) -> None:
    """Wait until the last change is old enough to be remembered, by the clock that files are stamped with."""
    probe = store.parent / "probe"
    newest = max((path.stat().st_ctime_ns for path in store.rglob("*")), default=0)
    while True:
        probe.write_text("")
        if probe.stat().st_ctime_ns - newest > 2 * UNSETTLED_NS:
            return
        time.sleep(UNSETTLED_NS / 1e9)  # only the clock is waited for


@contextmanager
def opened(store: Path) -> Iterator[list[str]]:
    """The segments that are opened meanwhile."""
    paths: list[str] = []
    watching = True

    def watch(event: str, args: tuple[object, ...]) -> None:
        if watching and event == "open" and str(args[0]).startswith(str(store)) and str(args[0]).endswith(".jsonl"):
            paths.append(str(args[0]))

    sys.addaudithook(watch)
    yield paths
    watching = False


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def test_only_what_has_changed_is_opened_again(store: Path) -> None:
    """Of a store that was listed before, by a process that has ended, only the writer that grew."""
    paths = put_writers(store, 6)
    settle(store)
    before = list_remembered(store)
    with opened(store) as segments:
        assert before == list_remembered(store)
    assert [] == segments
    with open(paths[4], "ab") as file:
        file.write(end(T0 + 99))
    with opened(store) as segments:
        after = list_remembered(store)
    assert {str(paths[4])} == set(segments)
    assert list_plain(store) == after != before


def test_a_small_store_gets_no_file(store: Path) -> None:
    """Some runs are read again as fast."""
    put_writers(store, 6)
    settle(store)
    CatalogReader(str(store)).read()
    assert not (store / FOLDER).exists()


def test_the_file_keeps_out_of_git_and_of_the_listing(store: Path) -> None:
    """It lies in a hidden folder, which says so to git."""
    put_writers(store, 6)
    settle(store)
    assert list_plain(store) == list_remembered(store) == list_plain(store)
    assert "*\n" == (store / FOLDER / ".gitignore").read_text()
    assert {NAME, ".gitignore"} == {path.name for path in (store / FOLDER).iterdir()}


CHANGES = (
    "grow",
    "cut",
    "same size",
    "end",
    "resume",
    "segment",
    "remove",
    "rename",
    "copy",
    "swap",
    "damage",
    "settle",
)


@given(st.lists(st.tuples(st.sampled_from(CHANGES), st.integers(0, 5), st.booleans()), max_size=10), st.booleans())
@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_happens_to_a_store_its_listing_is_right(
    changes: list[tuple[str, int, bool]], is_one_reader: bool
) -> None:
    """After each change a listing that remembers equals one that doesn't, of one reader or several."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        put_writers(store, 6)
        settle(store)
        reader = CatalogReader(str(store), remember(store)) if is_one_reader else None
        assert list_plain(store) == list_remembered(store, reader)
        for number, (change, which, is_listed) in enumerate(changes):
            apply(store, change, which, number)
            if is_listed:
                assert list_plain(store) == list_remembered(store, reader), change
        assert list_plain(store) == list_remembered(store, reader)


def apply(store: Path, change: str, which: int, number: int) -> None:
    segments = sorted(store.rglob("*.jsonl"))
    if change == "damage":
        file = store / FOLDER / NAME
        if file.exists():
            data = file.read_bytes()
            file.write_bytes(data[: len(data) * which // 6] + b"x" * (which % 2) + data[len(data) * which // 6 + 1 :])
    elif change == "settle":
        settle(store)
    elif segments:
        alter(store, segments[which % len(segments)], change, number)


def alter(store: Path, path: Path, change: str, number: int) -> None:
    if change == "grow":
        path.write_bytes(path.read_bytes() + points(T0 + 100 + number, 0, {1: 1.0}))
    elif change == "cut":
        os.truncate(path, path.stat().st_size * 2 // 3)
    elif change == "same size":
        with open(path, "r+b") as file:
            file.seek(path.stat().st_size // 2)
            file.write(b"#" * min(30, path.stat().st_size // 2))
        os.utime(path, (T0, T0))
    elif change == "end":
        with open(path, "ab") as file:
            file.write(end(T0 + 50 + number, "closed" if number % 2 else "failed"))
    elif change == "resume":
        later = head("r0", T0 + 200 + number, pid=900 + number).replace(b'"rank": null', b'"rank": 1, "resumed": true')
        put(store, later, run="r0", writer=f"node7-{900 + number}-{number:x}")
    elif change == "segment":
        run, _, run_id = path.parent.parent.name.partition("@")
        lines = head("r9", T0 + number), end(T0 + 300)
        put(store, *lines, run=run, id=run_id, writer=path.parent.name, number=2 + number)
    elif change == "remove":
        shutil.rmtree(path.parent.parent if number % 2 else path.parent)
    elif change == "rename":
        path.parent.rename(path.parent.with_name(f"node8-{number}-{number}"))
    elif change == "copy":
        copied = path.parent.parent.with_name(f"copy{number}@{number}")
        shutil.copytree(path.parent.parent, copied, copy_function=shutil.copy2)
    elif change == "swap":
        other = path.with_name("other")
        shutil.copy2(path, other)
        os.replace(other, path)


def write_file(store: Path, body: bytes, checksum: int | None = None) -> None:
    first = b"metrana catalog 1 %08x\n" % (zlib.crc32(body) if checksum is None else checksum)
    (store / FOLDER / NAME).write_bytes(first + body)


@pytest.mark.parametrize(
    "change",
    [
        lambda row: row.clear(),
        lambda row: row.__setitem__(1, 10**6),
        lambda row: row.__setitem__(1, "x"),
        lambda row: row[2].__setitem__(1, "pid"),
        lambda row: row[2].__setitem__(4, float("inf")),
        lambda row: row[2].pop(),
        lambda row: row.__setitem__(3, None),
        lambda row: row.__setitem__(4, "late"),
        lambda row: row.__setitem__(5, ["closed"]),
        lambda row: row.__setitem__(0, {}),
    ],
)
def test_a_row_that_we_have_not_saved_is_passed_over(store: Path, change: object) -> None:
    """Whatever stands in a file whose checksum is right."""
    put_writers(store, 6)
    settle(store)
    list_remembered(store)
    record = json.loads((store / FOLDER / NAME).read_bytes().partition(b"\n")[2])
    for row in record["writers"].values():
        change(row)  # type: ignore[operator]
    write_file(store, json.dumps(record).encode())
    assert list_plain(store) == list_remembered(store)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"runs":1,"writers":{}}', b"[" * 100_000, b'{"runs":[1],"writers":{}}']
)
def test_a_file_that_is_none_of_ours_counts_for_nothing(store: Path, body: bytes) -> None:
    """Nor does one that's nested so deeply that it can't be parsed; it's made anew."""
    put_writers(store, 6)
    settle(store)
    list_remembered(store)
    whole = (store / FOLDER / NAME).read_bytes()
    write_file(store, body)
    assert list_plain(store) == list_remembered(store)
    assert whole == (store / FOLDER / NAME).read_bytes()
    write_file(store, whole.partition(b"\n")[2], checksum=1)
    assert list_plain(store) == list_remembered(store)


@pytest.mark.parametrize("kind", ["file", "folder", "pipe"])
def test_no_link_is_followed_and_no_pipe_waited_for(store: Path, tmp_path: Path, kind: str) -> None:
    """Whoever has put it there: what it points to is neither read nor changed."""
    put_writers(store, 6)
    settle(store)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / NAME).write_text("mine")
    if kind == "folder":
        (store / FOLDER).symlink_to(elsewhere)
    else:
        (store / FOLDER).mkdir()
        if kind == "file":
            (store / FOLDER / NAME).symlink_to(elsewhere / NAME)
        else:
            os.mkfifo(store / FOLDER / NAME)
    assert list_plain(store) == list_remembered(store) == list_remembered(store)
    assert "mine" == (elsewhere / NAME).read_text()
    assert [NAME] == os.listdir(elsewhere)


def test_two_that_list_at_once_harm_nothing(store: Path) -> None:
    """Each replaces the file as a whole, and leaves nothing else behind."""
    put_writers(store, 30)
    settle(store)
    code = (
        "import sys; from metrana.store.catalog import CatalogReader; from metrana.store.remembered import Remembered\n"
        "for _ in range(20): print(len(CatalogReader(sys.argv[1], Remembered(sys.argv[1], least=1))"
        ".read().runs[0].writers), flush=True)"
    )
    command = [sys.executable, "-c", code, str(store)]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    for _ in range(20):
        (store / FOLDER / NAME).unlink(missing_ok=True)
        assert list_plain(store) == list_remembered(store)
    for child in children:
        out, _ = child.communicate(timeout=DEADLINE_SECS)
        assert (0, ["10"] * 20) == (child.returncode, out.split())
    assert {NAME, ".gitignore"} >= {path.name for path in (store / FOLDER).iterdir()}


def _list_as_nobody(store: str, cache: str, answers: object) -> None:
    os.environ["XDG_CACHE_HOME"] = cache
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    found = [list_remembered(Path(store)) == list_plain(Path(store)) for _ in range(2)]
    answers.put(found)  # type: ignore[attr-defined]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("has_cache", [True, False])
def test_another_users_store_is_left_as_it_is(has_cache: bool) -> None:
    """A store that can't be written is listed all the same; what's remembered of it lies in the own cache folder."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        store, cache = Path(folder) / "store", Path(folder) / "cache"
        put_writers(store, 6)
        make_host(Path(folder) / "machine")
        for path in (Path(folder) / "machine").rglob("*"):
            os.chown(path, 65534, 65534)
        cache.mkdir(mode=0o700)
        if has_cache:
            os.chown(cache, 65534, 65534)
        settle(store)
        context = multiprocessing.get_context("fork")
        answers = context.Queue()
        child = context.Process(target=_list_as_nobody, args=(str(store), str(cache), answers))
        child.start()
        assert [True, True] == answers.get(timeout=DEADLINE_SECS)
        child.join(DEADLINE_SECS)
        assert not (store / FOLDER).exists()
        assert has_cache == bool(list(cache.rglob(NAME)))


@pytest.mark.parametrize(
    ("changed", "is_kept"), [(999_000_001, True), (500_000_001, True), (1_900_000_001, False), (1_000_000_000, False)]
)
def test_what_has_just_changed_is_not_remembered(store: Path, changed: int, is_kept: bool) -> None:
    """Once more it could change unseen: within the pause of a file system's clock, longer where that counts seconds."""
    remembered = Remembered(str(store))
    ends = WriterEnds(None, 1, 0.0, 0.0, None)
    state: State = [["000001.jsonl", 1, 2, changed, changed]]
    remembered.keep("writer", state, ends, looked_ns=2_000_000_000)
    remembered.end_reading()
    assert is_kept == (ends == remembered.find("writer", state))
