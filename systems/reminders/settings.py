"""What an operator sets: `[reminders]` in duework.toml, or REMINDERS_* in the environment."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

import msgspec

from duework import Secret

LONGEST_TIMEOUT = 10_000


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults are those of the twins (`python -m systems.twins --all`)."""

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
        if self.limit < 1 or self.resend_rate < 1 or self.retries < 0 or not self.backoff:
            raise ValueError("limit, resend_rate and backoff are at least one, retries at least 0")

    @property
    def allowed(self) -> tuple[str, ...]:
        """Loopback only while the mail provider is a twin there: not by accident with a real one."""
        if self.allow is not None:
            return self.allow
        return ("127.0.0.0/8",) if _is_loopback(self.resend_url) else ()


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
