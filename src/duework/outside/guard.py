"""A guard for URLs that users supply: requests go to public addresses and nowhere else.

A URL is judged twice: its text before anything is looked up, and every address that its name stands for when
a connection is made. The connection goes to an address that was judged, so a name that stands for another one
a moment later changes nothing. What is not surely public is refused.

    hooks = http.Client(guard=http.Guard())
    http.Guard(allow=["127.0.0.0/8", "hooks.test"])     # what the operator trusts: networks and names
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from duework.errors import Refused, UsageError
from duework.outside.extra import extra

if TYPE_CHECKING:
    import httpx2

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolver = Callable[[str, int], Sequence[str]]

SCHEMES = {"http": 80, "https": 443}
# Of the lower ones only these two; mail, shells and databases of old are no receivers of webhooks.
PORTS = {80, 443}
FIRST_FREE_PORT = 1024
LAST_PORT = 65_535
NAME_LIMIT = 253

_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
# The last label of a name that is a number makes the whole an address, in some notation.
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PRIVATE_ENDS = {
    "localhost",
    "local",
    "internal",
    "intranet",
    "lan",
    "home",
    "corp",
    "arpa",
    "onion",
}

# Besides everything that Python does not call global, which differs between its versions.
_CLOSED = [
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "192.175.48.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
        "168.63.129.16/32",
        "2001::/23",
        "2001:db8::/32",
        "2002::/16",
        "2620:4f:8000::/48",
        "3fff::/20",
    )
]
_UNICAST = ipaddress.IPv6Network("2000::/3")
# Addresses that are an IPv4 address in disguise; that one is judged.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_FIRST_OF_NAT64 = int(_NAT64.network_address)
# ISATAP: an IPv4 address behind the network of somebody.
_ISATAP = {0x0000_5EFE, 0x0200_5EFE}


def public(address: Address) -> bool:
    """Whether it is an address of the public internet, and of one host there."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            return False
        if address.ipv4_mapped is not None:
            return public(address.ipv4_mapped)
        if address in _NAT64:
            return public(ipaddress.IPv4Address(int(address) - _FIRST_OF_NAT64))
        if address not in _UNICAST or (int(address) >> 32 & 0xFFFF_FFFF) in _ISATAP:
            return False
    closed = any(address in network for network in _CLOSED if network.version == address.version)
    return address.is_global and not closed


def look_up(host: str, port: int) -> list[str]:
    """The addresses of a name, as the system knows them."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))


class Guard:
    """Judges URLs and addresses; `allow` holds what the operator trusts, and is empty otherwise."""

    def __init__(self, allow: Iterable[str] = (), *, resolver: Resolver = look_up) -> None:
        if isinstance(allow, str):
            raise UsageError(f"allow is a list of networks and names: [{allow!r}]")
        self._resolver = resolver
        self._networks: list[Network] = []
        self._names: set[str] = set()
        for each in allow:
            if (network := _network(each)) is not None:
                self._networks.append(network)
            elif _is_name(each.lower()):
                self._names.add(each.lower())
            else:
                raise UsageError(f"allow takes networks and names, which {each!r} is none of")

    def check(self, url: str) -> None:
        """Refuse a URL by its text alone; for a form in which somebody enters one."""
        self.read(url)

    def read(self, text: str) -> httpx2.URL:
        """The URL that was judged: the same one is then connected to, by no other reading of its text."""
        with extra("duework.http"):
            from duework.outside.wire import parsed
        try:
            url = parsed(text)
        except UsageError as error:
            raise Refused(str(error)) from None
        if url.scheme not in SCHEMES:
            raise Refused("only http and https URLs are let through")
        if url.userinfo or "@" in text.partition("//")[2].partition("/")[0] or "\\" in text:
            raise Refused("a URL with a user or a backslash is not let through")
        host = url.raw_host.decode("ascii")
        trusted = self._check_host(host)
        port = SCHEMES[url.scheme] if url.port is None else url.port
        if not trusted and port not in PORTS and not FIRST_FREE_PORT <= port <= LAST_PORT:
            raise Refused(f"port {port} is not let through: it is 80, 443, or 1024 and above")
        return url

    def _check_host(self, host: str) -> bool:
        """Whether the operator trusts it, so that any port will do."""
        if host in self._names:
            return True
        if (address := _address(host)) is not None:
            return self._judge(address)
        labels = host.split(".")
        if not _is_name(host) or len(labels) == 1 or _NUMBER.fullmatch(labels[-1]):
            raise Refused("the host of the URL is neither a public name nor a plain address")
        if labels[-1] in _PRIVATE_ENDS:
            raise Refused(f"names that end in .{labels[-1]} are not public")
        return False

    def addresses(self, host: str, port: int) -> list[str]:
        """Look a name up, once; every address that it stands for has to be fit to connect to."""
        found = [host] if _address(host) is not None else list(self._resolver(host, port))
        if host not in self._names:
            for each in found:
                address = _address(each)
                if address is None:
                    raise Refused("the name does not stand for an address")
                self._judge(address)
        return found

    def _judge(self, address: Address) -> bool:
        """Whether the operator trusts it; refused if it is neither that nor public."""
        known = (network for network in self._networks if network.version == address.version)
        if any(address in network for network in known):
            return True
        if not public(address):
            # Not which: whoever chose the name would learn what it stands for in here.
            raise Refused("the host stands for an address that is not public")
        return False


def _address(text: str) -> Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _network(text: str) -> Network | None:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        return None


def _is_name(host: str) -> bool:
    return len(host) <= NAME_LIMIT and all(_LABEL.fullmatch(label) for label in host.split("."))
