"""The line that init() prints to a terminal: where the run is kept, and how to look at it."""

from __future__ import annotations

import os
import re
import sys

from metrana.settings import resolve_dir

_SCRIPT_BYTES = 1024  # in which an installed command names its interpreter


def announce(name: str, store_dir: str, rank: int | None, is_news: bool) -> None:
    """Print the line where stderr is a terminal: in the first of a launch's ranks, else where the run ``is_news``."""
    try:
        if (is_news if rank is None else rank == 0) and sys.stderr.isatty():
            sys.stderr.write(describe_run(name, store_dir) + "\n")
    except Exception:  # closed, gone, an object of the script's own: a line is no reason to fail
        pass


def describe_run(name: str, store_dir: str) -> str:
    """The line, without an end. The folder and the command hold where it's printed, in the working folder."""
    command = f"{find_command()} ui"
    if resolve_dir(os.environ) != store_dir:
        command += f" --dir {_quote(_shorten(store_dir))}"
    return _make_printable(f"metrana: run {name} is kept in {_shorten(store_dir)}; look: {command}")


def find_command() -> str:
    """How this metrana is called in a shell: by its name, where that's this one, else as a module of this Python."""
    own = _find_on_path("metrana")
    if own is not None:
        try:
            with open(own, "rb") as file:
                # To the end of the word: python3 is another one than python3.11.
                if re.search(re.escape(os.fsencode(sys.executable)) + rb"(?![\w.-])", file.read(_SCRIPT_BYTES)):
                    return "metrana"
        except OSError:
            pass  # not for this user to read
    for name in ("python", "python3"):
        if _find_on_path(name) == sys.executable:
            return f"{name} -m metrana"
    beside = os.path.join(os.path.dirname(sys.executable), "metrana")
    if os.access(beside, os.X_OK):
        return _quote(_shorten(beside))
    return f"{_quote(_shorten(sys.executable or 'python3'))} -m metrana"


def _find_on_path(name: str) -> str | None:
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(folder, name)
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    return None


def _shorten(path: str) -> str:
    """A path below the working folder without that."""
    folder = os.path.join(os.getcwd(), "")
    return f"./{path[len(folder) :]}" if path.startswith(folder) else path


def _quote(word: str) -> str:
    if all(character.isalnum() or character in "_-./+:@%," for character in word):
        return word
    return "'" + word.replace("'", "'\\''") + "'"


def _make_printable(text: str) -> str:
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)
