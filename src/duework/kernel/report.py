"""Errors as text for people: bounded, with a short trace, without values and without secrets.

Nothing here trusts an exception: its message may be endless, its `__str__` may raise.
"""

from __future__ import annotations

import re
import traceback

_MESSAGE = 1500
_MARGIN = 1000
_FRAMES = 6
_OURS = re.compile("/duework/(kernel|shapes)/")

# What looks like a password or a token: in URLs, in headers, in `name=value`.
_SECRETS = (
    (re.compile(r"(\w+://[^\s:/@]*:)[^\s/]+(@)"), r"\1***\2"),
    (re.compile(r"(?i)\b(bearer|basic|token)\s+[\w.~+/=-]{8,}"), r"\1 ***"),
    (
        re.compile(
            r"(?i)\b([\w-]*(?:password|passwd|secret|token|api[_-]?key|authorization)[\w-]*)"
            r"""(['"]?\s*[=:]\s*)(?:'[^']*'?|"[^"]*"?|[^\s'",;&)]+)"""
        ),
        r"\1\2***",
    ),
)


def describe(error: BaseException) -> str:
    """'ValueError: message', then where it came from, innermost call last."""
    name, message = type.__getattribute__(type(error), "__name__"), said(error)
    head = f"{name}: {message}" if message else name
    return "\n".join([head, *map(redact, _trace(error))])


def said(error: BaseException) -> str:
    """Its message, bounded, without secrets and storable, whatever its own code does when asked."""
    try:
        # The plain text, also where `__str__` gives a text with a will of its own.
        message = str.__str__(str(error))
    except BaseException:  # noqa: BLE001 - a message that cannot be had is no message
        message = "(its message could not be read)"
    return redact(message)


def redact(text: str) -> str:
    """Bounded, without secrets, and such that every database can store it."""
    # A secret that the bound cuts in two might not look like one: so it is looked for first, in
    # a little more than is shown.
    shown = text[: _MESSAGE + _MARGIN]
    for pattern, instead in _SECRETS:
        shown = pattern.sub(instead, shown)
    if len(text) > _MESSAGE + _MARGIN or len(shown) > _MESSAGE:
        shown = shown[: _MESSAGE - 1] + "…"
    return storable(shown)


def storable(text: str) -> str:
    """Without what a database cannot keep in a text."""
    return text.encode("utf-8", "replace").decode().replace("\x00", "\\0")


def _trace(error: BaseException) -> list[str]:
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if not _OURS.search(frame.filename)]
    return [f"  at {frame.filename}:{frame.lineno} in {frame.name}" for frame in theirs[-_FRAMES:]]
