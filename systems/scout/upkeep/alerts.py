"""A mail to whoever runs this, by Resend, if a key and an address are set; one for each reason and day."""

from __future__ import annotations

import functools
from typing import Any

from duework import Cancel, Fail, http
from systems.scout.part import part, settings

DAY = 86_400_000


@functools.lru_cache(maxsize=8)
def client(url: str) -> http.Client:
    """One for each address: it holds the connections."""
    return http.Client(url, timeout="15s", limit=100_000)


def degraded(tx: Any, lines: list[str], day: int) -> None:
    """Some fields are below their thresholds."""
    subject = f"[Pipeline] Data quality degraded: {len(lines)} fields"
    tell(tx, subject, "\n".join(lines), f"scout-quality-{day // DAY}")


def large(tx: Any, size: int, budget: int, day: int) -> None:
    """The database comes near to what it may grow to."""
    subject = f"[Pipeline] Database at {100 * size // budget}% of its budget"
    text = (
        f"{size:,} of {budget:,} bytes. Apps that nobody sees are archived after SCOUT_KEEP days."
    )
    tell(tx, subject, text, f"scout-size-{day // DAY}")


def tell(tx: Any, subject: str, text: str, key: str) -> None:
    """Send a mail, if anybody is to be told."""
    if settings().alert_to and settings().resend_key is not None:
        tx.enqueue(mail.using(key=key), subject, text, key)


@part.task(queue="scout", retries=8, backoff=("10s", "1m", "10m", "1h"), timeout="1m")
async def mail(subject: str, text: str, key: str) -> None:
    """The same key is one mail, however often it is asked for."""
    asked = settings()
    if asked.resend_key is None:
        raise Cancel("nobody is to be told any more")
    reply = await client(asked.resend_url).post(
        "/emails",
        json={"from": asked.alert_from, "to": [asked.alert_to], "subject": subject, "text": text},
        headers={
            "authorization": f"Bearer {asked.resend_key.reveal()}",
            "idempotency-key": key,
        },
    )
    if 400 <= reply.status < 500 and reply.status != 409:  # noqa: PLR2004 - refused for good
        raise Fail(f"{reply.status} from the mail provider")
    reply.check()
