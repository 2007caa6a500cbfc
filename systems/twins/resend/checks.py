"""What Resend checks about a mail before it takes it."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from systems.twins.kit.shapes import misfit
from systems.twins.resend.events import listed

ADDRESS = re.compile(r"(?:[^<>]*<)?[^@<>\s]+@[^@<>\s]+\.[^@<>\s]+>?")
MOST_RECIPIENTS = 50
MOST_BYTES = 40 * 1024 * 1024

TEXTS = (str, [str])
SHAPE = {
    "from": str,
    "to": TEXTS,
    "cc": TEXTS,
    "bcc": TEXTS,
    "reply_to": TEXTS,
    "subject": str,
    "html": str,
    "text": str,
    "tags": [{"name": str, "value": str}],
    "attachments": [{"filename": str, "content": str, "path": str}],
    "scheduled_at": str,
}


def wrong(sent: dict[str, Any]) -> tuple[str, str, int] | None:
    """The name, the words and the status of what is wrong with a mail."""
    if path := misfit(sent, SHAPE):
        return "validation_error", f"Invalid `{path}` field.", 422
    for name in ("from", "to", "subject"):
        if not sent.get(name):
            return "missing_required_field", f"Missing `{name}` field.", 422
    if not any(sent.get(name) for name in ("html", "text", "template")):
        return "missing_required_field", "Missing `html` or `text` field.", 422
    for name in ("from", "to", "cc", "bcc", "reply_to"):
        given = listed(sent.get(name))
        if not all(isinstance(each, str) and ADDRESS.fullmatch(each.strip()) for each in given):
            form = "`email@example.com` or `Name <email@example.com>` format."
            text = f"Invalid `{name}` field. The email address needs to follow the {form}"
            return "validation_error", text, 422
    if len(listed(sent["to"])) > MOST_RECIPIENTS:
        return "validation_error", "The `to` field has more than 50 addresses.", 422
    attachments = sent.get("attachments") or []
    if any("content" not in each and "path" not in each for each in attachments):
        return "invalid_attachment", "Attachment must have either a `content` or `path`.", 422
    if sum(len(str(each.get("content", ""))) for each in attachments) > MOST_BYTES:
        return "invalid_attachment", "The attachments are larger than 40 MB.", 422
    return None


def scheduled(sent: dict[str, Any], now: int) -> int | None:
    """When a mail is to go out; None if it cannot be read."""
    text = sent.get("scheduled_at")
    if text is None:
        return now
    try:
        found = datetime.fromisoformat(str(text))
        return int(found.timestamp() * 1000) if found.tzinfo else None
    except (ValueError, OverflowError):
        return None
