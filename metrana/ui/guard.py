"""Who may ask: the page itself, from this machine unless told otherwise, under a name that no stranger controls."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable

_HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,252}[A-Za-z0-9_])?\.?")

# The page loads nothing from elsewhere and sends nothing there, whatever stands in a run. Bokeh sets styles of its own.
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class Guard:
    """Tells which Host headers are answered.

    A page elsewhere may point a name of its own at this machine and then read what's served under it (DNS rebinding).
    So names are answered only where they're this machine's or ``allowed``; addresses can't be rebound.
    """

    def __init__(self, address: str, allowed: Iterable[str] = ()) -> None:
        self._is_loopback = is_loopback(address)
        self._names = {"localhost", _normalize(address), *map(_normalize, allowed)}
        if not self._is_loopback:
            self._names |= {socket.gethostname().lower(), socket.getfqdn().lower()}

    def admits(self, host_header: str) -> bool:
        """Whether a request with this Host header is answered."""
        name = _normalize(_cut_port(host_header))
        if name in self._names:
            return True
        address = _parse_address(name)
        return address is not None and (address.is_loopback or not self._is_loopback)


def is_host(name: str) -> bool:
    """Whether a browser can ask under this name or address; one with a port isn't a name."""
    return _HOST_NAME.fullmatch(name) is not None or _parse_address(_normalize(name)) is not None


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches an address: ``localhost`` or a loopback address."""
    parsed = _parse_address(_normalize(address))
    return address.lower() == "localhost" if parsed is None else parsed.is_loopback


def _cut_port(header: str) -> str:
    head, colon, port = header.rpartition(":")
    return head if colon and port.isdecimal() and (head.endswith("]") or ":" not in head) else header


def _normalize(name: str) -> str:
    return name.lower().removeprefix("[").removesuffix("]").removesuffix(".")


def _parse_address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None
