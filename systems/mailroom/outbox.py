"""The outbox: it hands mails to the provider, asks what became of them, and accounts for each.

Submits and polls come in ticks, so many in ten seconds, whoever posts and how much. A message has a key that
was stored before the first submit: what nobody can tell is asked again under the same key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from duework import Accepted, Exponential, Outbox, OutboxHandle, Pending, Rejected, Sent
from systems.mailroom import providers
from systems.mailroom.mail import Mail
from systems.mailroom.part import part
from systems.mailroom.settings import Settings


class MailOutbox(Outbox[Mail]):
    """By the rules of the provider that the settings name."""

    backoff = Exponential(first="10s", cap="1h")
    timeout = "30s"

    def __init__(self, settings: Callable[[], Settings], now: Callable[[], int]) -> None:
        chosen = settings()
        self.provider = providers.make(settings, now)
        self.submit_pace, self.poll_pace = self.provider.paces()
        self.remembers_keys = self.provider.remembers_keys
        self.retries = chosen.retries
        self.poll_every = f"{chosen.every_seconds}s"
        self.keep = f"{chosen.keep_days}d"

    async def submit(self, message: Mail, key: str) -> Accepted | Sent | Rejected:
        if message.blocked:
            return Rejected(message.blocked)
        return await self.provider.submit(message, key)

    async def poll(self, handle: str, message: Mail) -> Pending | Sent | Rejected:  # noqa: ARG002
        return await self.provider.poll(handle)


def _settings() -> Settings:
    found: Settings = part.settings
    return found


def _now() -> int:
    return part.app.now()


outbox = MailOutbox(_settings, _now)
box: OutboxHandle[Mail] = part.outbox("mail", outbox)


def row_key(tenant: str, key: str) -> str:
    """A tenant's key among those of all tenants; names of tenants have no colon."""
    return f"{tenant}:{key}"


def own_key(key: str) -> str:
    """The key as its tenant gave it."""
    return key.partition(":")[2]


def plain(message: Any) -> dict[str, Any]:
    """What was stored of a mail, as plain data."""
    found: dict[str, Any] = message.message
    return found
