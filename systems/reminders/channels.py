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

from duework import Conflict, Fail, Retry, Send, http, webhooks
from systems.reminders import attempts, endpoints, log
from systems.reminders.attempts import Call
from systems.reminders.part import part, settings
from systems.reminders.providers import resend, smtp
from systems.reminders.rules import sent_id

T = TypeVar("T")

GONE = 410


async def email(to: str, subject: str, text: str, key: str) -> None:
    """One mail for one key, by the provider that the settings name."""
    chosen = settings()
    mail = {"from": chosen.sender, "to": [to], "subject": subject, "text": text}
    if chosen.mail == "smtp":
        work = smtp.send(chosen.smtp_url, chosen.smtp_user, chosen.smtp_key, mail, key)
    else:
        work = resend.send(chosen.resend_url, chosen.resend_key, mail, key)
    await in_time(work, chosen.timeout_ms)


async def webhook(to: Send, endpoint: str, body: str, key: str) -> None:
    """One signed POST; its id is the key, so a receiver knows a second one."""
    found = endpoints.find(endpoint)
    if found.state == "off":
        raise Fail(f"the endpoint {found.name} is switched off: {found.reason}")
    id_ = sent_id(key, body)
    headers = signed(endpoints.secrets_of(found, to.now, to.secret), id_, body, to.now)
    began = to.now
    try:
        status, answer = await in_time(_post(found.url, body, headers), settings().timeout_ms)
    except (http.HttpError, OSError) as error:
        call = Call(endpoint, id_, began, part.app.now(), error=str(error))
        await attempts.failed(call, settings().disable_after)
        raise
    call = Call(endpoint, id_, began, part.app.now(), status=status, answer=answer)
    if 200 <= status < 300:  # noqa: PLR2004 - 2xx
        attempts.went_well(to, call, found)
        return
    if status == GONE:
        # In one commit with the channel's end.
        attempts.note(to, call)
        to.write(
            endpoints.SWITCH_OFF, reason="it answered 410: it is gone", now=to.now, id=endpoint
        )
        raise Fail("410: the endpoint is gone and was switched off")
    await attempts.failed(call, settings().disable_after)
    raise Retry(None, f"{status} from {urlsplit(found.url).hostname}")


async def test_call(endpoint: str) -> int:
    """One signed POST that means nothing, also to an endpoint that is off; the status it was answered."""
    id_ = f"test:{endpoint}:{part.app.now()}"
    body = json.dumps({"id": id_, "title": "A test of this endpoint", "test": True})
    return await _by_hand("test", endpoint, id_, body, None)


async def replay(job: int) -> int:
    """The stored body of a fire once more, under the same id, signed by the secret of today.

    One attempt, which changes nothing about the fire or its endpoint; also to one that is off.
    """
    found = log.find(job)
    if found.body is None:
        raise Conflict(f"fire {job} had no webhook, or its body is no longer kept")
    endpoint = log.endpoint_of(found)
    id_ = sent_id(f"{found.key}:webhook", found.body)
    return await _by_hand("replay", endpoint, id_, found.body, job)


async def _by_hand(kind: attempts.Kind, endpoint: str, id_: str, body: str, job: int | None) -> int:
    found, now = endpoints.find(endpoint), part.app.now()
    headers = signed(endpoints.secrets_of(found, now, part.app.secrets.open), id_, body, now)
    try:
        status, answer = await in_time(_post(found.url, body, headers), settings().timeout_ms)
    except (http.HttpError, OSError) as error:
        await attempts.kept(
            Call(endpoint, id_, now, part.app.now(), kind=kind, job=job, error=str(error))
        )
        raise
    later = part.app.now()
    await attempts.kept(
        Call(endpoint, id_, now, later, kind=kind, job=job, status=status, answer=answer)
    )
    return status


def signed(secrets: list[str], id_: str, body: str, now: int) -> dict[str, str]:
    """Standard Webhooks with every secret that is valid now, and the article's own header beside it."""
    return {
        "content-type": "application/json",
        **webhooks.sign(secrets, id_, body, now=now),
        **webhooks.sign_notify(secrets[0], body),
    }


async def _post(url: str, body: str, headers: dict[str, str]) -> tuple[int, str]:
    try:
        reply = await guarded(settings().allowed).post(url, content=body, headers=headers)
    except http.TooMany as slow:
        # A receiver that is always busy must not hold its reminder for ever: it counts as a failure.
        reply = slow.response
    except http.Refused as refused:
        raise Fail(str(refused)) from refused
    return reply.status, reply.text


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
