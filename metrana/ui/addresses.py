"""Under which addresses this machine is reached, for a server that listens on all of them."""

from __future__ import annotations

import ipaddress
import socket

# What a socket on all addresses is bound to, and the address under which this machine itself opens it.
EVERY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}
# Reserved for documentation (RFC 5737, RFC 3849): routed as any address elsewhere is, and never sent to.
_ELSEWHERE = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}


def list_addresses(family: socket.AddressFamily | int) -> list[str]:
    """This machine's addresses of a family, as others see them: that of the default route, those of its own name."""
    found: dict[str, None] = {}
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((_ELSEWHERE[socket.AddressFamily(family)], 9))  # of a datagram socket: nothing is sent
            found[probe.getsockname()[0]] = None
    except OSError:
        pass  # no route: the name may still lead somewhere
    try:
        for *_, end in socket.getaddrinfo(socket.gethostname(), None, family, socket.SOCK_STREAM):
            found[str(end[0])] = None
    except OSError:
        pass
    return [address for address in found if _is_reachable(address)]


def _is_reachable(address: str) -> bool:
    parsed = ipaddress.ip_address(address.partition("%")[0])
    return not (parsed.is_loopback or parsed.is_unspecified or parsed.is_link_local)
