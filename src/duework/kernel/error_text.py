"""Errors as text for people: bounded, with a short trace, without values and without secrets.

The text of an exception is its name and message, its class where the name alone does not say it, where it
came from, and the same of what caused it. `failure.py` reads that form back.
Nothing here trusts an exception: its message may be endless, its `__str__` may raise.
"""

from __future__ import annotations

import re
import traceback

ERROR_LIMIT = 4000
_MESSAGE = 1500
_MARGIN = 1000
_LOOKED_AT = 10_000
_FRAMES = 6
# Of what caused it: how many, and how much of each message.
_CAUSES = 3
_CAUSE_MESSAGE = 500
CLASS, AT, CAUSED = "  class ", "  at ", "caused by "
OURS = re.compile("/duework/(kernel|worker|shapes)/")

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


# What was opened here, newest last: of a secret we know more than how it looks.
_HIDDEN: dict[str, None] = {}
_HIDDEN_LIMIT = 1000
_SHORTEST = 6


def hide(value: str) -> None:
    """Leave this value out of all texts from now on, unless it is so short that any text may hold it."""
    if len(value) >= _SHORTEST:
        _HIDDEN.pop(value, None)
        _HIDDEN[value] = None
        while len(_HIDDEN) > _HIDDEN_LIMIT:
            _HIDDEN.pop(next(iter(_HIDDEN)), None)


def describe(error: BaseException) -> str:
    """'ValueError: message', then where it came from, innermost call last, and what caused it."""
    return "\n".join([*_described(error, said(error)), *_causes(_cause(error))])


def decided(outcome: BaseException) -> str:
    """What an outcome says, and the exception that it was raised from, if any."""
    return "\n".join([said(outcome), *_causes(outcome.__cause__)])


def class_of(error: BaseException) -> str:
    """Its class with the module, as `builtins.KeyError`."""
    kind = type(error)
    module = type.__getattribute__(kind, "__module__")
    return storable(f"{module}.{type.__getattribute__(kind, '__qualname__')}")


def _described(error: BaseException, message: str) -> list[str]:
    name = type.__getattribute__(type(error), "__name__")
    trace, named = list(map(redact, _trace(error))), class_of(error)
    # Of a built-in one that has a trace, the name says it all.
    known = named == f"builtins.{name}" and bool(trace)
    head = f"{name}: {message}" if message else name
    return [head, *([] if known else [f"{CLASS}{named}"]), *trace]


def _cause(error: BaseException) -> BaseException | None:
    if error.__cause__ is not None or error.__suppress_context__:
        return error.__cause__
    return error.__context__


def _causes(error: BaseException | None) -> list[str]:
    """Bounded, since causes may be many and may go round in a circle."""
    lines: list[str] = []
    for _ in range(_CAUSES):
        if error is None:
            break
        message = said(error)
        if len(message) > _CAUSE_MESSAGE:
            message = message[: _CAUSE_MESSAGE - 1] + "…"
        head, *rest = _described(error, message)
        lines += [f"{CAUSED}{head}", *rest]
        error = _cause(error)
    return lines


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
    shown = text[:_LOOKED_AT]
    for value in list(_HIDDEN):
        shown = shown.replace(value, "***")
    shown = shown[: _MESSAGE + _MARGIN]
    for pattern, instead in _SECRETS:
        shown = pattern.sub(instead, shown)
    if len(text) > _MESSAGE + _MARGIN or len(shown) > _MESSAGE:
        shown = shown[: _MESSAGE - 1] + "…"
    return storable(shown)


def short(error: str | None) -> str | None:
    """Error texts are for people: this much of them is enough."""
    if error is None:
        return None
    return storable(error if len(error) <= ERROR_LIMIT else error[: ERROR_LIMIT - 1] + "…")


def storable(text: str) -> str:
    """Without what a database cannot keep in a text."""
    return text.encode("utf-8", "replace").decode().replace("\x00", "\\0")


def _trace(error: BaseException) -> list[str]:
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if not OURS.search(frame.filename)]
    return [f"{AT}{frame.filename}:{frame.lineno} in {frame.name}" for frame in theirs[-_FRAMES:]]
