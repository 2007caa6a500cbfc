"""Azure Communication Services: a send is accepted with 202, and what became of it is polled for.

Every request is signed, polls too. `Operation-Id` is made from the message's key, so a send whose reply
was lost is asked for again under the same id and is not a second mail. The address to poll comes from
the reply and is used as it is, but only on the endpoint's own host.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import uuid
from collections.abc import Sequence
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, ClassVar
from urllib.parse import urlsplit

import msgspec

from duework import Accepted, Fail, Pending, Rejected, Sent, http
from systems.mailroom.mail import Attachment, Mail
from systems.mailroom.providers import Provider, ambiguous

VERSION = "2023-03-31"
SEND = f"/emails:send?api-version={VERSION}"
# Seconds; what asks for more is asked sooner all the same.
LONGEST_WAIT = 3600
# Where the ids of operations come from.
IDS = uuid.UUID("5c4fbb52-6d0c-4d0f-9f0b-0f5f6a3f2c11")


class Acs(Provider):
    name: ClassVar[str] = "acs"
    # Not documented; users report that a used Operation-Id is not sent again.
    remembers_keys: ClassVar[str | None] = "1d"

    @staticmethod
    def ledger_key(key: str) -> str:
        return operation_id(key)

    @staticmethod
    def ref(key: str) -> str:
        return operation_id(key)

    async def submit(self, mail: Mail, key: str) -> Accepted | Sent | Rejected:
        body = msgspec.json.encode(written(mail, self.files(mail)))
        operation = operation_id(key)
        more = {"content-type": "application/json", "operation-id": operation}
        reply = await self._signed("POST", f"{self._settings().url}{SEND}", body, more)
        if reply.status == HTTPStatus.ACCEPTED:
            return Accepted(self._place(reply, operation), after=self._wait(reply))
        if reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise ambiguous(reply)
        if reply.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            # The key or the clock is wrong, not the mail: it waits for an operator.
            raise http.HttpError(reason(reply))
        raise Fail(reason(reply))

    async def poll(self, handle: str) -> Pending | Sent | Rejected:
        reply = await self._signed("GET", handle, b"", {})
        if reply.status == HTTPStatus.NOT_FOUND:
            # Seen right after a send: not visible yet. The outbox bounds how long it is asked for.
            return Pending()
        found = reply.check().json()
        status = found.get("status") if isinstance(found, dict) else None
        if status == "Succeeded":
            return Sent()
        if status == "Failed":
            return Rejected(message_of(found) or "delivery failed")
        if status == "Canceled":
            return Rejected("the provider has cancelled it")
        return Pending(after=self._wait(reply))

    def _place(self, reply: http.Response, operation: str) -> str:
        """Where to poll: what the reply says, unless that is another host."""
        given, own = reply.headers.get("operation-location", ""), self._settings().url
        if urlsplit(given)[:2] == urlsplit(own)[:2]:
            return given
        return f"{own}/emails/operations/{operation}?api-version={VERSION}"

    def _wait(self, reply: http.Response) -> str | None:
        """What it asks for, if that is longer than a tick."""
        asked = reply.headers.get("retry-after", "")
        seconds = min(int(asked), LONGEST_WAIT) if asked.isascii() and asked.isdigit() else 0
        return f"{seconds}s" if seconds > self._settings().every_seconds else None

    async def _signed(
        self, verb: str, url: str, body: bytes, more: dict[str, str]
    ) -> http.Response:
        date = formatdate(self._now() / 1000, usegmt=True)
        own = signed(self._settings().secret, verb, url, date, body)
        return await self.client().request(verb, url, headers={**own, **more}, content=body or None)


def operation_id(key: str) -> str:
    """The same id for the same key, on every try."""
    return str(uuid.uuid5(IDS, key))


def signed(secret: str, verb: str, url: str, date: str, body: bytes) -> dict[str, str]:
    """The headers of a signed request."""
    place = urlsplit(url)
    path = url.removeprefix(f"{place.scheme}://{place.netloc}")
    digest = base64.b64encode(hashlib.sha256(body).digest()).decode()
    text = f"{verb}\n{path}\n{date};{place.netloc};{digest}"
    made = hmac.digest(base64.b64decode(secret), text.encode(), "sha256")
    names = "HMAC-SHA256 SignedHeaders=x-ms-date;host;x-ms-content-sha256"
    return {
        "x-ms-date": date,
        "x-ms-content-sha256": digest,
        "authorization": f"{names}&Signature={base64.b64encode(made).decode()}",
    }


def written(mail: Mail, files: Sequence[tuple[Attachment, str]] = ()) -> dict[str, Any]:
    """A mail in the provider's words."""
    content = {"subject": mail.subject, "plainText": mail.text, "html": mail.html}
    found: dict[str, Any] = {
        "senderAddress": mail.sender,
        "content": {name: text for name, text in content.items() if text},
        "recipients": {"to": [{"address": each} for each in mail.to]},
    }
    if mail.reply_to:
        found["replyTo"] = [{"address": mail.reply_to}]
    if files:
        found["attachments"] = [
            {"name": each.name, "contentType": each.type, "contentInBase64": content}
            for each, content in files
        ]
    return found


def reason(reply: http.Response) -> str:
    """Why it refused, in its own words, bounded."""
    try:
        text = message_of(reply.json())
    except http.HttpError:
        text = ""
    return f"{reply.status}: {text or 'the provider refused it'}"[:500]


def message_of(found: Any) -> str:
    error = found.get("error") if isinstance(found, dict) else None
    return str(error.get("message") or "") if isinstance(error, dict) else ""
