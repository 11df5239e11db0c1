"""Where what's derived from a folder lies: hidden in that folder itself, else in the user's cache folder."""

from __future__ import annotations

import os
import shutil
import time

from metrana.identity import fingerprint

UNUSED_SECS = 30 * 86_400.0


def find_place(folder: str, hidden: str, mark: str) -> str | None:
    """The folder for what's derived from ``folder``, which needn't be there yet; None where none can be written.

    It's called ``hidden``, a name with a dot in front, and holds a file called ``mark``. Another user's folder is left
    as it is, even where it can be written: what we put there they couldn't remove.
    """
    try:
        is_own = not hasattr(os, "geteuid") or os.stat(folder).st_uid == os.geteuid()
        if is_own and os.access(folder, os.W_OK | os.X_OK):
            return os.path.join(folder, hidden)
        cache = os.path.join(find_cache_folder(), hidden.lstrip("."))
        own = os.path.join(cache, fingerprint(os.path.realpath(folder)))
        os.makedirs(own, mode=0o700, exist_ok=True)
        remove_unused(cache, own, mark)
        return own
    except OSError:
        return None


def find_cache_folder() -> str:
    """metrana's folder in the user's cache (https://specifications.freedesktop.org/basedir-spec/latest/)."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return os.path.join(base if os.path.isabs(base) else os.path.expanduser("~/.cache"), "metrana")


def remove_unused(cache: str, own: str, mark: str) -> None:
    """Remove what of a cache wasn't used for a month: folders with a file called ``mark``, and empty ones."""
    now = time.time()
    os.utime(own)
    for name in os.listdir(cache):
        path = os.path.join(cache, name)
        try:
            if now - os.stat(path).st_mtime > UNUSED_SECS and (
                os.path.exists(os.path.join(path, mark)) or not os.listdir(path)
            ):
                shutil.rmtree(path)
        except OSError:
            pass  # another process was first, or it isn't ours
