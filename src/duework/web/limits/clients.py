"""Where a request comes from: the other end of the connection, or whom a trusted proxy names."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from starlette.types import Scope

from duework.web.limits.settings import Network

Ip = ipaddress.IPv4Address | ipaddress.IPv6Address


def client_of(scope: Scope, trusted: Sequence[Network]) -> str:
    """The client's address as a key: of IPv6 its network, since one client has all of that."""
    peer = (scope.get("client") or ("",))[0]
    found = _address(peer)
    if found is None:
        return str(peer)
    for named in reversed(_forwarded(scope)):
        if not _is_trusted(found, trusted):
            break
        # What a trusted proxy cannot name, it stands for itself.
        if (before := _address(named)) is None:
            break
        found = before
    return _key(found)


def _forwarded(scope: Scope) -> list[str]:
    values = [value.decode("latin-1") for name, value in scope["headers"] if name == _FORWARDED]
    return [each.strip() for each in ",".join(values).split(",") if each.strip()]


_FORWARDED = b"x-forwarded-for"


def _address(text: str) -> Ip | None:
    """`192.0.2.7`, `192.0.2.7:5000`, `2001:db8::1`, `[2001:db8::1]:5000`."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found


def _is_trusted(address: Ip, trusted: Sequence[Network]) -> bool:
    return any(address in network for network in trusted)


def _key(address: Ip) -> str:
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    return str(ipaddress.ip_network((int(address), 64), strict=False))
