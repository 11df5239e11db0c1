"""What the server answers and what it refuses, and the manners of the command that runs it."""

from __future__ import annotations

import json
import math
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from metrana.ui.addresses import list_addresses
from tests.scripts import wait_until
from tests.ui.serving import Server, refuse
from tests.ui.stores import put_cards, put_hostile, put_lines, put_many
from tests.unit.store.build import T0, put_attempt

pytest.importorskip("bokeh", reason="Bokeh isn't installed: pip install bokeh")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    store = tmp_path_factory.mktemp("served") / "store"
    put_cards(store, hosts=1, cards=1, ticks=60, loss=60)
    put_hostile(store)
    (store.parent / "secret.txt").write_text("secret")
    with Server(store) as found:
        yield found


def test_every_answer_forbids_what_is_elsewhere(server: Server) -> None:
    """Pages, data and errors come with a policy under which a browser loads nothing from another host."""
    for path in ("/", "/static/main.js", "/api/runs", "/nowhere"):
        _, headers, _ = server.ask(path)
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "connect-src 'self'" in policy
        assert not any(word in policy for word in ("http:", "https:", "*", "unsafe-eval", "script-src 'unsafe"))
        assert ("nosniff", "same-origin") == (
            headers["x-content-type-options"],
            headers["cross-origin-resource-policy"],
        )
        assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:7430", "localhost.evil.example", "10.0.0.7", "127.0.0.1.evil.example", ""]
)
def test_a_foreign_host_header_is_refused(server: Server, host: str) -> None:
    """A name that somebody else may have pointed at this machine gets an error and no data."""
    for path in ("/", "/api/runs", "/static/main.js"):
        status, _, data = server.ask(path, headers={"Host": host})
        assert status in (400, 421) and b"cards" not in data


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:99", "[::1]:7430", "127.8.8.8"])
def test_this_machines_names_are_answered(server: Server, host: str) -> None:
    """Loopback addresses and localhost are served, whatever the port is called."""
    assert 200 == server.ask("/api/runs", headers={"Host": host})[0]


@pytest.mark.parametrize(
    "path",
    [
        "/static/../../secret.txt",
        "/static/..%2f..%2fsecret.txt",
        "/../secret.txt",
        "//etc/passwd",
        "/static/",
        "/static/bokeh.js",
        "/secret.txt",
        "/default",
        "/.gitignore",
    ],
)
def test_nothing_but_the_page_is_served(server: Server, path: str) -> None:
    """No path leads to a file that isn't the page's own."""
    status, _, data = server.ask(path)
    assert 404 == status and b"secret" not in data.lower().replace(path.encode(), b"")


@pytest.mark.parametrize("key", ["nope", "../secret.txt", "..", "/etc", "", "x" * 9000, "a\0b", "<img src=x>"])
def test_an_unknown_run_is_an_error(server: Server, key: str) -> None:
    """A run's key is looked up among the runs that there are, never taken for a path."""
    status, headers, data = server.ask(f"/api/run?run={quote(key)}")
    assert 404 == status and "no such run" in json.loads(data)["error"]
    assert "application/json" in headers["content-type"]


QUESTION = {"run": "cards-id", "by": "time", "start": T0, "width": 8.0, "count": 10, "charts": []}


@pytest.mark.parametrize(
    "change",
    [
        {"by": "moon"},
        {"start": "x"},
        {"start": 1e999},
        {"width": 0},
        {"width": -1},
        {"width": 1e308},
        {"count": 0},
        {"count": 10**9},
        {"count": 1.5},
        {"charts": 5},
        {"charts": [{"series": "abc", "band": True}]},
        {"charts": [{"series": list(range(65)), "band": False}]},
        {"charts": [{"series": [0], "band": False, "superseded": 1}]},
        {"run": 5},
        {"run": None},
    ],
)
def test_a_question_without_sense_is_an_error(server: Server, change: dict[str, object]) -> None:
    """A question that can't be answered gets a 400 in one line, and the server goes on."""
    status, _, data = server.ask("/api/points", {**QUESTION, **change})
    assert 400 == status and json.loads(data)["error"]
    assert 400 == server.ask("/api/points", b"[" * 100_000)[0]
    assert 200 == server.ask("/api/points", QUESTION)[0]


def test_points_come_as_columns(server: Server) -> None:
    """The answer to a question is a line of JSON and, from a multiple of eight on, the columns of each line."""
    series = server.get("/api/run", run="cards-id", since="")["series"]
    assert isinstance(series, list)
    (number,) = [one["n"] for one in series if one["name"] == "loss"]
    charts = [{"series": [number, 999, -1], "band": False}, {"series": [number], "band": True}]
    _, _, data = server.ask("/api/points", {**QUESTION, "width": 100.0, "count": 6, "charts": charts})
    head, _, _ = data.partition(b"\n")
    assert 0 == (len(head) + 1) % 8
    assert [[[number, 6, 1]], [[-1, 6, 1]]] == json.loads(head)
    columns = struct.unpack(f"<{2 * 4 * 6}d", data[len(head) + 1 :])
    x, mean, low, high = (columns[at : at + 6] for at in range(0, 24, 6))
    assert list(x) == sorted(x) and T0 <= x[0] and x[-1] <= T0 + 600
    assert all(a <= b <= c for a, b, c in zip(low, mean, high, strict=True))
    assert columns[:24] == columns[24:]


def test_what_is_superseded_comes_when_asked(tmp_path: Path) -> None:
    """A line holds the attempts one after the other, with a point that has no value between them."""
    for number, steps in enumerate((range(4), range(2, 6), range(1, 8))):
        put_attempt(tmp_path, number, steps)
    with Server(tmp_path) as server:
        (series,) = server.get("/api/run", run="train-id", since="")["series"]  # type: ignore[misc]
        assert (7, [1, 5]) == (series["superseded"]["count"], series["superseded"]["steps"])
        chart = {"series": [series["n"]], "band": False, "superseded": True}
        question = {"run": "train-id", "by": "step", "start": 0, "width": 1.0, "count": 10, "charts": [chart]}
        _, _, data = server.ask("/api/points", question)
        head, _, _ = data.partition(b"\n")
        columns = struct.unpack(f"<{2 * 8}d", data[len(head) + 1 :])
    assert [[[series["n"], 8, 0]]] == json.loads(head)
    assert [1, 2, 3, 2, 2, 3, 4, 5] == list(columns[:8])
    expected = [1, 2, 3, math.nan, 1002, 1003, 1004, 1005]
    assert expected == pytest.approx(list(columns[8:]), nan_ok=True)


def test_only_what_changed_is_listed(tmp_path: Path) -> None:
    """A listing since an earlier one holds the runs that are new or have changed, and those that have gone."""
    put_many(tmp_path, 30)
    with Server(tmp_path) as server:
        first = server.get("/api/runs", since="")
        assert isinstance(first["runs"], list)
        assert (True, 30, "run00029") == (first["whole"], len(first["runs"]), first["runs"][0]["name"])
        put_lines(tmp_path, "new", T0 + 99)
        (folder,) = tmp_path.glob("default/default/default/run00007@*")
        for path in sorted(folder.rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
        folder.rmdir()
        token, later = str(first["token"]), first
        while not later["runs"] or later is first:
            later = server.get("/api/runs", since=token)
        assert (False, ["run00007-id"]) == (later["whole"], later["removed"])
        assert isinstance(later["runs"], list)
        assert ["new"] == [run["name"] for run in later["runs"]]


@pytest.mark.once
def test_ten_thousand_runs_are_listed(tmp_path: Path) -> None:
    """A store of very many runs is listed whole, and then only its changes."""
    put_many(tmp_path, 10_000)
    with Server(tmp_path) as server:
        first = server.get("/api/runs", since="")
        assert isinstance(first["runs"], list) and 10_000 == len(first["runs"])
        assert [] == server.get("/api/runs", since=str(first["token"]))["runs"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_named(tmp_path: Path) -> None:
    """A folder without permission is named in a message, and the other runs are listed."""
    put_many(tmp_path, 2)
    (folder,) = tmp_path.glob("default/default/default/run00000@*")
    folder.chmod(0)
    try:
        with Server(tmp_path) as server:
            answer = server.get("/api/runs", since="")
            assert "run00001" in str(answer["runs"]) and str(folder) in str(answer["problems"])
    finally:
        folder.chmod(0o700)


def test_it_says_where_and_ends_quietly(tmp_path: Path) -> None:
    """It prints the page's address on loopback, and Ctrl-C ends it with status 130 and no word more."""
    server = Server(tmp_path)
    assert "127.0.0.1" == urlsplit(server.url).hostname
    assert str(tmp_path) in server.line
    assert [] == server.get("/api/runs", since="")["runs"]
    assert (130, "", "") == server.stop()


def test_the_default_folder_may_come_later(tmp_path: Path) -> None:
    """Where it isn't there yet, that's said, and runs turn up; one that's named and isn't there is an error."""
    server = Server(tmp_path / ".metrana")
    try:
        assert server.process.stdout is not None
        assert "No runs yet" in server.process.stdout.readline()
        assert [] == server.get("/api/runs", since="")["runs"]
        put_lines(tmp_path / ".metrana", "first", T0)
        wait_until(lambda: server.get("/api/runs", since="")["runs"], "the first run")
    finally:
        ended = server.stop()
    assert (130, "", "") == ended
    assert f"the folder {tmp_path / 'nowhere'}, which DIR names, isn't there" in refuse(tmp_path / "nowhere")


def test_without_a_port_a_free_one_is_taken() -> None:
    """Without a port two servers find one each."""
    from metrana.ui.server import listen

    sockets = [listen("127.0.0.1", None), listen("127.0.0.1", None)]
    try:
        assert 2 == len({one.getsockname()[1] for one in sockets})
    finally:
        for one in sockets:
            one.close()


def test_a_port_in_use_is_an_error(tmp_path: Path) -> None:
    """A port that was asked for and is in use is named in one line."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"port {port}: it's in use; --port names another" in refuse(tmp_path, "--port", str(port))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--port", "70000"], "--port 70000 isn't a port"),
        (["--port", "x"], "invalid int value"),
        (["--host", "no.such.host.invalid"], "can't listen on no.such.host.invalid"),
        (["--host", ""], "--host names no address"),
        (["--host", ".."], "can't listen on '..': no name of a machine"),
    ],
)
def test_an_address_without_sense_is_an_error(tmp_path: Path, words: list[str], said: str) -> None:
    """One line says what's wrong with an address."""
    assert said in refuse(tmp_path, *words)


def test_a_file_is_no_store(tmp_path: Path) -> None:
    """A file instead of a folder is named in one line."""
    (tmp_path / "file").touch()
    assert f"{tmp_path / 'file'}, which DIR names, is no folder" in refuse(tmp_path / "file")


def test_an_allowed_name_is_answered(tmp_path: Path) -> None:
    """--allow-host takes several names; what's none is one error that names it."""
    with Server(tmp_path, "--allow-host", "trainer", "--allow-host", "gpu.example") as server:
        for host, status in (("trainer:8080", 200), ("gpu.example", 200), ("evil.example", 421)):
            assert status == server.ask("/api/runs", headers={"Host": host})[0]
    assert "--allow-host 'http://a/'" in refuse(tmp_path, "--allow-host", "http://a/")


def test_on_all_networks_addresses_are_printed_that_open(tmp_path: Path) -> None:
    """Each address that --host 0.0.0.0 prints opens, the machine's own among them; 0.0.0.0 isn't one of them."""
    server = Server(tmp_path, "--host", "0.0.0.0")
    try:
        assert server.url.startswith("http://127.0.0.1:")
        assert server.process.stdout is not None
        own = list_addresses(socket.AF_INET)
        urls = [server.url, *(server.process.stdout.readline().split()[0] for _ in own[:6])]
        for url in urls:
            server.url = url
            assert 200 == server.ask("/api/runs")[0], url
    finally:
        _, out, _ = server.stop()
    assert [address.lower() for address in own[:6]] == [urlsplit(url).hostname for url in urls[1:]]
    assert "http" not in out and "0.0.0.0" not in server.line
