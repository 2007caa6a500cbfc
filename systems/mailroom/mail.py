"""A mail as a caller posts it, and as it waits in the outbox.

Nothing with a line break gets into a header: the patterns below refuse it before a row is written.
"""

from __future__ import annotations

import hashlib
import re
from datetime import datetime
from typing import Annotated, Any

import msgspec

Address = Annotated[
    str, msgspec.Meta(pattern=r"^[^\s@<>,;:\"()\[\]\\\x00-\x1f]+@[A-Za-z0-9.-]+$", max_length=254)
]
Line = Annotated[
    str,
    msgspec.Meta(pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]+$", min_length=1, max_length=500),
]
Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9_-]*$", max_length=60)]
FileName = Annotated[str, msgspec.Meta(pattern=r"^[^\x00-\x1f\x7f/\\\"]+$", max_length=200)]
MediaType = Annotated[str, msgspec.Meta(pattern=r"^[\w.+-]+/[\w.+-]+$", max_length=100)]
Text = Annotated[str, msgspec.Meta(max_length=1_000_000)]
MOST_RECIPIENTS = 50
MOST_ATTACHMENTS = 20
LATER = {"template", "values", "attachments"}
Recipients = (
    Address | Annotated[list[Address], msgspec.Meta(min_length=1, max_length=MOST_RECIPIENTS)]
)


class NewAttachment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file: one that was stored before, or the bytes themselves in base64."""

    name: FileName
    blob: Annotated[str, msgspec.Meta(max_length=80)] | None = None
    content: str | None = None
    type: MediaType = "application/octet-stream"

    def __post_init__(self) -> None:
        if (self.blob is None) == (self.content is None):
            raise ValueError("an attachment has a blob or a content")


class NewMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of `POST /messages`."""

    to: Recipients
    subject: Line | None = None
    text: Text = ""
    html: Text = ""
    sender: Address | None = msgspec.field(default=None, name="from")
    reply_to: Address | None = None
    # Not before this time, which names its zone: "2026-12-24T18:00:00+01:00".
    at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    # Instead of subject, text and html: a template of the tenant, and what it is filled with.
    template: Name | None = None
    values: dict[str, Any] | None = None
    attachments: (
        Annotated[list[NewAttachment], msgspec.Meta(max_length=MOST_ATTACHMENTS)] | None
    ) = None

    def __post_init__(self) -> None:
        if self.template is not None:
            if self.subject or self.text or self.html:
                raise ValueError("a message has a template, or a subject and a text")
        elif self.subject is None:
            raise ValueError("a message has a subject")
        elif not self.text and not self.html:
            raise ValueError("a message has a text, an html, or both")

    @property
    def recipients(self) -> tuple[str, ...]:
        given = [self.to] if isinstance(self.to, str) else self.to
        return tuple(dict.fromkeys(given))

    @property
    def digest(self) -> str:
        """By which two requests with the same key are compared."""
        said = msgspec.to_builtins(self)
        # What a message does not use of what came later is no part of it: the same body stays the same.
        said = {name: each for name, each in said.items() if each is not None or name not in LATER}
        return hashlib.sha256(msgspec.json.encode(said, order="sorted")).hexdigest()


class Attachment(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a mail, by where it is stored."""

    blob: str
    name: str
    type: str
    size: int


class Mail(msgspec.Struct, frozen=True, kw_only=True):
    """What the outbox stores. It never changes: a provider compares the body under a key."""

    tenant: str
    sender: str
    to: tuple[str, ...]
    subject: str
    text: str = ""
    html: str = ""
    reply_to: str | None = None
    # Why it is never submitted; decided when it was posted.
    blocked: str | None = None
    attachments: tuple[Attachment, ...] = ()


_PATTERN = re.compile(
    r"Expected `str` matching regex '.*?(@?)\[A-Za-z0-9.-\]\+\$'|Expected `str` matching regex '.*'"
)


def in_words(text: str) -> str:
    """What a check says, with words in the place of a pattern."""
    return _PATTERN.sub(
        lambda found: "not an address" if found[1] else "one line, without control characters", text
    )


def masked(address: str) -> str:
    """An address for a page that many look at: `a…@example.org`."""
    name, at, host = address.partition("@")
    return f"{name[:1]}…{at}{host}"
