"""What a run puts into the environment for the processes that this one starts, and takes back when it's closed."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_published: dict[str, tuple[str, str | None]] = {}  # by variable: what was put there, and what had been there


def publish(variables: Mapping[str, str]) -> None:
    """Put variables into the environment, in the place of those published before."""
    withdraw()
    for name, value in variables.items():
        _published[name] = (value, os.environ.get(name))
        os.environ[name] = value


def withdraw() -> None:
    """Give the environment back as it was, except for what the script has changed since."""
    for name, (value, before) in _published.items():
        if os.environ.get(name) != value:
            continue
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
    _published.clear()


def environ_of_others() -> Mapping[str, str]:
    """The environment without what this process has put there itself: that's for its children."""
    own = {name: before or "" for name, (value, before) in _published.items() if os.environ.get(name) == value}
    return {**os.environ, **own} if own else os.environ
