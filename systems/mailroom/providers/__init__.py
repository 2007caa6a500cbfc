"""Who sends: one module for each provider, all with the same two verbs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, ClassVar

from duework import Accepted, Pending, Rejected, Sent, Tick, http
from systems.mailroom.mail import Attachment, Mail
from systems.mailroom.settings import Settings


class Provider:
    """Submits a mail under a key, and says what became of it."""

    name: ClassVar[str] = ""
    # How long it honours a key; None: it knows none, and a lost reply stays unsure.
    remembers_keys: ClassVar[str | None] = None

    def __init__(
        self,
        settings: Callable[[], Settings],
        now: Callable[[], int],
        load: Callable[[str], str] | None = None,
    ) -> None:
        # The bytes of an attachment in base64.
        self._load = load
        # Looked up at each call, so that a test can lead it elsewhere.
        self._settings = settings
        self._now = now
        self._clients: dict[str, http.Client] = {}

    def paces(self) -> tuple[Any, Any]:
        """How fast it is asked to send, and about what it has."""
        chosen = self._settings()
        every = f"{chosen.every_seconds}s"
        return Tick(chosen.submits, every), Tick(chosen.polls, every)

    def client(self) -> http.Client:
        """One for each address: making one costs more than a request."""
        url = self._settings().url
        if url not in self._clients:
            self._clients[url] = http.Client(url, timeout="10s", now=self._now)
        return self._clients[url]

    @staticmethod
    def ledger_key(key: str) -> str:
        """The key by which the receiver's own account knows a message."""
        return key

    @staticmethod
    def ref(key: str) -> str:
        """By which its reports name a message."""
        return hashlib.sha256(key.encode()).hexdigest()[:40]

    def files(self, mail: Mail) -> list[tuple[Attachment, str]]:
        """The attachments with their bytes in base64."""
        if self._load is None:
            return []
        return [(each, self._load(each.blob)) for each in mail.attachments]

    async def submit(self, mail: Mail, key: str) -> Accepted | Sent | Rejected:
        """Hand it over."""
        raise NotImplementedError

    async def poll(self, handle: str) -> Pending | Sent | Rejected:
        """Ask what became of it."""
        raise NotImplementedError


def ambiguous(reply: http.Response) -> http.LostReply:
    """A failure inside the provider: it may have taken the mail before it failed."""
    return http.LostReply(f"the provider answered {reply.status}; it may have taken the mail")


def make(
    settings: Callable[[], Settings],
    now: Callable[[], int],
    load: Callable[[str], str] | None = None,
) -> list[Provider]:
    """The providers that the settings name, the first one first."""
    from systems.mailroom.providers.acs import Acs
    from systems.mailroom.providers.resend import Resend
    from systems.mailroom.providers.smtp import Smtp

    kinds: dict[str, type[Provider]] = {each.name: each for each in (Acs, Resend, Smtp)}

    def one(name: str) -> Provider:
        return kinds[name](lambda: settings().as_provider(name), now, load)

    return [one(name) for name in settings().chain]
