"""What the server answers: the page's files, the list of runs, a run in words, and a stretch of its points."""

from __future__ import annotations

import asyncio
import importlib.resources
import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from tornado.web import Application, HTTPError, RequestHandler

import metrana
from metrana.cli.text import SYSTEM_GROUPS
from metrana.errors import MetranaError, RunNotFoundError
from metrana.store.index import SeriesInfo
from metrana.store.life import find_window
from metrana.ui.describe import (
    describe_attributes,
    describe_damage,
    describe_info,
    describe_metric,
    describe_series,
    explain_group,
    explain_parts,
    finite,
)
from metrana.ui.guard import HEADERS, Guard
from metrana.ui.shelf import OpenRun, Shelf
from metrana.ui.windows import parse_request, read_window

# A run that's opened for the first time is shown in parts of about this much reading.
READ_SECS = 0.5
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
_BOKEH_FILES = ("bokeh.min.js", "bokeh-api.min.js")
_T = TypeVar("_T")


class Answerer(RequestHandler):
    """Turns away foreign names, and says in one line of JSON what went wrong."""

    def initialize(self, shelf: Shelf, guard: Guard, pool: ThreadPoolExecutor) -> None:
        self.shelf, self.guard, self.pool = shelf, guard, pool

    def set_default_headers(self) -> None:
        for name, value in HEADERS.items():
            self.set_header(name, value)
        self.set_header("Cache-Control", "no-store")
        self.set_header("Content-Type", "application/json")
        self.set_header("Server", f"metrana/{metrana.__version__}")

    def prepare(self) -> None:
        if not self.guard.admits(self.request.host):
            raise HTTPError(421, "this name isn't served here: open the address that 'metrana ui' printed")

    def write_error(self, status_code: int, **details: Any) -> None:
        error = details.get("exc_info", (None, None, None))[1]
        message = self._reason
        if isinstance(error, HTTPError) and error.log_message:
            message = error.log_message % error.args if error.args else error.log_message
        self.finish(encode({"error": message}))

    async def apart(self, work: Callable[..., _T], *arguments: object) -> _T:
        """Work in a thread, so that one big run doesn't hold up the others. Raises HTTPError for metrana's errors."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self.pool, work, *arguments)
        except RunNotFoundError as error:
            raise HTTPError(404, "%s", str(error)) from error
        except MetranaError as error:
            raise HTTPError(400, "%s", str(error)) from error

    def send(self, record: object) -> None:
        self.write(encode(record))


class Runs(Answerer):
    async def get(self) -> None:
        self.send(await self.apart(list_runs, self.shelf, self.get_query_argument("since", "")))


class Run(Answerer):
    async def get(self) -> None:
        key, since = self.get_query_argument("run"), self.get_query_argument("since", "")
        self.send(await self.apart(describe_run, self.shelf, key, since))


class Points(Answerer):
    async def post(self) -> None:
        request = await self.apart(parse_request, self.request.body)
        run = await self.apart(self.shelf.open_run, request.run)
        self.set_header("Content-Type", "application/octet-stream")
        self.write(await self.apart(read_window, run, request))


class File(Answerer):
    """One file, named when the server starts: nothing of a request is ever made into a path."""

    def initialize(  # type: ignore[override]
        self, shelf: Shelf, guard: Guard, pool: ThreadPoolExecutor, name: str, data: bytes
    ) -> None:
        super().initialize(shelf, guard, pool)
        self.name, self.data = name, data

    def get(self) -> None:
        self.set_header("Content-Type", f"{_TYPES[self.name.rpartition('.')[2]]}; charset=utf-8")
        self.set_header("Cache-Control", "no-cache")  # asked for again, and answered by its tag alone
        self.write(self.data)


class Missing(Answerer):
    def get(self) -> None:
        raise HTTPError(404)


def make_application(shelf: Shelf, guard: Guard, pool: ThreadPoolExecutor) -> Application:
    """The whole of what's served. Nothing else is reachable."""
    common = {"shelf": shelf, "guard": guard, "pool": pool}
    own = importlib.resources.files("metrana.ui") / "static"
    bokeh = importlib.resources.files("bokeh") / "server" / "static" / "js"
    files = {entry.name: entry.read_bytes() for entry in own.iterdir() if entry.name.rpartition(".")[2] in _TYPES}
    files.update({name: (bokeh / name).read_bytes() for name in _BOKEH_FILES})
    routes: list[Any] = [
        (r"/api/runs", Runs, common),
        (r"/api/run", Run, common),
        (r"/api/points", Points, common),
        (r"/", File, {**common, "name": "index.html", "data": files["index.html"]}),
        *((f"/static/{re.escape(name)}", File, {**common, "name": name, "data": data}) for name, data in files.items()),
    ]
    return Application(
        routes, default_handler_class=Missing, default_handler_args=common, log_function=lambda handler: None
    )


def list_runs(shelf: Shelf, since: str) -> dict[str, Any]:
    listing = shelf.list_runs(since)
    problems = [listing.problem] if listing.problem else []
    problems += describe_damage(0, listing.unreadable)
    return {
        "token": listing.token,
        "whole": listing.is_whole,
        "dir": shelf.store_dir,
        "problems": problems,
        "removed": listing.removed,
        "runs": [describe_info(key, info) for key, info in listing.runs.items()],
    }


def describe_run(shelf: Shelf, key: str, since: str) -> dict[str, Any]:
    """A run in words: what has changed since the description of that token. Raises RunNotFoundError."""
    run = shelf.open_run(key)
    run.refresh(READ_SECS)
    token, changed = run.list_series(since)
    info, index = shelf.find_info(key), run.index
    described = describe_info(key, info)
    attributes = index.attributes
    metrics = {series.name for series in changed.values()}
    window = find_window(info.started, info.last, [(series.first_time, series.last_time) for series in run.series])
    return {
        "token": token,
        "info": described,
        "window": [finite(at) for at in window],
        "progress": index.progress,
        "problems": describe_damage(index.skipped_lines, index.unreadable, index.newest_version),
        "attributes": describe_attributes(attributes),
        "metrics": {name: describe_metric(name) for name in metrics},
        "series": [describe_series(number, series, run.superseded[number]) for number, series in changed.items()],
        "groups": [_describe_group(group, run, attributes, described["live"]) for group in SYSTEM_GROUPS],
    }


def _describe_group(group: str, run: OpenRun, attributes: dict[str, Any], is_live: bool) -> dict[str, Any]:
    is_charted = any(_is_in(group, series) for series in run.series)
    notes = explain_parts(group, attributes) if is_charted else []
    return {
        "group": group,
        "why": None if is_charted else explain_group(group, attributes, is_live=is_live),
        "notes": notes,
    }


def _is_in(group: str, series: SeriesInfo) -> bool:
    return series.name.startswith(f"system/{group}/")


def encode(record: object) -> bytes:
    """JSON in ASCII: names may hold what UTF-8 has no bytes for."""
    return json.dumps(record, separators=(",", ":")).encode("ascii")
