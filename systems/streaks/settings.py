"""What can be set: the table `[streaks]` of duework.toml, or STREAKS_* in the environment."""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec

from duework import Secret, UsageError


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults are the addresses of `python -m systems.twins --all`; the README has the real ones."""

    github_url: str = "http://127.0.0.1:8472"
    discord_url: str = "http://127.0.0.1:8473"
    telegram_url: str = "http://127.0.0.1:8474"
    # Where people sign in with GitHub, and what GitHub knows this application by.
    login_url: str = "http://127.0.0.1:8472"
    client_id: str = "Iv1.twin"
    client_secret: Secret = Secret("github-secret")
    # Sends for us, if it is set: by https, unless it is on this machine.
    proxy_url: str = ""
    proxy_secret: Secret | None = None
    # What callers of /api/cron/… have to send; without one nobody may call.
    server_secret: Secret | None = None
    # How long the check of one person may take, in a process of its own.
    budget: str = "30s"
    # How long /api/cron/process-user waits for the outcome.
    patience: str = "30s"
    # How long days and messages are kept.
    keep_days: int = 400

    def __post_init__(self) -> None:
        if not self.proxy_url:
            return
        found = urlsplit(self.proxy_url)
        if found.scheme != "https" and found.hostname not in {"127.0.0.1", "localhost", "::1"}:
            raise UsageError("proxy_url begins with https://: tokens go through it")
        if self.proxy_secret is None:
            raise UsageError("proxy_url needs proxy_secret, which the proxy asks for")
