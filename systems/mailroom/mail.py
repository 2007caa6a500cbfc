"""A mail as a caller posts it, and as it waits in the outbox.

Nothing with a line break gets into a header: the patterns below refuse it before a row is written.
"""

from __future__ import annotations

import hashlib
import re
from datetime import datetime
from typing import Annotated

import msgspec

Address = Annotated[
    str, msgspec.Meta(pattern=r"^[^\s@<>,;:\"()\[\]\\\x00-\x1f]+@[A-Za-z0-9.-]+$", max_length=254)
]
Line = Annotated[str, msgspec.Meta(pattern=r"^[^\x00-\x1f\x7f]+$", min_length=1, max_length=500)]
Text = Annotated[str, msgspec.Meta(max_length=1_000_000)]
MOST_RECIPIENTS = 50


class NewMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of `POST /messages`."""

    to: Address | Annotated[list[Address], msgspec.Meta(min_length=1, max_length=MOST_RECIPIENTS)]
    subject: Line
    text: Text = ""
    html: Text = ""
    sender: Address | None = msgspec.field(default=None, name="from")
    reply_to: Address | None = None
    # Not before this time, which names its zone: "2026-12-24T18:00:00+01:00".
    at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None

    def __post_init__(self) -> None:
        if not self.text and not self.html:
            raise ValueError("a message has a text, an html, or both")

    @property
    def recipients(self) -> tuple[str, ...]:
        given = [self.to] if isinstance(self.to, str) else self.to
        return tuple(dict.fromkeys(given))

    @property
    def digest(self) -> str:
        """By which two requests with the same key are compared."""
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()


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
