"""Every error that metrana raises, in one tree."""

from __future__ import annotations


class MetranaError(Exception):
    """The root of metrana's errors."""


class SettingError(MetranaError, ValueError):
    """An argument of a call that can't be used; the message names it and the way out."""


class MetricError(MetranaError, ValueError):
    """A metric's name, value, step, labels or timestamp can't be logged; the message names the metric."""


class NoRunError(MetranaError, RuntimeError):
    """A call needs an open run and there is none."""


class StoreError(MetranaError, OSError):
    """The local store can't be written or read; the message names the folder and the way out."""


class RunNotFoundError(MetranaError, LookupError):
    """No run of the store has that name or id."""


class SeriesNotFoundError(MetranaError, LookupError):
    """No series of the run has that name, matches that pattern or carries that label."""


class MissingExtraError(MetranaError, ImportError):
    """A package that this needs isn't installed; the message names it and the pip command."""


class Unavailable(MetranaError):
    """A thing isn't there and won't turn up: drop it at once. The message says why in a few words."""


class ReadFailed(MetranaError):
    """A reading failed and may work the next time: drop it after five failures in a row."""


def describe_error(error: BaseException) -> str:
    """An error in a few words for a warning or an attribute."""
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return text or type(error).__name__
