"""What an operator chooses: the provider and its address, how fast, how long things are kept.

The defaults lead to the twins as `python -m systems.twins --all` starts them. `[mailroom]` in
`duework.toml` and `MAILROOM_…` in the environment go before them.
"""

from __future__ import annotations

import base64
import binascii
from typing import Literal

import msgspec

from duework import Secret

# Of the twin, for everybody to read: it opens nothing but the twin.
DEMO_KEY = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
TWINS = {
    "acs": "http://127.0.0.1:8475",
    "resend": "http://127.0.0.1:8476",
    "smtp": "smtp://127.0.0.1:8587",
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
    # Who mails are from unless they say so themselves.
    sender: str = "no-reply@mail.demo.example"
    # The article's figures: so many submits and polls in each tick.
    submits: int = 15
    polls: int = 20
    every_seconds: int = 10
    # Failed submits are repeated so often, later and later, up to an hour apart.
    retries: int = 12
    # What a tenant may post a day, unless it has a limit of its own.
    daily_limit: int = 10_000
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

    @property
    def url(self) -> str:
        """The provider's address without a slash at its end."""
        return (self.endpoint or TWINS[self.provider]).rstrip("/")

    @property
    def secret(self) -> str:
        return DEMO_KEYS[self.provider] if self.key is None else self.key.reveal()
