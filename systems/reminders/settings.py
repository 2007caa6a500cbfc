"""What an operator sets: `[reminders]` in duework.toml, or REMINDERS_* in the environment."""

from __future__ import annotations

import ipaddress
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from duework import Secret

LONGEST_TIMEOUT = 10_000
# Of the twins, for everybody to read: links that it signs lead to the demo.
DEMO_LINKS = "links-of-the-demo"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults are those of the twins (`python -m systems.twins --all`)."""

    # Who sends e-mails.
    mail: Literal["resend", "smtp"] = "resend"
    smtp_url: str = "smtp://127.0.0.1:8521"
    smtp_user: str = "demo"
    smtp_key: Secret = msgspec.field(default_factory=lambda: Secret("secret"))
    resend_url: str = "http://127.0.0.1:8476"
    resend_key: Secret = msgspec.field(default_factory=lambda: Secret("re_demo"))
    sender: str = "Reminders <reminders@demo.example>"
    # E-mails that the provider takes in a second.
    resend_rate: int = 2
    # Where the receivers of the demo's webhooks are.
    hooks_url: str = "http://127.0.0.1:8471"
    # Networks and names that webhooks may go to besides public ones.
    allow: tuple[str, ...] | None = None
    timeout_ms: int = LONGEST_TIMEOUT
    # Who gets a reminder that names nobody: an address, or the id of an endpoint.
    to: str = ""
    # Where these pages are reached from outside, and what signs the links in mails.
    base_url: str = "http://127.0.0.1:8377"
    link_key: Secret | None = None
    # Channels that failed while others went out: "advance" leaves them, "retry-failed" tries them again.
    partial: Literal["advance", "retry-failed"] = "advance"
    # Calls of an endpoint that fail in a row before it is switched off; half of them are a warning.
    disable_after: int = 20
    # Repeats of a reminder that nobody calls done.
    most_repeats: int = 24
    # Retries after the first attempt, and how long before each.
    retries: int = 3
    backoff: tuple[str, ...] = ("1m", "5m", "30m")
    # How many sends are under way at once, over all workers.
    limit: int = 100
    # For how long the history of what went well is kept.
    keep: str = "90d"

    def __post_init__(self) -> None:
        if not 1 <= self.timeout_ms <= LONGEST_TIMEOUT:
            raise ValueError(f"timeout_ms is 1 to {LONGEST_TIMEOUT}")
        if self.disable_after < 2 or self.most_repeats < 1:  # noqa: PLR2004 - a warning comes before
            raise ValueError("disable_after is at least 2, most_repeats at least 1")
        if self.limit < 1 or self.resend_rate < 1 or self.retries < 0 or not self.backoff:
            raise ValueError("limit, resend_rate and backoff are at least one, retries at least 0")

    @property
    def allowed(self) -> tuple[str, ...]:
        """Loopback only while the mail provider is a twin there: not by accident with a real one."""
        if self.allow is not None:
            return self.allow
        return ("127.0.0.0/8",) if self._on_twins else ()

    @property
    def _on_twins(self) -> bool:
        return _is_loopback(self.resend_url if self.mail == "resend" else self.smtp_url)

    @property
    def unsure(self) -> Literal["skip"] | None:
        """What becomes of a mail of which nobody knows: asked again by its key, where there are keys."""
        return "skip" if self.mail == "smtp" else None

    @property
    def signer(self) -> str | None:
        """What signs the links in mails; without a key there are none, unless it is the demo."""
        if self.link_key is not None:
            return self.link_key.reveal()
        return DEMO_LINKS if self._on_twins else None


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
