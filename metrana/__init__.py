"""metrana: the hardware charted beside the loss, from a child process, with nothing to log and nothing to set up.

::

    import metrana

    with metrana.init(run_name="pretrain"):
        metrana.log("loss", 0.31)
"""

from __future__ import annotations

from metrana.imports import StdlibFirst

# At once and not when first used: init() then needs no import, which could fail where no descriptor is left, and the
# modules beside the user's script can't get in between.
with StdlibFirst():
    from metrana.errors import (
        MetranaError,
        MetricError,
        MissingExtraError,
        NoRunError,
        RunNotFoundError,
        SeriesNotFoundError,
        SettingError,
        StoreError,
    )
    from metrana.run import Run
    from metrana.session import close, current_run, flush, init, log, log_attributes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from metrana.data import open_run, runs

__version__ = "0.1.0"

__all__ = [
    "MetranaError",
    "MetricError",
    "MissingExtraError",
    "NoRunError",
    "Run",
    "RunNotFoundError",
    "SeriesNotFoundError",
    "SettingError",
    "StoreError",
    "__version__",
    "close",
    "current_run",
    "flush",
    "init",
    "log",
    "log_attributes",
    "open_run",
    "runs",
]


def __dir__() -> list[str]:
    return list(__all__)


def __getattr__(name: str) -> object:
    """The reading side, which a training doesn't load."""
    if name in ("open_run", "runs"):
        from metrana import data

        return getattr(data, name)
    raise AttributeError(f"module 'metrana' has no attribute {name!r}")
