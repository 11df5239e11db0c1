"""A tree of files as one text file that a person can read and diff: ``python -m tests.trees pack|unpack``.

An archive is lines. What comes before the first entry is a comment. An entry is a line ``@ KIND MODE PATH``, KIND one
of ``file``, ``folder`` and ``link``, MODE as chmod has it (``-`` for a link), PATH from the tree's top; then comes the
content of the file, or where the link points to. Folders are listed where they're empty or their mode isn't 755.

Content is as it is, save for what couldn't be read or told apart: a backslash is ``\\\\``, any other byte that isn't
printable text ``\\xNN`` (so is an ``@`` that begins a line), and a lone ``\\`` at the end of a line says that no
newline follows. Tabs and printable UTF-8 are themselves.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

DATA = Path(__file__).parent / "data"
SUFFIX = ".tree"

_FOLDER_MODE = 0o755
_ESCAPED = re.compile(rb"\\(\\|x[0-9a-f]{2})")


class BadArchive(ValueError):
    """An archive or a tree that can't be taken: which, where, and what's wrong."""


@dataclass(frozen=True)
class Entry:
    """A file, a folder or a link of a tree. ``content`` is a file's bytes, or where a link points to."""

    kind: str
    mode: int
    path: str
    content: bytes = b""


def read_tree(root: Path) -> Iterator[Entry]:
    """What a folder holds, in the order of its names, every level for itself."""
    for path in sorted(root.iterdir()):
        yield from _read(path, path.name)


def _read(path: Path, name: str) -> Iterator[Entry]:
    status = path.lstat()
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISLNK(status.st_mode):
        yield Entry("link", 0, name, os.fsencode(os.readlink(path)))
    elif stat.S_ISREG(status.st_mode):
        yield Entry("file", mode, name, path.read_bytes())
    elif stat.S_ISDIR(status.st_mode):
        inside = sorted(path.iterdir())
        if not inside or mode != _FOLDER_MODE:
            yield Entry("folder", mode, name)
        for child in inside:
            yield from _read(child, f"{name}/{child.name}")
    else:
        raise BadArchive(f"{path} is no file, folder or link: an archive can't hold it")


def write_tree(entries: list[Entry], root: Path) -> None:
    """Make the tree in a folder, which is made, too; modes are as written, whatever the umask."""
    _make_folder(root)
    folders = []
    for entry in entries:
        path = root / entry.path
        if ".." in Path(entry.path).parts or not path.is_relative_to(root):
            raise BadArchive(f"{entry.path!r} leads out of the tree")
        _make_folder(path.parent)
        if entry.kind == "folder":
            _make_folder(path)
            folders.append(entry)
        elif entry.kind == "link":
            os.symlink(os.fsdecode(entry.content), path)
        else:
            path.write_bytes(entry.content)
            path.chmod(entry.mode)
    # Innermost first, and last of all: nothing can be put into a folder that mustn't be written.
    for entry in reversed(folders):
        (root / entry.path).chmod(entry.mode)


def _make_folder(path: Path) -> None:
    if not path.is_dir():
        _make_folder(path.parent)
        path.mkdir()
        path.chmod(_FOLDER_MODE)


def dump(entries: list[Entry], comment: bytes = b"") -> bytes:
    """The archive of these entries, below a comment of whole lines."""
    lines = []
    for entry in entries:
        mode = "-" if entry.kind == "link" else f"{entry.mode:03o}"
        lines.append(f"@ {entry.kind} {mode} ".encode() + _escape(os.fsencode(entry.path)))
        if entry.content:
            whole, newline, rest = entry.content.rpartition(b"\n")
            lines += [_escape(line) for line in whole.split(b"\n")] if newline else []
            lines += [_escape(rest) + b"\\"] if rest else []
    return comment + b"".join(line + b"\n" for line in lines)


def comment_of(archive: bytes) -> bytes:
    """What stands before an archive's first entry."""
    return re.split(rb"^@", archive, maxsplit=1, flags=re.MULTILINE)[0]


def load(archive: bytes, name: str = "archive") -> list[Entry]:
    """The entries of an archive. ``name`` is what errors call it. Raises BadArchive."""
    if archive and not archive.endswith(b"\n"):
        raise BadArchive(f"{name} is cut off: its last line has no end")
    found: list[tuple[Entry, list[bytes]]] = []
    for number, line in enumerate(archive.split(b"\n")[:-1], 1):
        where = f"{name}, line {number}"
        if line.startswith(b"@"):
            found.append((_load_header(line, where), []))
        elif found:
            ends = (len(line) - len(line.rstrip(b"\\"))) % 2 == 0
            found[-1][1].append(_unescape(line, where) + b"\n" if ends else _unescape(line[:-1], where))
    return [replace(entry, content=b"".join(parts)) for entry, parts in found]


def _load_header(line: bytes, where: str) -> Entry:
    words = line.split(b" ", 3)
    if len(words) < 4 or words[0] != b"@" or words[1] not in (b"file", b"folder", b"link"):
        raise BadArchive(f"{where}: not '@ file|folder|link MODE PATH', but {line!r}")
    try:
        mode = 0 if words[2] == b"-" else int(words[2], 8)
    except ValueError:
        raise BadArchive(f"{where}: no mode as chmod has it: {words[2]!r}") from None
    return Entry(words[1].decode(), mode, os.fsdecode(_unescape(words[3], where)))


def _escape(line: bytes) -> bytes:
    text = line.replace(b"\\", b"\\\\").decode("utf-8", "surrogateescape")
    if not text.replace("\t", "").isprintable():
        text = "".join(
            char
            if char == "\t" or char.isprintable()
            else "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogateescape"))
            for char in text
        )
    return (r"\x40" + text[1:] if text.startswith("@") else text).encode()


def _unescape(line: bytes, where: str) -> bytes:
    if b"\\" not in line:
        return line
    if b"\\" in _ESCAPED.sub(b"", line):
        raise BadArchive(f"{where}: a backslash that is neither \\\\ nor \\xNN")
    return _ESCAPED.sub(lambda found: b"\\" if found[1] == b"\\" else bytes([int(found[1][1:], 16)]), line)


@cache
def entries_of(name: str) -> tuple[Entry, ...]:
    """What an archive of tests/data holds, by its name without the suffix."""
    path = DATA / f"{name}{SUFFIX}"
    return tuple(load(path.read_bytes(), str(path)))


@cache
def unpacked(name: str) -> Path:
    """A folder with what an archive of tests/data holds, unpacked once in a process; ``conftest.py`` removes it."""
    folder = _home() / name
    write_tree(list(entries_of(name)), folder)
    return folder


@cache
def _home() -> Path:
    return Path(tempfile.mkdtemp(prefix="metrana-trees-"))


def remove_unpacked() -> None:
    """Remove what this process has unpacked."""
    if _home.cache_info().currsize:
        shutil.rmtree(_home())
        _home.cache_clear()
        unpacked.cache_clear()


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.trees", description="Trees of files as one text file each.")
    commands = parser.add_subparsers(dest="command", required=True)
    pack = commands.add_parser("pack", help="write a folder's archive; a comment that's there stays")
    pack.add_argument("folder", type=Path)
    pack.add_argument("archive", type=Path)
    unpack = commands.add_parser("unpack", help="make an archive's tree in a folder that isn't there yet")
    unpack.add_argument("archive", type=Path)
    unpack.add_argument("folder", type=Path)
    parsed = parser.parse_args(words)
    try:
        if parsed.command == "pack":
            entries = list(read_tree(parsed.folder))
            old = parsed.archive.read_bytes() if parsed.archive.exists() else b""
            parsed.archive.write_bytes(dump(entries, comment_of(old)))
        elif parsed.folder.exists():
            raise BadArchive(f"{parsed.folder} is there already")
        else:
            write_tree(load(parsed.archive.read_bytes(), str(parsed.archive)), parsed.folder)
    except (OSError, BadArchive) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
