"""Imports that the modules beside somebody's script can't shadow.

Python puts the script's folder first on ``sys.path``. A ``queue.py`` or ``platform.py`` there is fine for the script
and would break ``multiprocessing`` when metrana imports it.
"""

from __future__ import annotations

import importlib.machinery
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType, TracebackType

_STDLIB = os.path.dirname(os.__file__)


class StdlibFirst:
    """While this context is open, names of the standard library mean the standard library.

    On leaving, what the script shadows is given back: its own modules return to ``sys.modules``, and a module that was
    loaded in their place is taken out, so that the script's later ``import queue`` finds its own. Costs one stat per
    folder in front of the standard library and module.
    """

    def __init__(self) -> None:
        self._shadowing: dict[str, ModuleType] = {}
        self._before: set[str] = set()
        self._in_front = _folders_in_front(sys.path)
        self._real_in_front = {_real(entry) for entry in self._in_front}
        self._known: dict[str, bool] = {}  # by folder: there are few, and each costs a stat per level

    def __enter__(self) -> None:
        if not self._in_front:
            return
        self._before = set(sys.modules)
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] in sys.stdlib_module_names and self._is_shadow(getattr(module, "__spec__", None)):
                self._shadowing[name] = sys.modules.pop(name)
        sys.meta_path.insert(0, self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._in_front:
            return
        sys.meta_path.remove(self)
        for name in set(sys.modules) - self._before:
            if name in sys.stdlib_module_names and importlib.machinery.PathFinder.find_spec(name, self._in_front):
                del sys.modules[name]
        sys.modules.update(self._shadowing)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The finder's part: a top-level name of the standard library is looked up behind the script's folders."""
        if path is not None or name not in sys.stdlib_module_names:
            return None
        return importlib.machinery.PathFinder.find_spec(name, [p for p in sys.path if p not in self._in_front])

    def _is_shadow(self, spec: importlib.machinery.ModuleSpec | None) -> bool:
        if spec is None or not spec.has_location or not isinstance(spec.origin, str):
            return False  # built-in or frozen ones have no place
        folder = os.path.dirname(spec.origin)
        for _ in range(spec.name.count(".") + (spec.submodule_search_locations is not None)):
            folder = os.path.dirname(folder)  # a package's __init__, a module in a package
        if folder not in self._known:
            self._known[folder] = _real(folder) in self._real_in_front
        return self._known[folder]


def _folders_in_front(path: list[str]) -> list[str]:
    """The entries of ``sys.path`` that come before the standard library: the script's folder, PYTHONPATH."""
    for index, entry in enumerate(path):
        if _real(entry) == _real(_STDLIB):
            # The zip that may hold the standard library stands right before it.
            return [p for p in path[:index] if not os.path.basename(p).startswith("python")]
    return []


def _real(folder: str) -> str:
    try:
        return os.path.realpath(folder or ".")
    except OSError:
        return folder  # the working folder is gone
