"""The command line: one module per command, each with its name, help, arguments and what it runs."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn, Protocol, cast

import metrana
from metrana.cli.text import escape_text
from metrana.errors import MetranaError, describe_error
from metrana.settings import DIR, resolve_store

COMMANDS = ("runs", "show", "ui", "export", "doctor")
"""The modules of this package that are commands, in the order of the help."""

_DESCRIPTION = "Look at runs and at what the machines did meanwhile."
_FAILED = 2
_INTERRUPTED = 130
_PIPE_CLOSED = 141


class Command(Protocol):
    """What the module of a command offers. ``args.dir`` is the store's folder as an absolute path."""

    NAME: str
    HELP: str
    NEEDS_STORE: bool

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, args: argparse.Namespace) -> int:
        """Do it and return the exit status. Raises MetranaError, whose message is the one line the user gets."""
        ...


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit status: 0, 2 after an error in one line on stderr, 130 after Ctrl-C."""
    words = list(sys.argv[1:] if argv is None else argv)
    if sys.stdout is None:  # started with it closed
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for as long as the process lives
    _make_printable(sys.stdout)
    _make_printable(sys.stderr)
    try:
        status = _run(words)
        _flush_stdout()
        return status
    except MetranaError as error:
        return _fail(str(error))
    except BrokenPipeError:
        # The reader of a pipe has seen enough, as in `metrana export RUN | head`.
        _leave_stdout()
        return _PIPE_CLOSED
    except OSError as error:
        try:
            _flush_stdout()
        except OSError:
            _leave_stdout()
        return _fail(describe_error(error))
    except KeyboardInterrupt:
        # Nothing more is written: whoever reads the pipe may have stopped reading.
        _leave_stdout()
        return _INTERRUPTED


def load_command(name: str) -> Command:
    """The module of a command."""
    return cast(Command, importlib.import_module(f"metrana.cli.{name}"))


def build_parser(names: Sequence[str] = COMMANDS) -> argparse.ArgumentParser:
    """The parser of the whole command line, or of some commands only."""
    parser = _Parser(prog="metrana", description=_DESCRIPTION, parents=[_common_parser()])
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    for name in names:
        command = load_command(name)
        inner = commands.add_parser(
            command.NAME, help=command.HELP, description=command.HELP, parents=[_common_parser()]
        )
        command.add_arguments(inner)
        inner.set_defaults(run=command.run)
    return parser


def _command_parser(command: Command) -> argparse.ArgumentParser:
    parser = _Parser(prog=f"metrana {command.NAME}", description=command.HELP, parents=[_common_parser()])
    command.add_arguments(parser)
    return parser


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise MetranaError(f"{message} (see '{self.prog} --help')")


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *args: Any, **kwargs: Any) -> None:
        print(f"metrana {metrana.__version__}")
        parser.exit(0)


def _common_parser() -> _Parser:
    parser = _Parser(prog="metrana", add_help=False, allow_abbrev=False)
    where = f"folder of the store (default: {DIR.variable}, else {DIR.default})"
    parser.add_argument("--dir", metavar="DIR", help=where)
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and leave")
    return parser


def _run(words: list[str]) -> int:
    try:
        # Taken out first, so that they may stand anywhere: argparse would end `show RUN --dir DIR NAME` at the option.
        common, words = _common_parser().parse_known_args(words)
        if not words or words[0] not in COMMANDS:
            build_parser().parse_args(words)  # help, the version, or what's wrong
            build_parser().print_help()
            return 0
        # Only the module of the command at hand is loaded, and an option may stand among its words.
        command = load_command(words[0])
        parser = _command_parser(command)
        # Behind two dashes all are names, which argparse forgets when options and names are mixed.
        args = parser.parse_args(words[1:]) if "--" in words else parser.parse_intermixed_args(words[1:])
    except SystemExit as end:  # argparse leaves this way after --help and --version
        return end.code if isinstance(end.code, int) else 0
    args.command = command.NAME
    folder = getattr(args, "folder", None)  # `metrana ui DIR`
    if folder is not None:
        args.dir = resolve_store(os.environ, folder, "DIR")
    elif command.NEEDS_STORE or common.dir is not None:
        args.dir = resolve_store(os.environ, common.dir, "--dir")
    return command.run(args)


def _fail(message: str) -> int:
    if sys.stderr is not None:  # print() would take stdout instead
        try:
            print(f"metrana: {escape_text(' '.join(message.splitlines()))}", file=sys.stderr, flush=True)
        except OSError:
            pass  # nobody to tell; the status says it
    return _FAILED


def _flush_stdout() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def _make_printable(stream: object) -> None:
    # A name that the terminal's encoding lacks must not end the command.
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


def _leave_stdout() -> None:
    """Point stdout at nothing, or the interpreter would fail again when it flushes at exit."""
    if sys.stdout is None:
        return
    try:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)
    except (OSError, ValueError):
        pass
