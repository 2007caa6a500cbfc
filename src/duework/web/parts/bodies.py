"""What is sent to a part, as what its handler takes: path, query, form or JSON to typed values.

A path that does not fit its types is an address that is not there (404). A body is refused when it is too
large (413), of another type (415), no JSON (400), or not what the Struct says (422, with the field's path).
A NUL, which PostgreSQL has no place for, is in no text (400).
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request
from starlette.types import Message, Receive

from duework.errors import NotFound, UsageError
from duework.face import Endpoint, Upload

FIELDS = 1000
FORM = "application/x-www-form-urlencoded"
# What our own forms carry besides the fields of the page.
OWN_FIELDS = frozenset({"form", "back", "next", "sure", "why"})
_AT = re.compile(r" - at `(?:key in )?\$\.?(.*)`$")
_NAMED = re.compile(r"(?:missing required|contains unknown) field `([^`]*)`")
_INT64 = 2**63
# A NUL in JSON, and not an escaped backslash in front of those characters.
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
TOO_LARGE = "Expected `int` of 64 bits"
NO_NUL = "A text has no NUL character."

Fields = Sequence[tuple[str, str]]


class BadRequest(Exception):
    """A request that is refused before its handler is asked; never leaves `web/`."""

    def __init__(self, status: int, detail: str, errors: tuple[dict[str, str], ...] = ()) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.errors = errors


def path_values(endpoint: Endpoint, given: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of the path by the types of the function."""
    found = {}
    for name, kind in endpoint.parameters.items():
        text = str(given[name])
        try:
            value = msgspec.convert(text, kind, strict=False)
        except msgspec.ValidationError:
            raise NotFound("There is no such page.") from None
        if "\0" in text or (isinstance(value, int) and not -_INT64 <= value < _INT64):
            raise NotFound("There is no such page.")
        found[name] = value
    return found


def bounded(request: Request, most: int) -> Request:
    """The same request, whose body ends with an error after `most` bytes, however it is read."""
    receive: Receive = request.receive
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > most:
            raise BadRequest(413, f"A body has at most {most:,} bytes.")
        return message

    said = request.headers.get("content-length", "0")
    if said.isascii() and said.isdigit() and int(said[:20]) > most:
        raise BadRequest(413, f"A body has at most {most:,} bytes.")
    return Request(request.scope, counted)


async def read_body(request: Request, kind: type[msgspec.Struct]) -> Any:
    """A Struct from JSON or from a form, by the type that the request names."""
    named = request.headers.get("content-type", "application/json")
    media = named.partition(";")[0].strip().lower()
    if media != FORM and not re.fullmatch(r"application/([\w.-]+\+)?json", media):
        raise BadRequest(415, f"Send application/json or {FORM}.")
    raw = await request.body()
    if media == FORM:
        return from_fields(form_fields(raw), kind)
    if _NUL.search(raw):
        raise BadRequest(400, NO_NUL)
    try:
        return _bounded_numbers(msgspec.json.decode(raw or b"{}", type=kind))
    except msgspec.ValidationError as error:
        raise misfit(error) from None
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BadRequest(400, f"The body is no JSON: {error}") from None


def form_fields(raw: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(raw.decode(), keep_blank_values=True, max_num_fields=FIELDS)
    except ValueError as error:
        raise BadRequest(400, "The form cannot be read.") from error


def from_fields(given: Iterable[tuple[str, str]], kind: type[msgspec.Struct]) -> Any:
    """A Struct from the fields of a form or a query: texts, each read as its field's type."""
    sent: dict[str, list[str]] = {}
    for name, value in given:
        if "\0" in value:
            raise BadRequest(400, NO_NUL)
        sent.setdefault(name, []).append(value)
    values: dict[str, Any] = dict(sent)
    hints = typing.get_type_hints(kind)
    for field in msgspec.structs.fields(kind):
        name, hint = field.encode_name, hints[field.name]
        if name in sent:
            values[name] = _one(sent[name], hint)
        elif hint is bool and field.required:
            # A box that is not ticked is not sent.
            values[name] = False
    try:
        return _bounded_numbers(msgspec.convert(values, kind, strict=False))
    except msgspec.ValidationError as error:
        raise misfit(error) from None


def _bounded_numbers(found: Any) -> Any:
    """The same; a misfit if a number of its own is larger than a database takes."""
    for field in msgspec.structs.fields(found):
        value = getattr(found, field.name)
        if isinstance(value, int) and not -_INT64 <= value < _INT64:
            raise msgspec.ValidationError(f"{TOO_LARGE} - at `$.{field.encode_name}`")
    return found


def _one(texts: list[str], hint: Any) -> Any:
    """The value of a field that was sent: all of them for a list, else the last."""
    choices = _choices(hint)
    if any(typing.get_origin(each) in {list, tuple, set, frozenset} for each in choices):
        return texts
    text = texts[-1]
    if bool in choices and text in {"on", "yes"}:
        return True
    if text == "" and type(None) in choices:
        return None
    return text


def _choices(hint: Any) -> tuple[Any, ...]:
    if typing.get_origin(hint) in {typing.Union, types.UnionType}:
        return typing.get_args(hint)
    return (hint,)


def misfit(error: msgspec.ValidationError) -> BadRequest:
    """What msgspec says, with the path of the field; the value itself is never told."""
    words = str(error)
    at = _AT.search(words)
    path, message = (at[1], words[: at.start()]) if at else ("", words)
    if named := _NAMED.search(message):
        path = f"{path}.{named[1]}" if path else named[1]
    detail = f"{path}: {message}" if path else message
    return BadRequest(422, detail, ({"path": path, "message": message},))


def file_value(given: Iterable[tuple[str, Upload]], name: str, kind: Any) -> Any:
    """The files of one field as the handler takes them: one, perhaps one, or a list."""
    found = list(given)
    if stray := [field for field, _ in found if field != name]:
        raise BadRequest(422, f"{stray[0][:80]!r} takes no file: send it as {name!r}.")
    if kind == list[Upload]:
        return [upload for _, upload in found]
    if len(found) > 1:
        raise BadRequest(422, "Send one file at a time.")
    if not found and kind is Upload:
        raise BadRequest(422, "Choose a file first.")
    return found[0][1] if found else None


def query_value(endpoint: Endpoint, query: Fields) -> dict[str, Any]:
    """The Struct of a handler that is asked by GET, from the query."""
    if endpoint.body is None:
        return {}
    name, kind = endpoint.body
    try:
        return {name: from_fields(query, kind)}
    except BadRequest as error:
        raise UsageError(error.detail) from None
