"""Resend: one request with an `Idempotency-Key`, honoured for a day; 200 means that it will be sent."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, ClassVar

import msgspec

from duework import Accepted, Fail, Pending, Rejected, Sent, Tick, http
from systems.mailroom.mail import Attachment, Mail
from systems.mailroom.providers import Provider, ambiguous


class Resend(Provider):
    name: ClassVar[str] = "resend"
    remembers_keys: ClassVar[str | None] = "24h"

    def paces(self) -> tuple[Any, Any]:
        """Two calls a second, as the documentation says for a team."""
        return Tick(2, "1s"), None

    async def submit(self, mail: Mail, key: str) -> Accepted | Sent | Rejected:
        more = {
            "authorization": f"Bearer {self._settings().secret}",
            "idempotency-key": key,
            "content-type": "application/json",
        }
        made = written(mail, self.files(mail))
        # Its reports come with this tag.
        made["tags"] = [{"name": "ref", "value": self.ref(key)}]
        body = msgspec.json.encode(made)
        reply = await self.client().post("/emails", headers=more, content=body)
        if reply.ok:
            return Sent()
        if reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise ambiguous(reply)
        name, text = _error(reply)
        if name == "concurrent_idempotent_requests":
            raise http.LostReply("an earlier request with this key is still running there")
        if reply.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            raise http.HttpError(text)
        raise Fail(text)

    async def poll(self, handle: str) -> Pending | Sent | Rejected:  # noqa: ARG002 - never asked
        return Sent()


def written(mail: Mail, files: Sequence[tuple[Attachment, str]] = ()) -> dict[str, Any]:
    """A mail in the provider's words."""
    found: dict[str, Any] = {"from": mail.sender, "to": list(mail.to), "subject": mail.subject}
    more = {"text": mail.text, "html": mail.html, "reply_to": mail.reply_to}
    if files:
        found["attachments"] = [
            {"filename": each.name, "content": content, "content_type": each.type}
            for each, content in files
        ]
    return found | {name: text for name, text in more.items() if text}


def _error(reply: http.Response) -> tuple[str, str]:
    """The name of the error, and its words, bounded."""
    try:
        found = reply.json()
    except http.HttpError:
        found = None
    if not isinstance(found, dict):
        return "", f"{reply.status}: the provider refused it"
    name, text = str(found.get("name", "")), str(found.get("message", ""))
    return name, f"{reply.status}: {text}"[:500]
