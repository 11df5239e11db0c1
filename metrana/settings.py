"""Settings: argument, then environment, then default. A system setting that makes no sense warns and is ignored."""

from __future__ import annotations

import os
import stat

from metrana.errors import SettingError, StoreError
from metrana.guesses import find_near

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeVar

    T = TypeVar("T")

MIN_INTERVAL_SECS = 1.0
_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")


class Setting:
    """One setting: the argument of ``init()``, its environment variable and its default."""

    __slots__ = ("argument", "variable", "default", "help")

    def __init__(self, argument: str, variable: str, default: object, help: str) -> None:
        self.argument = argument
        self.variable = variable
        self.default = default
        self.help = help


DIR = Setting("dir", "METRANA_DIR", "./.metrana", "folder of the local store")
ORCHESTRATION_ID = Setting(
    "orchestration_id",
    "METRANA_ORCHESTRATION_ID",
    None,
    "what the processes of one run agree on; found by itself under the usual launchers",
)
CAPTURE = Setting(
    "capture_system_metrics", "METRANA_CAPTURE_SYSTEM_METRICS", True, "whether the hardware is charted: 1 or 0"
)
INTERVAL = Setting(
    "system_metrics_interval_secs",
    "METRANA_SYSTEM_METRICS_INTERVAL_SECS",
    30.0,
    "seconds from one sample of the hardware to the next, at least one",
)
QUIET = Setting("quiet", "METRANA_QUIET", False, "whether init() keeps its line on a terminal to itself: 1 or 0")

SETTINGS = (DIR, ORCHESTRATION_ID, CAPTURE, INTERVAL, QUIET)
ATTEMPT_VARIABLE = "METRANA_ATTEMPT"
"""Published by a run for the processes that its process starts: its id, the attempt at it, the launch."""
_PREFIX = "METRANA_"


class Settings:
    """The resolved settings of one ``init()``; ``warnings`` name what was ignored."""

    __slots__ = ("dir", "orchestration_id", "capture", "interval_secs", "quiet", "warnings")

    def __init__(
        self,
        dir: str,
        orchestration_id: str | None,
        capture: bool,
        interval_secs: float,
        quiet: bool,
        warnings: list[str],
    ) -> None:
        self.dir = dir
        self.orchestration_id = orchestration_id
        self.capture = capture
        self.interval_secs = interval_secs
        self.quiet = quiet
        self.warnings = warnings


def resolve_settings(
    environ: Mapping[str, str],
    dir: object = None,
    orchestration_id: object = None,
    capture_system_metrics: object = None,
    system_metrics_interval_secs: object = None,
    quiet: object = None,
) -> Settings:
    """The settings that hold. Raises SettingError where the store's folder or the orchestration id can't be used."""
    warnings = _find_misspelt(environ)
    return Settings(
        dir=resolve_dir(environ, dir),
        orchestration_id=_resolve_orchestration_id(environ, orchestration_id),
        capture=_resolve_system(CAPTURE, capture_system_metrics, environ, parse_switch, True, warnings),
        interval_secs=_resolve_system(INTERVAL, system_metrics_interval_secs, environ, parse_interval, 30.0, warnings),
        quiet=_resolve_system(QUIET, quiet, environ, parse_switch, False, warnings),
        warnings=warnings,
    )


def _find_misspelt(environ: Mapping[str, str]) -> list[str]:
    """A warning for each variable that's nearly one of ours. Others may have variables that begin so, too."""
    known = [setting.variable for setting in SETTINGS]
    ours = [name for name in environ if name.startswith(_PREFIX) and name not in (*known, ATTEMPT_VARIABLE)]
    warnings = []
    for name in ours:
        near = find_near(name[len(_PREFIX) :], [each[len(_PREFIX) :] for each in known])
        if near is not None:
            warnings.append(f"{name} is no setting and is ignored: did you mean {_PREFIX}{near}?")
    return warnings


def resolve_dir(environ: Mapping[str, str], dir: object = None) -> str:
    """The store's folder as an absolute path: the script may change its working folder later. Raises SettingError."""
    value = environ.get(DIR.variable) or DIR.default if dir is None else dir
    try:
        path = os.fsdecode(value)  # type: ignore[arg-type]
        if not path or "\0" in path:
            raise ValueError
        return os.path.abspath(os.path.expanduser(path))
    except (TypeError, ValueError):
        raise SettingError(f"dir={dir!r} is no folder: give a path, such as dir='./.metrana'") from None
    except FileNotFoundError:
        raise SettingError(
            f"the working folder is gone, so {path!r} can't be found in it: give an absolute path as dir= "
            "or METRANA_DIR"
        ) from None


def resolve_store(environ: Mapping[str, str], dir: object = None, argument: str = "dir=") -> str:
    """The folder of a store to read from, as ``resolve_dir`` has it. ``argument`` is what the user calls ``dir``.

    The default folder needn't be there: nobody has run anything yet. One that was named has to. Raises SettingError,
    StoreError.
    """
    path = resolve_dir(environ, dir)
    named = argument if dir is not None else DIR.variable if environ.get(DIR.variable) else None
    if named is None and not os.path.lexists(path):
        return path
    way_out = f"{DIR.variable} or {argument} names the folder of a store" if named is None else "name another one"
    try:
        if stat.S_ISDIR(os.stat(path).st_mode):
            return path
        reason = "is no folder"
    except FileNotFoundError:
        reason = "isn't there"
    except OSError as error:
        reason = f"can't be looked into ({error.strerror})"
    raise StoreError(f"the folder {path}{f', which {named} names,' if named else ''} {reason}: {way_out}")


def parse_switch(value: object) -> bool:
    """A switch from an argument or a variable's text. Raises ValueError."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    text = value.strip().lower() if isinstance(value, str) else ""
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise ValueError


def parse_interval(value: object) -> float:
    """An interval in seconds, at least one. Raises ValueError, TypeError or OverflowError."""
    if isinstance(value, bool):
        raise ValueError
    secs = float(value)  # type: ignore[arg-type]
    if not 0.0 <= secs < float("inf"):
        raise ValueError
    return max(MIN_INTERVAL_SECS, secs)


def _resolve_system(
    setting: Setting,
    argument: object,
    environ: Mapping[str, str],
    parse: object,
    default: T,
    warnings: list[str],
) -> T:
    for name, value in ((setting.argument, argument), (setting.variable, environ.get(setting.variable) or None)):
        if value is None:
            continue
        try:
            result: T = parse(value)  # type: ignore[operator]
            return result
        except (TypeError, ValueError, OverflowError):
            warnings.append(f"{name}={value!r} makes no sense and is ignored: {setting.help}; {default!r} holds")
            return default
    return default


def _resolve_orchestration_id(environ: Mapping[str, str], argument: object) -> str | None:
    if argument is None:
        return environ.get(ORCHESTRATION_ID.variable) or None
    try:
        usable = isinstance(argument, str) and argument != "" and "\0" not in argument and bool(os.fsencode(argument))
    except UnicodeEncodeError:
        usable = False
    if not usable or not isinstance(argument, str):
        raise SettingError(f"orchestration_id={argument!r} is no id: give a non-empty text that all processes share")
    return argument
