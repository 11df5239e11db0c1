"""The addresses of this machine, as ``metrana ui --host 0.0.0.0`` prints them."""

from __future__ import annotations

import socket

import pytest

from metrana.ui.addresses import list_addresses, parse_table

FIB_TRIE = """\
Main:
  +-- 0.0.0.0/0 3 0 5
     +-- 127.0.0.0/8 2 0 2
           |-- 127.0.0.1
              /32 host LOCAL
           |-- 127.255.255.255
              /32 link BROADCAST
     +-- 10.7.0.0/16 2 0 2
        |-- 10.7.0.0
           /16 link UNICAST
        |-- 10.7.3.4
           /32 host LOCAL
     |-- 172.17.0.1
        /32 host LOCAL
Local:
        |-- 10.7.3.4
           /32 host LOCAL
"""
IF_INET6 = """\
00000000000000000000000000000001 01 80 10 80       lo
20010db8000000000000000000000007 02 40 00 80     eth0
"""


@pytest.mark.parametrize(
    ("expected", "family", "text"),
    [
        (["127.0.0.1", "10.7.3.4", "172.17.0.1"], socket.AF_INET, FIB_TRIE),
        (["::1", "2001:db8::7"], socket.AF_INET6, IF_INET6),
        ([], socket.AF_INET, ""),
    ],
)
def test_the_kernels_tables_list_all_addresses(expected: list[str], family: socket.AddressFamily, text: str) -> None:
    """Those of every interface, each once, and no network's or broadcast's."""
    assert expected == parse_table(family, text)


def test_each_interfaces_address_is_listed() -> None:
    """What psutil finds of this machine's networks, and nothing that this machine can't bind to."""
    psutil = pytest.importorskip("psutil")
    found = list_addresses(socket.AF_INET)
    own = {one.address for every in psutil.net_if_addrs().values() for one in every if one.family == socket.AF_INET}
    assert {address for address in own if not address.startswith(("127.", "169.254."))} == set(found) - {
        socket.gethostname()
    }
    for address in found:
        with socket.create_server((address, 0)):
            pass
