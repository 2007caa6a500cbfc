"""The hop to a notification proxy, for places whose addresses Discord or Telegram refuse.

`POST /send-notification` with the header `X-API-Secret`; what the proxy got from the service comes back as
200 `{"status", "error", "retryAfter"}`. Any other status is the proxy's own trouble, never the person's.
"""

from __future__ import annotations

import msgspec

from duework import Throttled, http
from systems.streaks.github import client
from systems.streaks.part import part

# Within the 15 s of the channel.
TIMEOUT = "10s"
TOO_MANY = 429
# Seconds; nobody is believed for longer.
LONGEST = 86_400.0
# The proxy says that it has sent nothing.
NOT_SENT = frozenset({400, 401, 403, 404, 413, 422, 429, 503})


class Answer(msgspec.Struct, rename="camel"):
    """What the service said, whoever asked it."""

    status: int
    error: str = ""
    retry_after: float = 60.0


async def relay(notification: dict[str, str]) -> Answer:
    """Let the proxy send it."""
    given = part.settings
    secret = {"x-api-secret": given.proxy_secret.reveal() if given.proxy_secret else ""}
    reply = await client(given.proxy_url).post(
        "/send-notification", json=notification, headers=secret, timeout=TIMEOUT
    )
    if reply.status in NOT_SENT:
        reply.check()
    try:
        found: Answer = reply.check().json(Answer)
    except http.HttpError as error:
        # It may have sent it before that went wrong.
        raise http.LostReply(f"the proxy: {error}") from None
    if found.status == TOO_MANY:
        raise Throttled(min(max(1.0, found.retry_after), LONGEST))
    return found
