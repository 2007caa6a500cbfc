"""Asking an HTTP API: one server, one token; answers as types, refusals as the errors of Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from duework.durations import Duration, milliseconds
from duework.errors import (
    Conflict,
    Error,
    InvalidArguments,
    NotFound,
    PayloadTooLarge,
    TaskNotFound,
    Unavailable,
    UsageError,
)
from duework.outside import http
from duework.web.api.types import ProblemDocument

T = TypeVar("T")

TIMEOUT = "10s"


class ApiError(Error):
    """The HTTP API refused it; `problem` says what it said, if it said anything."""

    code = "api"

    def __init__(self, message: str = "", problem: ProblemDocument | None = None) -> None:
        super().__init__(message)
        self.problem = problem


class KeyTaken(Conflict):
    """The key was used for another request."""

    code = "idempotency_key_reused"


_ERRORS: dict[str, type[Error]] = {
    kind.code: kind
    for kind in (
        *(NotFound, Conflict, KeyTaken, InvalidArguments, PayloadTooLarge, TaskNotFound),
        *(UsageError, Unavailable),
    )
}


class Asking:
    """What every verb of a client goes by; safe to share between threads."""

    def __init__(
        self, url: str, token: str, *, timeout: Duration = TIMEOUT, **options: Any
    ) -> None:
        headers = {"authorization": f"Bearer {token}"}
        base = f"{url.rstrip('/')}/api/v1"
        self._http = http.Client(base, timeout=timeout, headers=headers, **options)

    def __repr__(self) -> str:
        return f"<ApiClient {self._http!r}>"

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def ask_all(self, path: str, kind: Any, wanted: Mapping[str, Any]) -> Iterator[Any]:
        cursor: str | None = ""
        while cursor is not None:
            page = self.ask("GET", path, kind, query={**wanted, "cursor": cursor})
            yield from page.items
            cursor = page.next

    def ask(
        self,
        method: str,
        path: str,
        kind: type[T],
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> T:
        headers = {} if key is None else {"idempotency-key": key}
        if body is not None:
            headers["content-type"] = "application/json"
        content = None if body is None else msgspec.json.encode(_plain(body))
        params = {name: value for name, value in (query or {}).items() if value not in ("", None)}
        try:
            answer = self._http.call(
                method, path, params=params or None, headers=headers, content=content
            )
        except http.TooMany as error:
            raise Unavailable("the server asks to be left alone for a while") from error
        if answer.ok:
            found: T = answer.json(kind)
            return found
        raise _refused(answer)


def _plain(body: Mapping[str, Any]) -> dict[str, Any]:
    """Without what was not said; lengths of time as seconds."""
    lengths = ("delay", "expires", "once", "ttl")
    return {
        name: milliseconds(value) / 1000 if name in lengths and value != "forever" else value
        for name, value in body.items()
        if value is not None
    }


def _refused(answer: http.Response) -> Error:
    """The error that the same call raises in Python; where there is none of that kind, `ApiError`."""
    try:
        problem = msgspec.json.decode(answer.content, type=ProblemDocument)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return ApiError(f"the server answered {answer.status}")
    cause = ApiError(f"{problem.status} {problem.code}: {problem.detail}", problem)
    kind = _ERRORS.get(problem.code)
    if kind is None:
        return cause
    made = kind(problem.detail)
    made.__cause__ = cause
    return made


def id_text(identifier: str | int) -> str:
    text = str(identifier)
    if not (text.isascii() and text.isdigit()):
        raise NotFound(f"there is nothing with the id {text!r:.50}")
    return text
