"""Where the child finds its packages: wherever the training process would, never in a module that only has the name.

The child's interpreter is isolated: no site-packages, no PYTHONPATH, no script folder. It gets the folders of the few
packages that it needs, behind its own standard library.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys

PACKAGES = ("psutil", "portalocker", "pynvml")

_found: dict[tuple[str, ...], list[str]] = {}


def find_folders() -> list[str]:
    """The folders to append to the child's module path, in the order in which they're to be searched.

    metrana's own folder comes last: it may be the user's project, with modules of any name in it.
    """
    path = tuple(sys.path)
    if path not in _found:
        _found[path] = _find_folders()
    return _found[path]


def _find_folders() -> list[str]:
    folders: list[str] = []
    for name in PACKAGES:
        folder = _find_folder(name)
        if folder and folder not in folders:
            folders.append(folder)
    own = own_folder()
    return folders if own in folders else [*folders, own]


def own_folder() -> str:
    """The folder, or the zip, that this metrana was imported from."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _find_folder(name: str) -> str | None:
    """The folder that holds a package, through editable installs, ``--target`` folders, PYTHONPATH, dist-packages."""
    users_own = _script_folders()
    for entry in sys.path:
        spec = importlib.machinery.PathFinder.find_spec(name, [entry])
        if spec is None or not spec.origin:
            continue
        folder = entry or os.getcwd()
        if os.path.realpath(folder) not in users_own or _has_metadata(folder, name):
            return os.path.abspath(folder)
    try:
        # Editable installs may answer through a finder of their own instead of a path.
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None or not spec.origin:
        return None
    package_file = os.path.abspath(spec.origin)
    parent = os.path.dirname(package_file)
    if spec.submodule_search_locations is not None:
        parent = os.path.dirname(parent)
    return None if os.path.realpath(parent) in users_own else parent


def _script_folders() -> set[str]:
    """The folders whose modules are the user's own: the script's and the working folder."""
    main_file = getattr(sys.modules.get("__main__"), "__file__", None)
    folders = set()
    try:
        folders.add(os.path.realpath(os.getcwd()))
    except OSError:
        pass  # the working folder is gone
    if isinstance(main_file, str):
        folders.add(os.path.dirname(os.path.realpath(main_file)))
    return folders


def _has_metadata(folder: str, name: str) -> bool:
    """Whether a package was installed into the folder by a tool (``pip install --target .``)."""
    distributions = ("nvidia_ml_py", "pynvml") if name == "pynvml" else (name,)
    try:
        entries = os.listdir(folder)
    except OSError:
        return False
    return any(
        entry.startswith(f"{distribution}-") and entry.endswith((".dist-info", ".egg-info"))
        for entry in entries
        for distribution in distributions
    )
