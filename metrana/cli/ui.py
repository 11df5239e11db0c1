"""``metrana ui``: the page of charts, served to a browser on this machine."""

from __future__ import annotations

import argparse
import os

from metrana.cli.text import escape_text
from metrana.errors import MetranaError
from metrana.extras import need
from metrana.settings import resolve_dir

NAME = "ui"
HELP = "serve a local page that charts the runs, live"
NEEDS_STORE = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", nargs="?", help="folder of the store, as --dir")
    parser.add_argument("--port", metavar="N", type=int, help="port to listen on (default: a free one from 7430 on)")
    parser.add_argument(
        "--host", metavar="ADDRESS", default="127.0.0.1", help="address to listen on (default: 127.0.0.1, this machine)"
    )


def run(args: argparse.Namespace) -> int:
    if args.folder is not None:
        args.dir = resolve_dir(os.environ, args.folder)
    if args.port is not None and not 0 <= args.port <= 65535:
        raise MetranaError(f"--port {args.port} isn't a port: 0 (any free one) to 65535")
    if not args.host:
        raise MetranaError("--host names no address: 127.0.0.1 is this machine alone, 0.0.0.0 all its networks")
    need("the page", "bokeh", "tornado", "numpy")
    if os.path.exists(args.dir) and not os.path.isdir(args.dir):
        raise MetranaError(f"{args.dir} is no folder: name the folder of a store")

    from metrana.ui.server import serve

    def announce(url: str) -> None:
        print(f"{url}  shows the runs in {escape_text(args.dir)}; Ctrl-C ends it", flush=True)

    serve(args.dir, args.host, args.port, announce)
    return 0
