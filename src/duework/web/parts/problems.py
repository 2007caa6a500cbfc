"""What is wrong with a request, for programs: RFC 9457, `application/problem+json`."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from duework.errors import (
    BadSignature,
    Conflict,
    DatabaseError,
    Error,
    InvalidArguments,
    NotFound,
    PayloadTooLarge,
    UsageError,
)
from duework.face import PartRoute, Problem, Reply
from duework.web.parts.bodies import BadRequest

LOG = logging.getLogger("duework")
# The first that fits, most special first.
STATUSES: tuple[tuple[type[Error], int], ...] = (
    (NotFound, 404),
    (Conflict, 409),
    (InvalidArguments, 422),
    (PayloadTooLarge, 413),
    (UsageError, 400),
    (BadSignature, 401),
    (DatabaseError, 503),
)
# What they are called depends on the version of Python.
TITLES = {413: "Content Too Large", 422: "Unprocessable Content"}


def status_of(error: Error) -> int:
    return next((status for kind, status in STATUSES if isinstance(error, kind)), 500)


def problem_of(error: BaseException) -> Problem:
    """The words for what was raised; an error that nobody foresaw says nothing of its inside."""
    if isinstance(error, BadRequest):
        return _problem(error.status, error.detail, errors=error.errors)
    if isinstance(error, ClientDisconnect):
        return _problem(400, "The body ended too soon.")
    if isinstance(error, HTTPException):
        return _problem(error.status_code, error.detail)
    if isinstance(error, Error) and (status := status_of(error)) < 500:  # noqa: PLR2004 - theirs
        return _problem(status, str(error), error.code)
    if isinstance(error, DatabaseError):
        return _problem(503, "The database does not answer: try again.", error.code)
    return _problem(500, "Something went wrong here; it is in the log.", error=error)


def _problem(status: int, detail: str, code: str = "", **more: Any) -> Problem:
    title = TITLES.get(status) or HTTPStatus(status).phrase
    return Problem(status, title, detail, code or title.lower().replace(" ", "_"), **more)


def answer_problem(route: PartRoute | None, error: BaseException) -> Response:
    """The route's own words, if it has some, else the standard's."""
    problem = problem_of(error)
    if problem.error is not None:
        path = route.endpoint.path if route else "a page"
        LOG.error("the handler of %s failed", path, exc_info=error)
    worded = route.problem(problem) if route and route.problem else None
    if worded is not None:
        return answer_reply(worded)
    body = {
        "type": "about:blank",
        "title": problem.title,
        "status": problem.status,
        "detail": problem.detail,
        "code": problem.code,
        **({"errors": problem.errors} if problem.errors else {}),
    }
    kind = "application/problem+json"
    later = {"retry-after": "1"} if problem.status == HTTPStatus.SERVICE_UNAVAILABLE else None
    return Response(msgspec.json.encode(body), problem.status, later, kind)


def answer_reply(given: Any, base: str = "") -> Response:
    """What a handler gave back, as a response; a place of ours that it names is below `base`."""
    if isinstance(given, Response):
        return given
    reply = given if isinstance(given, Reply) else Reply(204 if given is None else 200, given)
    headers = {name.lower(): value for name, value in reply.headers.items()}
    if headers.get("location", "").startswith("/") and not headers["location"].startswith("//"):
        headers["location"] = base + headers["location"]
    if reply.body is None:
        return Response(status_code=reply.status, headers=headers)
    if isinstance(reply.body, (str, bytes)):
        kind = "text/plain" if isinstance(reply.body, str) else "application/octet-stream"
        return Response(reply.body, reply.status, headers, headers.pop("content-type", kind))
    kind = headers.pop("content-type", "application/json")
    return Response(msgspec.json.encode(reply.body), reply.status, headers, kind)
