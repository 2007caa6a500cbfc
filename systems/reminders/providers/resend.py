"""Resend: one mail for one key, however often it is asked for within 24 hours.

Asked again with the same key: what it said to come back for, what was lost, and 5xx. Anything else that
it refuses is refused for good, until a person has looked.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from duework import Fail, Secret, Throttled, http

KEY_LIMIT = 256
QUOTAS = {"daily_quota_exceeded", "monthly_quota_exceeded"}
IN_PROGRESS = "concurrent_idempotent_requests"
# A quota comes back with the day, not with the second.
QUOTA_WAIT = "1h"


@lru_cache(maxsize=8)
def client(url: str) -> http.Client:
    """One client for each address: it holds the connections."""
    return http.Client(url, timeout="15s", limit=100_000)


async def send(url: str, token: Secret, mail: dict[str, Any], key: str) -> None:
    """Hand a mail over; returns when it was taken."""
    headers = {"authorization": f"Bearer {token.reveal()}", "idempotency-key": key[:KEY_LIMIT]}
    try:
        reply = await client(url).post("/emails", json=mail, headers=headers)
    except http.TooMany as slow:
        if _name(slow.response) in QUOTAS:
            raise Throttled(QUOTA_WAIT) from slow
        raise
    if reply.ok:
        return
    name = _name(reply)
    if name == IN_PROGRESS:
        raise http.LostReply("the same mail is still being taken by the provider")
    if reply.status >= 500:  # noqa: PLR2004 - 5xx
        reply.check()
    raise Fail(f"{reply.status} from the mail provider: {name or 'refused'}")


def _name(reply: http.Response) -> str:
    """What the provider calls the error."""
    try:
        found = reply.json(dict[str, Any])
    except Exception:  # noqa: BLE001 - an answer that is not the documented one has no name
        return ""
    return str(found.get("name", ""))[:60]
