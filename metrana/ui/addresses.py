"""Under which addresses this machine is reached, for a server that listens on all of them."""

from __future__ import annotations

import ipaddress
import re
import socket

# What a socket on all addresses is bound to, and the address under which this machine itself opens it.
EVERY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}
# Reserved for documentation (RFC 5737, RFC 3849): routed as any address elsewhere is, and never sent to.
_ELSEWHERE = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}
# The kernel's tables of all addresses of all interfaces, see proc(5); other systems have none.
_TABLES = {socket.AF_INET: "/proc/net/fib_trie", socket.AF_INET6: "/proc/net/if_inet6"}
_LOCAL = re.compile(r"\|-- ([0-9.]+)\n\s+/32 host LOCAL")


def list_addresses(family: socket.AddressFamily | int) -> list[str]:
    """This machine's addresses of a family, as others see them: that of the default route, its name, all others.

    The name is there where it leads to one of the addresses: what others make of it isn't known here.
    """
    family = socket.AddressFamily(family)
    by_name = _ask_name(family)
    found = dict.fromkeys(filter(_is_reachable, (*_ask_route(family), *by_name, *_read_table(family))))
    first, *others = found or [""]
    name = [socket.gethostname()] if found.keys() & set(by_name) else []
    return [address for address in (first, *name, *others) if address]


def parse_table(family: socket.AddressFamily, text: str) -> list[str]:
    """The addresses in the kernel's table of a family."""
    if family == socket.AF_INET:
        return list(dict.fromkeys(_LOCAL.findall(text)))
    words = [line.split() for line in text.splitlines()]
    return [str(ipaddress.IPv6Address(int(word[0], 16))) for word in words if word]


def _ask_route(family: socket.AddressFamily) -> list[str]:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((_ELSEWHERE[family], 9))  # of a datagram socket: nothing is sent
            return [probe.getsockname()[0]]
    except OSError:
        return []  # no route: other addresses may still lead here


def _ask_name(family: socket.AddressFamily) -> list[str]:
    try:
        return [str(end[0]) for *_, end in socket.getaddrinfo(socket.gethostname(), None, family, socket.SOCK_STREAM)]
    except OSError:
        return []


def _read_table(family: socket.AddressFamily) -> list[str]:
    try:
        with open(_TABLES[family], encoding="ascii") as file:
            return parse_table(family, file.read())
    except (OSError, ValueError):
        return []


def _is_reachable(address: str) -> bool:
    parsed = ipaddress.ip_address(address.partition("%")[0])
    return not (parsed.is_loopback or parsed.is_unspecified or parsed.is_link_local)
