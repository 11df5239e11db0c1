"""Locks on open files: portalocker's ``lock``, never waited for. The only importer of ``portalocker``.

A lock belongs to the open file (flock(2)): closing it releases the lock, and so does the end of the process, however
that comes.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any

HELD = False
"""What try_lock() answers where another process holds the lock."""


def try_lock(fd: int, is_shared: bool = False) -> bool:
    """Lock an open file, exclusively or shared. False where somebody else holds it.

    Raises OSError where the file system has no locks, ImportError without portalocker.
    """
    module = _load()
    flags = module.LockFlags.SHARED if is_shared else module.LockFlags.EXCLUSIVE
    try:
        module.lock(fd, flags | module.LockFlags.NON_BLOCKING)
    except module.exceptions.AlreadyLocked:
        return HELD
    except module.exceptions.LockException as error:
        cause = next((item for item in (*error.args, error.__cause__) if isinstance(item, OSError)), None)
        if isinstance(cause, BlockingIOError):
            return HELD  # releases before 2.8 don't tell it apart
        raise cause or OSError(str(error)) from error
    return True


def _load() -> Any:
    """portalocker's module of the low-level calls, without the rest of the package.

    ``import portalocker`` loads e-mail, logging, metadata and asyncio for its other classes: 5 MB in each child.
    """
    loaded = sys.modules.get("portalocker.portalocker")
    if loaded is not None:
        return loaded
    if "portalocker" not in sys.modules:
        # The package as an empty module, for as long as its part is imported.
        spec = importlib.util.find_spec("portalocker")
        if spec is None or spec.submodule_search_locations is None:
            raise ImportError("portalocker isn't installed", name="portalocker")
        sys.modules["portalocker"] = importlib.util.module_from_spec(spec)
        try:
            return importlib.import_module("portalocker.portalocker")
        except Exception:
            pass  # a release that is built otherwise: then the whole package
        finally:
            del sys.modules["portalocker"]
    importlib.import_module("portalocker")
    return sys.modules["portalocker.portalocker"]
