"""The current run of this process: opened by init(), used by the module's functions, closed at exit, left by forks."""

from __future__ import annotations

import _thread
import atexit
import os
from itertools import count

from metrana import report, values
from metrana.errors import NoRunError
from metrana.guesses import guesses_arguments
from metrana.identity import (
    DEFAULT_NAME,
    LOCAL_RANK_VARIABLES,
    WORLD_SIZE_VARIABLES,
    Identity,
    find_launch,
    find_launcher_process,
    find_rank,
    find_restarts,
    name_launch,
    random_token,
    resolve_name,
    script_name,
)
from metrana.imports import StdlibFirst
from metrana.procstat import read_hostname
from metrana.published import environ_of_others, publish, withdraw
from metrana.run import Run, no_run
from metrana.settings import ATTEMPT_VARIABLE, ORCHESTRATION_ID, resolve_settings
from metrana.store.launches import choose_attempt, is_another_launch
from metrana.store.process import WriterProcess
from metrana.store.spool import Spool
from metrana.store.writer import Writer
from metrana.system import GRACE_SECS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from metrana.model import Labels
    from metrana.settings import Settings

INHERITED = "inherited:"  # in front of an id that a run has published for the processes it starts

_current: Run | None = None
_is_hooked = False
_is_opening = False
_is_forked = False
_init_lock = _thread.RLock()


@guesses_arguments
def init(
    *,
    organization: str | None = None,
    workspace_name: str | None = None,
    project_name: str | None = None,
    run_name: str | None = None,
    config: dict[str, Any] | None = None,
    tags: list[str] | tuple[str, ...] | None = None,
    dir: str | os.PathLike[str] | None = None,
    orchestration_id: str | None = None,
    capture_system_metrics: bool | None = None,
    system_metrics_interval_secs: float | None = None,
    resume: bool = False,
    quiet: bool | None = None,
) -> Run:
    """Open a run, or join the one that this process has open under the same names.

    ``config`` and ``tags`` become attributes of the run. ``resume`` continues the newest run of that name: steps go on
    from where they stopped. Everything else is described with the settings, which also have environment variables.

    Raises SettingError for an argument that can't be used, StoreError where the store's folder can't be written.
    Nothing that the capture of the hardware does raises.
    """
    global _is_opening
    settings = resolve_settings(
        environ_of_others(), dir, orchestration_id, capture_system_metrics, system_metrics_interval_secs, quiet
    )
    names = (
        resolve_name("organization", organization, DEFAULT_NAME),
        resolve_name("workspace_name", workspace_name, DEFAULT_NAME),
        resolve_name("project_name", project_name, DEFAULT_NAME),
        resolve_name("run_name", run_name, script_name()),
    )
    attributes = values.to_start_attributes(config, tags)
    for message in settings.warnings:
        report.warn(message)
    with _init_lock:
        if _is_opening:
            raise NoRunError("init() was called by a signal handler in the middle of init(): open the run before")
        run = _current
        if run is not None and _is_same(run, names, settings, orchestration_id):
            if run.lacks_capture and settings.capture:
                # A forked worker that asks for a run is a process of it like any other.
                run.capture(settings.interval_secs)
            if attributes:
                run.log_attributes(attributes)
            return run
        if run is not None:
            report.warn(f"init() opens another run: run {run.name!r} ({run.id}) is closed")
            run.close()
        try:
            _is_opening = True
            return _open(names, settings, attributes, resume)
        finally:
            _is_opening = False


def current_run() -> Run:
    """The run that the module's functions act on. Raises NoRunError."""
    if _current is None:
        raise no_run("no run is open: call metrana.init() first")
    return _current


def log(
    name: str | dict[str, Any],
    value: object = values.MISSING,
    *,
    step: object = None,
    labels: object = None,
    timestamp: object = None,
) -> None:
    """Log one metric, or several as a dict, into the current run: see Run.log. Raises NoRunError with none open."""
    # What would guess a misspelt argument here would cost every call a tenth; Python names it.
    run = _current
    if run is None:
        run = current_run()
    run.log(name, value, step=step, labels=labels, timestamp=timestamp)


@guesses_arguments
def log_attributes(attributes: dict[str, Any]) -> None:
    """Log constant facts of the current run: see Run.log_attributes. Raises NoRunError with none open."""
    current_run().log_attributes(attributes)


def flush() -> None:
    """Return when everything logged before is on the disk. Raises NoRunError with none open."""
    current_run().flush()


def close() -> None:
    """End the current run. Raises NoRunError with none open."""
    current_run().close()


def _open(names: tuple[str, str, str, str], settings: Settings, attributes: dict[str, object], resume: bool) -> Run:
    global _current
    process = WriterProcess(
        read_hostname(),
        find_rank(os.environ),
        find_rank(os.environ, LOCAL_RANK_VARIABLES),
        find_launcher_process(),
    )
    process.launch = name_launch(os.environ, process.launcher)
    identity, steps = _resumed(names, settings.dir) if resume else (None, {})
    if identity is None:
        identity = _identify(names, settings, process)
    else:
        process.is_resumed = True
    process.attempt = _find_attempt(identity, settings, process)
    spool = Spool(Writer(settings.dir, identity, process))
    is_news = process.is_resumed or not os.path.exists(spool.writer.run_path)
    spool.open()
    next_steps = {series: step + 1 for series, step in steps.items()}
    run = Run(identity, spool, next_steps, on_close=_forget, lacks_capture=settings.capture)
    _publish(identity, process, is_chosen=identity.orchestration_id == settings.orchestration_id)
    _hook()
    _current = run
    if attributes:
        spool.put_attributes(attributes)
    if settings.capture:
        system_steps = [step + 1 for (name, _), step in steps.items() if name.startswith("system/")]
        run.capture(settings.interval_secs, max(system_steps, default=0), _find_grace(settings, process.launcher))
    if not settings.quiet and not _is_forked and os.isatty(2):
        from metrana.announce import announce  # most trainings have no terminal

        announce(run.name, run.store_dir, process.rank, is_news)
    return run


def _find_grace(settings: Settings, launcher_process: str | None) -> float:
    """How long this process leaves cards that nobody has claimed to others of the run; nothing where it's alone."""
    has_launch = settings.orchestration_id is not None or find_launch(os.environ, launcher_process) is not None
    return GRACE_SECS if has_launch and find_rank(os.environ, WORLD_SIZE_VARIABLES) != 1 else 0.0


def _identify(names: tuple[str, str, str, str], settings: Settings, process: WriterProcess) -> Identity:
    """The identity of a new run, or of the one that the other processes of this launch share."""
    launch = settings.orchestration_id
    is_inherited = launch is not None and launch.startswith(INHERITED)
    if launch is not None and not is_inherited:
        return Identity(*names, launch)
    launch = launch[len(INHERITED) :] if launch else find_launch(os.environ, process.launcher)
    if launch is None:
        return Identity(*names, random_token())
    # A launcher's id may outlive one launch of the script: a second one in the same batch job, a rendezvous id used
    # again, the trainings of one driver. Each is a run of its own. A worker that its launcher has restarted goes on
    # with the newest.
    is_restart = find_restarts(os.environ)[0] > 0
    identity = Identity(*names, launch)
    for again in count(2):
        following = Identity(*names, f"{launch}#{again}")
        if is_restart:
            is_latest = not os.path.exists(Writer(settings.dir, following, process).run_path)
        else:
            is_latest = not is_another_launch(Writer(settings.dir, identity, process).run_path, process, is_inherited)
        if is_latest:
            break
        identity = following
    return identity


def _find_attempt(identity: Identity, settings: Settings, process: WriterProcess) -> int:
    """Which attempt at the run this process belongs to, from 0.

    Only where there may have been one before are other writers looked at: a thousand ranks that start for the first
    time would open a million files.
    """
    run_path = Writer(settings.dir, identity, process).run_path
    run_id, _, published = environ_of_others().get(ATTEMPT_VARIABLE, "").partition(":")
    number, _, launch = published.partition(":")
    is_later = process.is_resumed or any(find_restarts(os.environ))
    if run_id == identity.run_id and number.isascii() and number.isdecimal() and len(number) < 10:
        if launch == (process.launch or "") or not is_later:
            return int(number)  # a process that the training has started
    elif not is_later:
        is_chosen = identity.orchestration_id == settings.orchestration_id
        is_later = is_chosen and process.is_ranked and is_another_launch(run_path, process, is_inherited=False)
    return choose_attempt(run_path, process) if is_later else 0


def _resumed(names: tuple[str, str, str, str], store_dir: str) -> tuple[Identity | None, dict[tuple[str, Labels], int]]:
    # The reading side is loaded only for this.
    with StdlibFirst():
        from metrana.store.catalog import find_runs
        from metrana.store.reader import last_steps, read_run

    for found in find_runs(store_dir):
        own = (found.organization, found.workspace_name, found.project_name, found.run_name)
        if own == names and found.orchestration_id is not None:
            return Identity(*names, found.orchestration_id), last_steps(read_run(found))
    return None, {}


def _is_same(run: Run, names: tuple[str, str, str, str], settings: Settings, orchestration_id: str | None) -> bool:
    own = run.identity
    return own.names == names and run.store_dir == settings.dir and orchestration_id in (None, own.orchestration_id)


def _publish(identity: Identity, process: WriterProcess, is_chosen: bool) -> None:
    """Let the processes that this one starts join the run and its attempt: they inherit the environment."""
    # The mark tells it from an id that somebody has chosen, which is taken as it is.
    published = identity.orchestration_id if is_chosen else INHERITED + identity.orchestration_id
    attempt = f"{identity.run_id}:{process.attempt}:{process.launch or ''}"
    publish({ORCHESTRATION_ID.variable: published, ATTEMPT_VARIABLE: attempt})


def _forget(run: Run) -> None:
    """A run was closed: give the environment back as it was, unless the script has changed it since."""
    global _current
    if run is not _current:
        return
    _current = None
    withdraw()


def _hook() -> None:
    global _is_hooked
    if not _is_hooked:
        _is_hooked = True
        atexit.register(_at_exit)


def _at_exit() -> None:
    if _current is not None:
        _current.end_at_exit()


def _after_fork() -> None:
    global _init_lock, _is_opening, _is_forked
    _is_forked = True
    _init_lock, _is_opening = _thread.RLock(), False  # another thread of the original may have been at it
    if _current is not None:
        _current.leave_in_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
