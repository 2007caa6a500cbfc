"""Signed webhooks: Standard Webhooks, and the plain `X-Notify-Signature` beside it.

A webhook is signed over its id, the time in seconds and the exact bytes of its body, once for each
secret that is valid now, so that a receiver may still know the old one while it is replaced:

    headers = webhooks.sign([secret], "msg_1", body, now=run.now)
    webhooks.verify([secret], request.headers, body, now=app.now())

The id stays the same over all tries of a delivery; the time is that of the try. Times are the App's, so
that a test in virtual time and a demo in quick motion sign and verify as the real thing does.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets as randomness
from collections.abc import Iterable, Mapping

from duework.durations import Duration, Moment, milliseconds, moment
from duework.errors import BadSignature, UsageError

PREFIX = "whsec_"
# In bytes. The specification asks for 24; libraries accept shorter ones that exist already.
SHORTEST, LONGEST = 16, 64
TOLERANCE = "5m"
# A receiver reads no more of a header than this.
HEADER_LIMIT = 4096
DIGITS = 12
NOTIFY = "X-Notify-Signature"


def new_secret() -> str:
    """A secret for one endpoint."""
    return PREFIX + base64.b64encode(randomness.token_bytes(32)).decode()


def sign(
    secrets: str | Iterable[str],
    id: str,  # noqa: A002 - as the header is called
    body: bytes | str,
    *,
    now: Moment,
) -> dict[str, str]:
    """The three headers of Standard Webhooks, signed with every secret that is valid now."""
    _check_id(id)
    seconds = moment(now) // 1000
    signatures = [_signature(key, id, str(seconds), _bytes(body)) for key in _keys(secrets)]
    return {
        "webhook-id": id,
        "webhook-timestamp": str(seconds),
        "webhook-signature": " ".join(signatures),
    }


def verify(
    secrets: str | Iterable[str],
    headers: Mapping[str, str],
    body: bytes | str,
    *,
    now: Moment,
    tolerance: Duration = TOLERANCE,
) -> str:
    """The webhook's id, if one of these secrets signed exactly this; else `BadSignature`.

    Whoever receives webhooks enqueues under that id as a key: a repeated one is known then.
    """
    keys = _keys(secrets)
    found = {name.lower(): value for name, value in headers.items()}
    id_, timestamp, given = (_header(found, part) for part in ("id", "timestamp", "signature"))
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= DIGITS):
        raise BadSignature("the header webhook-timestamp is not a time in seconds")
    age = moment(now) // 1000 - int(timestamp)
    if abs(age) > milliseconds(tolerance) // 1000:
        raise BadSignature(f"the webhook was signed {abs(age)} s {'ago' if age > 0 else 'ahead'}")
    right = [_signature(key, id_, timestamp, _bytes(body)).encode() for key in keys]
    # All pairs, however soon one matches: the time it takes says nothing about which.
    matches = [hmac.compare_digest(a, b.encode()) for a in right for b in given.split(" ")]
    if not any(matches):
        raise BadSignature("no signature of the webhook matches")
    return id_


def sign_notify(secret: str, body: bytes | str) -> dict[str, str]:
    """The header `X-Notify-Signature: sha256=…`: the body alone, without an id or a time."""
    return {NOTIFY: f"sha256={_notify(secret, _bytes(body))}"}


def verify_notify(secrets: str | Iterable[str], header: str, body: bytes | str) -> None:
    """Whether one of the secrets signed this body; else `BadSignature`."""
    given = header.removeprefix("sha256=").encode("utf-8", "replace")
    plain = [secrets] if isinstance(secrets, str) else list(secrets)
    right = [_notify(secret, _bytes(body)).encode() for secret in plain]
    matches = [hmac.compare_digest(each, given) for each in right]
    if not any(matches):
        raise BadSignature("the signature does not match")


def _notify(secret: str, body: bytes) -> str:
    if not secret:
        raise UsageError("a webhook's secret is empty")
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def _signature(key: bytes, id_: str, timestamp: str, body: bytes) -> str:
    signed = f"{id_}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()


def _keys(secrets: str | Iterable[str]) -> list[bytes]:
    found = [_key(each) for each in ([secrets] if isinstance(secrets, str) else secrets)]
    if not found:
        raise UsageError("a webhook needs at least one secret; webhooks.new_secret() makes one")
    return found


def _key(secret: str) -> bytes:
    text = secret.removeprefix(PREFIX)
    try:
        key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not SHORTEST <= len(key) <= LONGEST:
        # The secret itself is never part of a message.
        raise UsageError(
            f"a webhook's secret is {PREFIX} and {SHORTEST} to {LONGEST} bytes in base64;"
            " webhooks.new_secret() makes one"
        )
    return key


def _check_id(id_: str) -> None:
    if not id_ or not id_.isascii() or not id_.isprintable() or "." in id_ or " " in id_:
        raise UsageError(f"a webhook's id is a text without spaces or dots: {id_[:80]!r}")


def _header(headers: Mapping[str, str], part: str) -> str:
    value = headers.get(f"webhook-{part}") or headers.get(f"svix-{part}") or ""
    if not value or len(value) > HEADER_LIMIT:
        raise BadSignature(f"the header webhook-{part} is missing or too long")
    return value


def _bytes(body: bytes | str) -> bytes:
    return body.encode() if isinstance(body, str) else body
