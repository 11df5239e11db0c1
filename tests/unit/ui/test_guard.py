"""Which names the server answers to."""

from __future__ import annotations

import socket

import pytest

from metrana.ui.guard import Guard, is_host, is_loopback


@pytest.mark.parametrize(
    ("header", "admitted"),
    [
        ("localhost:7430", True),
        ("127.0.0.1", True),
        ("[::1]:7430", True),
        ("LocalHost.", True),
        ("127.1.2.3:80", True),
        ("", False),
        ("evil.example", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("10.0.0.7", False),
        ("[fe80::1]", False),
        ("localhost:7430:7430", False),
        ("::1:x", False),
    ],
)
def test_on_loopback_only_this_machine_is_admitted(header: str, admitted: bool) -> None:
    """A server for this machine alone answers to localhost and to loopback addresses."""
    assert admitted == Guard("127.0.0.1").admits(header)


@pytest.mark.parametrize(
    ("header", "admitted"),
    [("10.0.0.7:7430", True), ("[fe80::1]:7430", True), (socket.gethostname(), True), ("evil.example", False)],
)
def test_on_all_networks_addresses_and_the_own_name_are_admitted(header: str, admitted: bool) -> None:
    """A server for others answers to any address, which nobody can rebind, and to the machine's own name."""
    assert admitted == Guard("0.0.0.0").admits(header)


def test_the_name_that_was_given_is_admitted() -> None:
    """--host NAME is a name that's answered."""
    assert Guard("node7.cluster").admits("node7.cluster:7430")


@pytest.mark.parametrize(
    ("address", "loopback"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False), ("node7", False)],
)
def test_loopback_is_told(address: str, loopback: bool) -> None:
    """Addresses that only this machine reaches are known as such."""
    assert loopback == is_loopback(address)


def test_allowed_names_are_admitted() -> None:
    """Each --allow-host is answered, with any port, beside this machine's names; no other is."""
    guard = Guard("127.0.0.1", ["Trainer.example", "10.0.0.7"])
    assert all(map(guard.admits, ("trainer.example:8080", "10.0.0.7", "localhost:7430")))
    assert not any(map(guard.admits, ("evil.example", "sub.trainer.example", "10.0.0.8")))


@pytest.mark.parametrize(
    ("name", "is_one"),
    [("trainer", True), ("a.example.", True), ("::1", True), ("10.0.0.7", True)]
    + [(name, False) for name in ("", "*", "http://a", "a:7430", "a b", "a/b", "*.example")],
)
def test_what_no_browser_asks_under_is_no_host(name: str, is_one: bool) -> None:
    """A URL, a port or a pattern isn't a name that could ever be answered."""
    assert is_one == is_host(name)
