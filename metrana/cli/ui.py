"""``metrana ui``: the page of charts, served to a browser on this machine."""

from __future__ import annotations

import argparse
import os

from metrana.cli.text import describe_absence, escape_text
from metrana.errors import MetranaError
from metrana.extras import need

NAME = "ui"
HELP = "serve a local page that charts the runs, live"
NEEDS_STORE = True
_MOST_URLS = 6  # printed, of those that are for other machines


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", nargs="?", help="folder of the store, as --dir")
    parser.add_argument("--port", metavar="N", type=int, help="port to listen on (default: a free one from 7430 on)")
    parser.add_argument(
        "--host", metavar="ADDRESS", default="127.0.0.1", help="address to listen on (default: 127.0.0.1, this machine)"
    )
    parser.add_argument(
        "--allow-host",
        metavar="NAME",
        action="append",
        default=[],
        help="answer under this name too: an alias, a forwarded port; several times",
    )


def run(args: argparse.Namespace) -> int:
    if args.port is not None and not 0 <= args.port <= 65535:
        raise MetranaError(f"--port {args.port} isn't a port: 0 (any free one) to 65535")
    if not args.host:
        raise MetranaError("--host names no address: 127.0.0.1 is this machine alone, 0.0.0.0 all its networks")
    need("the page", "bokeh", "tornado", "numpy")
    from metrana.ui.guard import is_host

    for name in args.allow_host:
        if not is_host(name):
            raise MetranaError(
                f"--allow-host {name!r} is no name of a machine: as in http://NAME:7430/, without a port"
            )

    from metrana.ui.server import serve

    def announce(urls: list[str]) -> None:
        lines = [f"{urls[0]}  shows the runs in {escape_text(args.dir)}; Ctrl-C ends it"]
        lines += [f"{url}  from elsewhere" for url in urls[1 : _MOST_URLS + 1]]
        if len(urls) > _MOST_URLS + 1:
            lines.append(f"and {len(urls) - _MOST_URLS - 1} more addresses of this machine")
        if not os.path.isdir(args.dir):
            lines.append(describe_absence(args.dir))
        print("\n".join(lines), flush=True)  # at once: whoever reads the first line has the others, too

    serve(args.dir, args.host, args.port, announce, args.allow_host)
    return 0
