"""What metrana says to its user: through ``logging``, logger ``metrana``, each warning once in a process's life.

Where nobody configured logging, a warning is a plain line on stderr (``logging.lastResort``) and the rest is silent.
"""

from __future__ import annotations

import sys

_said: set[str] = set()


def warn(message: str) -> None:
    """A warning: the user should know and may have to act."""
    if message not in _said:
        _said.add(message)
        _log("warning", message)


def note(message: str) -> None:
    """Information for those who configured logging: what can also be read in the run's attributes."""
    if "logging" in sys.modules:
        _log("info", message)


def _log(level: str, message: str) -> None:
    try:
        # Imported here: most runs never warn, and logging would be a tenth of what importing metrana may cost.
        import logging

        getattr(logging.getLogger("metrana"), level)(message)
    except Exception:  # a user's broken handler, no descriptor left to import with: a message is no reason to fail
        if level == "warning" and sys.stderr is not None:
            try:
                sys.stderr.write(f"metrana: {message}\n")
            except (OSError, ValueError):
                pass
