"""Tags and headers as users give them: checked, and as they are stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from duework.codec import encode
from duework.errors import UsageError

HEADERS_LIMIT = 4000


def given_tags(tags: Sequence[str] | None) -> tuple[str, ...]:
    """Each once; a clear error for a text that should be a list."""
    if isinstance(tags, str):
        raise UsageError(f"tags= is a list of texts, such as ({tags!r},)")
    return tuple(dict.fromkeys(tags or ()))


def headers_text(headers: Mapping[str, str] | None) -> str | None:
    """Headers as they are stored; a clear error for what is none."""
    if not headers:
        return None
    given = dict(headers)
    if not all(isinstance(text, str) for pair in given.items() for text in pair):
        raise UsageError("headers= is a dict of texts")
    if len(text := encode(given)) > HEADERS_LIMIT:
        raise UsageError(f"headers= are over {HEADERS_LIMIT} characters: put them into an argument")
    return text
