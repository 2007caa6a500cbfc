"""Settings of the pages: `[duework-web]` in `duework.toml`, or `DUEWORK_WEB_SIGN_INS` and the like."""

from __future__ import annotations

import ipaddress

import msgspec

from duework import config
from duework.errors import UsageError

NAME = "duework-web"
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class WebSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How many a minute, all at once or spread; 0 is without a limit."""

    # Attempts to sign in, of operators and people, from one address.
    sign_ins: int = 20
    # Requests with a token that is none, from one address.
    failures: int = 60
    # Forms that one operator or person sends.
    actions: int = 300
    # Whatever is asked with one token, or without one from one address.
    requests: int = 6000
    # Whose X-Forwarded-For is believed: addresses and networks.
    trusted_proxies: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("sign_ins", "failures", "actions", "requests"):
            if getattr(self, name) < 0:
                raise UsageError(f"{name} is how many there may be in a minute, not fewer than 0")

    def networks(self) -> list[Network]:
        """The trusted proxies."""
        try:
            return [ipaddress.ip_network(each) for each in self.trusted_proxies]
        except ValueError as error:
            raise UsageError(
                f"trusted_proxies takes addresses and networks, 10.0.0.0/8: {error}"
            ) from error


def load() -> WebSettings:
    return config.load(NAME, WebSettings)
