"""The outbox: it hands mails to a provider, asks what became of them, and accounts for each.

Submits and polls come in ticks, so many in ten seconds, whoever posts and how much. A message has a key that
was stored before the first submit: what nobody can tell is asked again under the same key. Where the settings
name more than one provider, a mail goes on to the next one only if it is known that no other has it.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from duework import (
    Accepted,
    Exponential,
    Fail,
    Outbox,
    OutboxHandle,
    Pending,
    Rate,
    Rejected,
    Sent,
    Throttled,
    http,
)
from duework.durations import milliseconds
from systems.mailroom import blobs, providers
from systems.mailroom.mail import Mail
from systems.mailroom.part import part
from systems.mailroom.settings import Settings
from systems.mailroom.tries import Tries

# A provider that said "too many", or was not there, is asked last for so long.
COOL_MS = 60_000


class MailOutbox(Outbox[Mail]):
    """By the rules of the providers that the settings name."""

    backoff = Exponential(first="10s", cap="1h")
    timeout = "30s"

    def __init__(
        self,
        settings: Callable[[], Settings],
        now: Callable[[], int],
        tries: Tries | None = None,
        load: Callable[[str], str] | None = None,
    ) -> None:
        chosen = settings()
        self.chain = providers.make(settings, now, load)
        self.provider = self.chain[0]
        self.submit_pace, self.poll_pace = self._paces(chosen)
        self.remembers_keys = self._memory()
        self.retries = chosen.retries
        self.poll_every = f"{chosen.every_seconds}s"
        self.keep = f"{chosen.keep_days}d"
        self._tries, self._now = tries, now
        self._cool: dict[str, int] = {}

    def _paces(self, chosen: Settings) -> tuple[Any, Any]:
        """The provider's own, and the windows of the settings, which are exact: evenly, one at a time."""
        submit, poll = self.provider.paces()
        if poll is None:
            poll = next((each.paces()[1] for each in self.chain if each.paces()[1]), None)
        windows = [Rate(chosen.window, burst=1)] if chosen.window else []
        if chosen.tenant_window:
            windows.append(Rate(chosen.tenant_window, per="lane", burst=1))
        return [submit, *windows], poll

    def _memory(self) -> str | None:
        """How long the key of a lost submit is good; those without keys are looked after below."""
        found = [each.remembers_keys for each in self.chain if each.remembers_keys is not None]
        return min(found, key=milliseconds, default=None)

    async def submit(self, message: Mail, key: str) -> Accepted | Sent | Rejected:
        if message.blocked:
            return Rejected(message.blocked)
        if self._tries is None:
            return await self.provider.submit(message, key)
        held, _ = self._tries.open_with(key)
        if held is not None:
            return await self._again(self._tries, held, message, key)
        return await self._offer(self._tries, message, key)

    async def _again(
        self, tries: Tries, held: str, message: Mail, key: str
    ) -> Accepted | Sent | Rejected:
        """One provider may have it: it is asked again under its key, and nobody else ever is."""
        chosen = next((each for each in self.chain if each.name == held), None)
        if chosen is None or chosen.remembers_keys is None:
            # Unsure: the engine knows of a submit without an outcome.
            raise Fail(f"{held} may have taken it, and cannot be asked again")
        await tries.begin(key, held, chosen.ref(key))
        try:
            return await chosen.submit(message, key)
        except Exception as error:
            await tries.failed(key, held, str(error))
            raise

    async def _offer(self, tries: Tries, message: Mail, key: str) -> Accepted | Sent | Rejected:
        last: Exception | None = None
        for each in self._in_turn():
            await tries.begin(key, each.name, each.ref(key))
            try:
                return await each.submit(message, key)
            except Exception as error:
                if not _is_refusal(error):
                    await tries.failed(key, each.name, str(error))
                    raise
                await tries.refused(key, each.name, str(error))
                self._cool[each.name] = self._now() + _wait(error)
                last = error
                if isinstance(error, Fail):
                    raise
        assert last is not None, "there is at least one provider"
        raise last

    def _in_turn(self) -> list[providers.Provider]:
        """The chain, with those at the end that have just refused; alone in it, one is asked always."""
        now = self._now()
        return sorted(self.chain, key=lambda each: self._cool.get(each.name, 0) > now)

    async def poll(self, handle: str, message: Mail) -> Pending | Sent | Rejected:  # noqa: ARG002
        asked = next((each for each in self.chain if each.paces()[1] is not None), None)
        # Whoever took it is in the settings no more: nobody can tell, and nobody says that it was sent.
        return Pending() if asked is None else await asked.poll(handle)


def _is_refusal(error: Exception) -> bool:
    """Whether it is known that the provider has not taken the mail."""
    if isinstance(error, http.LostReply):
        return False
    if isinstance(error, http.TooMany) and error.response.status != HTTPStatus.TOO_MANY_REQUESTS:
        # "Not now" behind a request that went in says nothing for sure.
        return False
    return isinstance(error, (http.HttpError, Throttled, Fail))


def _wait(error: Exception) -> int:
    return error.after_ms if isinstance(error, Throttled) else COOL_MS


def _settings() -> Settings:
    found: Settings = part.settings
    return found


def _now() -> int:
    return part.app.now()


outbox = MailOutbox(_settings, _now, Tries(lambda: part.app), blobs.load)
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
