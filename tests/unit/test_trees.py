"""The trees of tests/data, each a text file."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.trees import DATA, SUFFIX, BadArchive, Entry, comment_of, dump, load, main, read_tree, write_tree

ARCHIVES = sorted(DATA.rglob(f"*{SUFFIX}"))


def look(root: Path) -> dict[str, tuple[int, bytes | str | None]]:
    """Everything below a folder: mode with kind, and content or where it points to."""
    found: dict[str, tuple[int, bytes | str | None]] = {}
    for path in root.rglob("*"):
        mode = path.lstat().st_mode
        content = os.readlink(path) if stat.S_ISLNK(mode) else path.read_bytes() if stat.S_ISREG(mode) else None
        found[str(path.relative_to(root))] = (mode, content)
    return found


def test_any_tree_comes_back(tmp_path: Path) -> None:
    """Odd bytes and names, a missing newline, links, modes, empty folders: all the same when unpacked again."""
    tree = tmp_path / "tree"
    (tree / "empty" / "in it").mkdir(parents=True)
    (tree / "a -> b").write_bytes(b"no newline")
    (tree / "new\nline").write_bytes(b"\n")
    (tree / os.fsdecode(b"\xffname")).write_bytes(b"")
    (tree / "odd").write_bytes(b"@ file 644 x\n\\040 \\\n\t\x00\xff\r\n\xe2\x80\xa8\xc3\xa9\n\n\\")
    (tree / "dangling").symlink_to("../no\\where")
    (tree / "script").write_bytes(b"#!/bin/sh\n")
    (tree / "script").chmod(0o4750)
    (tree / "locked").mkdir()
    (tree / "locked" / "inside").write_bytes(b"x\n")
    (tree / "locked" / "inside").chmod(0o400)
    (tree / "locked").chmod(0o555)
    archive, again = tmp_path / "archive", tmp_path / "again"
    assert 0 == main(["pack", str(tree), str(archive)])
    assert 0 == main(["unpack", str(archive), str(again)])
    assert look(tree) == look(again)
    assert archive.read_bytes().decode().replace("\n", "").replace("\t", "").isprintable()


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=64))
def test_any_content_comes_back(content: bytes) -> None:
    """Whatever a file holds is the same after packing and unpacking, and so is what stands after it."""
    entries = [Entry("file", 0o644, "a", content), Entry("file", 0o600, "b", b"after\n")]
    assert entries == load(dump(entries, b"a comment\n"))


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.stem)
def test_an_archive_is_written_as_it_would_be_packed(archive: Path) -> None:
    """Unpacked and packed again each archive of the tests is itself: an edit by hand is in its place."""
    with tempfile.TemporaryDirectory() as folder:
        write_tree(load(archive.read_bytes()), Path(folder, "tree"))
        packed = dump(list(read_tree(Path(folder, "tree"))), comment_of(archive.read_bytes()))
        assert archive.read_bytes() == packed


@pytest.mark.parametrize(
    ("archive", "error"),
    [
        (b"@ file 644 a\nx", "cut off"),
        (b"@ fil 644 a\n", "line 1: not '@ file|folder|link MODE PATH'"),
        (b"@ file rw a\n", "line 1: no mode"),
        (b"@ file 644 a\n\\q\n", "line 2: a backslash"),
        (b"@ file 644 ../a\n", "leads out of the tree"),
        (b"@ file 644 /a\n", "leads out of the tree"),
    ],
)
def test_an_archive_that_is_wrong_says_where(archive: bytes, error: str, tmp_path: Path) -> None:
    """A slip in an archive is an error that names it."""
    with pytest.raises(BadArchive, match=error.replace("|", r"\|")):
        write_tree(load(archive), tmp_path / "tree")
