"""Where a run's index lies: in the run's own folder, else in the user's cache folder."""

from __future__ import annotations

import os
import shutil
import time

from metrana.identity import fingerprint
from metrana.store.index.files import FOLDER
from metrana.store.index.manifest import NAME

UNUSED_SECS = 30 * 86_400.0


def find_place(run_folder: str) -> str | None:
    """The folder for a run's index, which needn't be there yet; None where there's none to write into.

    Another user's run folder is left as it is, even where it can be written: what we put there they couldn't remove.
    """
    try:
        is_own = not hasattr(os, "geteuid") or os.stat(run_folder).st_uid == os.geteuid()
        if is_own and os.access(run_folder, os.W_OK | os.X_OK):
            return os.path.join(run_folder, FOLDER)
        cache = os.path.join(find_cache_folder(), "index")
        own = os.path.join(cache, fingerprint(os.path.realpath(run_folder)))
        os.makedirs(own, mode=0o700, exist_ok=True)
        remove_unused(cache, own)
        return own
    except OSError:
        return None


def find_cache_folder() -> str:
    """metrana's folder in the user's cache (https://specifications.freedesktop.org/basedir-spec/latest/)."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return os.path.join(base if os.path.isabs(base) else os.path.expanduser("~/.cache"), "metrana")


def remove_unused(cache: str, own: str) -> None:
    """Remove the indexes of a cache that weren't used for a month."""
    now = time.time()
    os.utime(own)
    for name in os.listdir(cache):
        path = os.path.join(cache, name)
        try:
            if now - os.stat(path).st_mtime > UNUSED_SECS and (
                os.path.exists(os.path.join(path, NAME)) or not os.listdir(path)
            ):
                shutil.rmtree(path)
        except OSError:
            pass  # another process was first, or it isn't ours
