"""The server of the local page: where it listens, and how it ends."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from tornado.httpserver import HTTPServer

from metrana.errors import MetranaError, describe_error
from metrana.ui.addresses import EVERY_ADDRESS, list_addresses
from metrana.ui.guard import Guard
from metrana.ui.handlers import make_application
from metrana.ui.shelf import Shelf

DEFAULT_PORT = 7430
_PORTS_TRIED = 20
_THREADS = 4
_MOST_REQUEST_BYTES = 8 * 1024 * 1024


def serve(
    store_dir: str,
    address: str,
    port: int | None,
    announce: Callable[[list[str]], None],
    allowed: Sequence[str] = (),
) -> None:
    """Serve the page over a store until interrupted; ``announce`` gets its URLs once they can be opened.

    Requests under the ``allowed`` names are answered beside those under this machine's own.

    Without a port it's the first free one from DEFAULT_PORT on; 0 is any. Raises MetranaError where it can't listen.
    """
    listening = listen(address, port)
    shelf = Shelf(store_dir)
    try:
        with ThreadPoolExecutor(_THREADS, "metrana-ui") as pool:
            asyncio.run(
                _serve(shelf, Guard(address, allowed), list_urls(address, listening), listening, pool, announce)
            )
    finally:
        shelf.close()


def listen(address: str, port: int | None) -> socket.socket:
    """A socket that listens on an address. Raises MetranaError, which says why that can't be."""
    ports = range(DEFAULT_PORT, DEFAULT_PORT + _PORTS_TRIED) if port is None else (port,)
    for tried in ports:
        try:
            family = socket.getaddrinfo(address, tried, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
            found = socket.create_server((address, tried), family=family, backlog=128)
            found.setblocking(False)
            return found
        except UnicodeError as error:  # what no name of a machine is made of
            raise MetranaError(f"can't listen on {address!r}: no name of a machine; --host names another") from error
        except OSError as error:
            if error.errno == errno.EADDRINUSE and tried != ports[-1]:
                continue
            where = f"{address} port {tried}"
            if error.errno == errno.EADDRINUSE:
                raise MetranaError(f"can't listen on {where}: it's in use; --port names another, 0 any") from error
            raise MetranaError(
                f"can't listen on {where}: {describe_error(error)}; --host and --port name others"
            ) from error
    raise AssertionError("there's always a port to try")


def list_urls(address: str, listening: socket.socket) -> list[str]:
    """Where the page can be opened: on this machine first, then, where all networks are served, from elsewhere."""
    bound, port = listening.getsockname()[:2]
    names = [address]
    if bound in EVERY_ADDRESS:
        names = [EVERY_ADDRESS[bound], *list_addresses(listening.family)]
    return [f"http://{f'[{name}]' if ':' in name and not name.startswith('[') else name}:{port}/" for name in names]


async def _serve(
    shelf: Shelf,
    guard: Guard,
    urls: list[str],
    listening: socket.socket,
    pool: ThreadPoolExecutor,
    announce: Callable[[list[str]], None],
) -> None:
    application = make_application(shelf, guard, pool)
    server = HTTPServer(application, max_body_size=_MOST_REQUEST_BYTES)
    server.add_socket(listening)
    announce(urls)
    try:
        await asyncio.Event().wait()
    finally:
        server.stop()
        await server.close_all_connections()
