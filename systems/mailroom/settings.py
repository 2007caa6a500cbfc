"""What an operator chooses: the provider and its address, how fast, how long things are kept.

The defaults lead to the twins as `python -m systems.twins --all` starts them. `[mailroom]` in
`duework.toml` and `MAILROOM_…` in the environment go before them.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, Literal

import msgspec

from duework import Secret

# Of the twin, for everybody to read: it opens nothing but the twin.
DEMO_KEY = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
TWINS = {
    "acs": "http://127.0.0.1:8475",
    "resend": "http://127.0.0.1:8476",
    "smtp": "smtp://127.0.0.1:8521",
}
DEMO_KEYS = {"acs": DEMO_KEY, "resend": "re_demo", "smtp": "secret"}


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """`provider`, `endpoint` and `key` say who sends; the rest how much and for how long."""

    provider: Literal["acs", "resend", "smtp"] = "acs"
    # Where the provider is; empty: its twin.
    endpoint: str = ""
    # ACS: the access key. Resend: the API key. SMTP: the password. Empty: that of the twin.
    key: Secret | None = None
    # SMTP alone.
    user: str = "demo"
    # Who is asked, in this order, when the provider is known not to have taken a mail.
    fallback: tuple[Literal["acs", "resend", "smtp"], ...] = ()
    # Where those are, and what opens them; empty: their twins.
    acs_endpoint: str = ""
    acs_key: Secret | None = None
    resend_endpoint: str = ""
    resend_key: Secret | None = None
    smtp_endpoint: str = ""
    smtp_key: Secret | None = None
    # Who mails are from unless they say so themselves.
    sender: str = "no-reply@mail.demo.example"
    # The article's figures: so many submits and polls in each tick.
    submits: int = 15
    polls: int = 20
    every_seconds: int = 10
    # What the provider takes at most, and what each tenant may send, evenly: "100/1h". Empty: no window.
    window: str = ""
    tenant_window: str = ""
    # Failed submits are repeated so often, later and later, up to an hour apart.
    retries: int = 12
    # What a tenant may post a day, unless it has a limit of its own.
    daily_limit: int = 10_000
    # What is beyond it is refused with 429, or held until a day that has room.
    over_limit: Literal["refuse", "hold"] = "refuse"
    # What signs the reports of Resend (its webhook's secret), and what those of ACS come with.
    resend_reports: Secret | None = None
    acs_reports: Secret | None = None
    # Networks and names that webhooks of tenants may go to besides public ones.
    allow: tuple[str, ...] | None = None
    # A mail that comes in by SMTP has at most so many bytes.
    smtp_size: int = 10_000_000
    # Sent and cancelled messages, and keys of requests, are kept so long; failed ones until you act.
    keep_days: int = 7

    def __post_init__(self) -> None:
        for name in ("submits", "polls", "every_seconds", "daily_limit", "keep_days"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: give a number from 1 upward")
        if self.provider == "acs":
            try:
                base64.b64decode(self.secret, validate=True)
            except (binascii.Error, ValueError):
                raise ValueError("key: the access key of ACS is a text in base64") from None

        if self.provider in self.fallback or len(set(self.fallback)) < len(self.fallback):
            raise ValueError("fallback: name other providers, each once")

    @property
    def chain(self) -> tuple[str, ...]:
        """All providers, in the order in which they are asked."""
        return (self.provider, *self.fallback)

    def as_provider(self, name: str) -> Settings:
        """The same with another one of the chain in the first place."""
        if name == self.provider:
            return self
        place, key = getattr(self, f"{name}_endpoint"), getattr(self, f"{name}_key")
        kind: Any = name
        return msgspec.structs.replace(self, provider=kind, endpoint=place, key=key, fallback=())

    @property
    def allowed(self) -> tuple[str, ...]:
        """Loopback only while the provider is a twin there."""
        if self.allow is not None:
            return self.allow
        return ("127.0.0.0/8",) if self.url.partition("://")[2].startswith("127.0.0.1:") else ()

    @property
    def url(self) -> str:
        """The provider's address without a slash at its end."""
        return (self.endpoint or TWINS[self.provider]).rstrip("/")

    @property
    def secret(self) -> str:
        return DEMO_KEYS[self.provider] if self.key is None else self.key.reveal()
