"""What becomes of a mail after Resend took it, and the webhooks that tell about it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from systems.twins.hooks import standard_signature
from systems.twins.kit.clock import as_datetime, as_iso
from systems.twins.kit.courier import Parcel

EVENTS = {
    f"email.{name}"
    for name in (
        "sent",
        "delivered",
        "delivery_delayed",
        "bounced",
        "complained",
        "opened",
        "clicked",
        "failed",
        "scheduled",
        "suppressed",
        "received",
    )
}
# After the first attempt: 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 10 h.
WAITS = [5_000, 300_000, 1_800_000, 7_200_000, 18_000_000, 36_000_000, 36_000_000]

# The documented test addresses, and what happens to mails to them.
FATES = {
    "delivered@resend.dev": ("delivered",),
    "bounced@resend.dev": ("bounced",),
    "complained@resend.dev": ("delivered", "complained"),
    "suppressed@resend.dev": ("suppressed",),
}


@dataclass(slots=True)
class Mail:
    id: str
    key: str | None
    at: int
    body: dict[str, Any]
    to: list[str]
    # When it goes out; later than `at` if it is scheduled.
    due: int
    # Its events in order, and when each of them happens.
    fate: list[tuple[str, int]] = field(default_factory=list)
    canceled: bool = False
    sent: bool = False

    def last_event(self, now: int) -> str:
        if self.canceled:
            return "canceled"
        if now < self.due:
            return "scheduled"
        return ([name for name, at in self.fate if at <= now] or ["queued"])[-1]

    def as_json(self, now: int) -> dict[str, Any]:
        body = self.body
        return {
            "object": "email",
            "id": self.id,
            "message_id": f"<{self.id}@email.demo.example>",
            "to": self.to,
            "from": body["from"],
            "created_at": stamp(self.at),
            "subject": body["subject"],
            "html": body.get("html"),
            "text": body.get("text"),
            "bcc": listed(body.get("bcc")),
            "cc": listed(body.get("cc")),
            "reply_to": listed(body.get("reply_to")),
            "last_event": self.last_event(now),
            "scheduled_at": as_iso(self.due) if self.due > self.at else None,
            "tags": body.get("tags") or [],
        }


@dataclass(slots=True)
class Hook:
    id: str
    endpoint: str
    events: set[str]
    secret: str
    at: int
    status: str = "enabled"

    def as_json(self) -> dict[str, Any]:
        return {
            "object": "webhook",
            "id": self.id,
            "created_at": stamp(self.at),
            "status": self.status,
            "endpoint": self.endpoint,
            "events": sorted(self.events),
            "signing_secret": self.secret,
        }

    def parcel(self, id_: str, mail: Mail, event: str, at: int) -> Parcel:
        body = json.dumps(_payload(mail, event, at)).encode()

        def headers(now: int) -> dict[str, str]:
            stamp = str(now // 1000)
            return {
                "content-type": "application/json",
                "svix-id": id_,
                "svix-timestamp": stamp,
                "svix-signature": standard_signature(self.secret, id_, stamp, body),
            }

        return Parcel(self.endpoint, body, headers, WAITS, at, id_)


def _payload(mail: Mail, event: str, at: int) -> dict[str, Any]:
    data: dict[str, Any] = {
        "email_id": mail.id,
        "created_at": as_iso(mail.at),
        "from": mail.body["from"],
        "to": mail.to,
        "subject": mail.body["subject"],
        "tags": {tag.get("name"): tag.get("value") for tag in mail.body.get("tags") or []},
    }
    if event == "bounced":
        message = "The recipient's email provider sent a hard bounce message."
        data["bounce"] = {"type": "Permanent", "subType": "General", "message": message}
    return {"type": f"email.{event}", "created_at": as_iso(at), "data": data}


def stamp(ms: int) -> str:
    """A time as Resend's objects have it; its events have ISO ones."""
    return as_datetime(ms).strftime("%Y-%m-%d %H:%M:%S.%f+00")


def listed(value: Any) -> list[str]:
    if value is None:
        return []
    return [value] if isinstance(value, str) else list(value)
