"""The two ways by which a reminder reaches somebody, each with a time limit that really ends the request.

What is sent was stored when the reminder fired, so every try sends the same bytes under the same key;
the receiver's URL and secret are those of the moment.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from functools import lru_cache
from typing import TypeVar
from urllib.parse import urlsplit

from duework import Fail, Retry, Send, http, webhooks
from systems.reminders import endpoints
from systems.reminders.part import part, settings
from systems.reminders.providers import resend
from systems.reminders.rules import webhook_id

T = TypeVar("T")

GONE = 410


async def email(to: str, subject: str, text: str, key: str) -> None:
    """One mail for one key, by the provider that the settings name."""
    chosen = settings()
    mail = {"from": chosen.sender, "to": [to], "subject": subject, "text": text}
    await in_time(resend.send(chosen.resend_url, chosen.resend_key, mail, key), chosen.timeout_ms)


async def webhook(to: Send, endpoint: str, body: str, key: str) -> None:
    """One signed POST; its id is the key, so a receiver knows a second one."""
    found = endpoints.find(endpoint)
    if found.state == "off":
        raise Fail(f"the endpoint {found.name} is switched off: {found.reason}")
    headers = signed(endpoints.secrets_of(found, to.now, to.secret), webhook_id(key), body, to.now)
    status = await in_time(_post(found.url, body, headers), settings().timeout_ms)
    if status == GONE:
        # In one commit with the channel's end.
        to.write(
            endpoints.SWITCH_OFF, reason="it answered 410: it is gone", now=to.now, id=endpoint
        )
        raise Fail("410: the endpoint is gone and was switched off")
    if not 200 <= status < 300:  # noqa: PLR2004 - 2xx
        raise Retry(None, f"{status} from {urlsplit(found.url).hostname}")


async def test_call(endpoint: str) -> int:
    """One signed POST that means nothing, also to an endpoint that is off; the status it was answered."""
    found, now = endpoints.find(endpoint), part.app.now()
    id_ = f"test:{endpoint}:{now}"
    body = json.dumps({"id": id_, "title": "A test of this endpoint", "test": True})
    headers = signed(endpoints.secrets_of(found, now, part.app.secrets.open), id_, body, now)
    return await in_time(_post(found.url, body, headers), settings().timeout_ms)


def signed(secrets: list[str], id_: str, body: str, now: int) -> dict[str, str]:
    """Standard Webhooks with every secret that is valid now, and the article's own header beside it."""
    return {
        "content-type": "application/json",
        **webhooks.sign(secrets, id_, body, now=now),
        **webhooks.sign_notify(secrets[0], body),
    }


async def _post(url: str, body: str, headers: dict[str, str]) -> int:
    try:
        reply = await guarded(settings().allowed).post(url, content=body, headers=headers)
    except http.TooMany as slow:
        # A receiver that is always busy must not hold its reminder for ever: it counts as a failure.
        return slow.response.status
    except http.Refused as refused:
        raise Fail(str(refused)) from refused
    return reply.status


async def in_time(work: Awaitable[T], limit_ms: int) -> T:
    """Wait no longer than that; the request is ended, and what it did is not known."""
    try:
        async with asyncio.timeout(limit_ms / 1000):
            return await work
    except TimeoutError:
        raise http.LostReply(f"operation timed out after {limit_ms}ms") from None


@lru_cache(maxsize=8)
def guarded(allow: tuple[str, ...]) -> http.Client:
    """One client for all receivers: it holds the connections."""
    return http.Client(guard=http.Guard(allow), timeout="15s", pool=100, limit=100_000)
