"""The HTTP API as routes: who asks, what was sent, what is answered. Nothing that is raised leaves it.

A program sends its token as `Authorization: Bearer …`. A browser's session is enough to look, and not to act:
what acts by JSON has no field that only a page of ours could have made.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from duework.errors import NotFound, TaskNotFound
from duework.web.api import jobs, shapes, state
from duework.web.api.openapi import document
from duework.web.api.operation import BASE, Answer, Ask, Operation
from duework.web.api.types import Fault, ProblemDocument
from duework.web.parts.bodies import BadRequest, bounded, from_fields, misfit
from duework.web.parts.problems import problem_of
from duework.web.parts.routes import admit_token
from duework.web.visits import DoorRoute

if TYPE_CHECKING:
    from duework.app import App

LOG = logging.getLogger("duework")
BODY = 4 * 1024 * 1024
KEY = "idempotency-key"
LONGEST_KEY = 500


class _Any(Convertor[str]):
    """A parameter with slashes in it, and also with line ends, which `path` does not match."""

    regex = "(?s:.+)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


def operations() -> list[Operation]:
    """The whole table; an address that is written out goes before one with parameters."""
    found = [*jobs.OPERATIONS, *state.OPERATIONS, *shapes.operations()]
    return sorted(found, key=lambda each: (each.path.count(":any"), each.path.count("{")))


def api_routes(app: App) -> list[DoorRoute]:
    """A route for each operation, the document, and an answer for whatever else is asked."""
    register_url_convertor("any", _Any())
    table = operations()
    made = [_route(app, each) for each in table]
    described = DoorRoute(f"{BASE}/openapi.json", _described(app, table), methods=["GET"])
    described.needs, described.for_programs = "read", True
    other = _Elsewhere(app, [*made, described])
    rest = [
        DoorRoute(path, other, name=f"other {path}")
        for path in (BASE, f"{BASE}/", f"{BASE}/{{rest:any}}")
    ]
    return [described, *made, *rest]


def _route(app: App, operation: Operation) -> DoorRoute:
    path = BASE + operation.path
    made = DoorRoute(
        path,
        _enter(app, operation),
        methods=[operation.method],
        name=f"{operation.method} {path}",
    )
    made.needs, made.for_programs = operation.scope, True
    return made


def _enter(app: App, operation: Operation) -> Callable[[Request], Awaitable[Response]]:
    async def enter(request: Request) -> Response:
        try:
            ask = await _ask(app, operation, bounded(request, BODY))
            given = await run_in_threadpool(operation.handle, ask)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is answered
            return _problem(error, request)
        answer = given if isinstance(given, Answer) else Answer(given)
        base = str(request.scope.get("root_path", "")).rstrip("/")
        headers = {} if answer.location is None else {"location": base + answer.location}
        body = msgspec.json.encode(answer.body)
        return Response(body, answer.status, headers, "application/json")

    return enter


async def _ask(app: App, operation: Operation, request: Request) -> Ask:
    who = await run_in_threadpool(admit_token, app, request, operation.scope)
    path = {name: str(value) for name, value in request.path_params.items()}
    if any("\0" in value for value in path.values()):
        raise NotFound("there is no such address")
    query = _query(operation, request)
    raw = await request.body()
    body = None if operation.body is None else _body(operation.body, request, raw)
    digest = int.from_bytes(hashlib.sha256(_same(raw)).digest()[:8]) >> 1
    return Ask(app, who, path, query, body, _key(operation, request), digest)


def _same(raw: bytes) -> bytes:
    """A body without what says nothing: blanks, and the order of names."""
    try:
        return msgspec.json.encode(msgspec.json.decode(raw or b"{}"), order="deterministic")
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return raw


def _query(operation: Operation, request: Request) -> Any:
    given = request.query_params.multi_items()
    if any("\0" in value for _, value in given):
        raise BadRequest(422, "A query has no null characters.")
    return None if operation.query is None else from_fields(given, operation.query)


def _body(kind: type[msgspec.Struct], request: Request, raw: bytes) -> Any:
    media = request.headers.get("content-type", "application/json").partition(";")[0]
    if media.strip().lower() != "application/json":
        raise BadRequest(415, "Send application/json.")
    try:
        return msgspec.json.decode(raw or b"{}", type=kind)
    except msgspec.ValidationError as error:
        raise misfit(error) from None
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BadRequest(400, f"The body is no JSON: {error}") from None


def _key(operation: Operation, request: Request) -> str | None:
    if not operation.keyed:
        return None
    given = request.headers.getlist(KEY)
    if not given:
        return None
    if len(given) > 1 or not 0 < len(given[0]) <= LONGEST_KEY or not given[0].isprintable():
        raise BadRequest(
            400, f"An Idempotency-Key is one text of 1 to {LONGEST_KEY} printable characters."
        )
    return given[0]


def is_api(scope: Scope) -> bool:
    """Whether a request is one for the API, before anybody has looked for its route."""
    return f"{BASE}/" in f"{scope['path']}/"


def answer_refusal(error: HTTPException, request: Request) -> Response:
    """A refusal by whoever stands before the API, with its headers."""
    answer = _problem(error, request)
    answer.headers.update(error.headers or {})
    return answer


def _problem(error: Exception, request: Request) -> Response:
    """What is wrong, as RFC 9457 says it; an error that nobody foresaw says nothing of its inside."""
    found = problem_of(error)
    status = HTTPStatus.NOT_FOUND if isinstance(error, TaskNotFound) else HTTPStatus(found.status)
    if found.error is not None:
        LOG.error("%s %s failed", request.method, request.url.path, exc_info=error)
    title = found.title if status == found.status else status.phrase
    body = ProblemDocument(
        type=f"urn:duework:problem:{found.code}",
        title=title,
        status=int(status),
        detail=found.detail,
        code=found.code,
        errors=[Fault(**each) for each in found.errors],
    )
    headers = {}
    if status == HTTPStatus.UNAUTHORIZED:
        headers["www-authenticate"] = "Bearer"
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers["retry-after"] = "1"
    return Response(msgspec.json.encode(body), int(status), headers, "application/problem+json")


def _described(app: App, table: list[Operation]) -> Callable[[Request], Awaitable[Response]]:
    """The OpenAPI document, for whoever may look."""

    async def describe(request: Request) -> Response:
        try:
            await run_in_threadpool(admit_token, app, request, "read")
        except Exception as error:  # noqa: BLE001 - whatever it is, it is answered
            return _problem(error, request)
        base = str(request.scope.get("root_path", "")).rstrip("/")
        made = document(table, version("duework"), base)
        return Response(msgspec.json.encode(made), media_type="application/json")

    return describe


class _Elsewhere:
    """What is asked in another way, or is not there: for those who may look."""

    def __init__(self, app: App, routes: list[DoorRoute]) -> None:
        self._app = app
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            await run_in_threadpool(admit_token, self._app, request, "read")
            allowed = self._allowed(scope)
            error: Exception = NotFound("there is no such address")
            if allowed:
                error = BadRequest(405, f"This address answers to {', '.join(allowed)}.")
        except Exception as raised:  # noqa: BLE001 - whatever it is, it is answered
            error, allowed = raised, []
        answer = _problem(error, request)
        if allowed:
            answer.headers["allow"] = ", ".join(allowed)
        await answer(scope, receive, send)

    def _allowed(self, scope: Scope) -> list[str]:
        found = {
            method
            for route in self._routes
            if route.matches(scope)[0].value
            for method in route.methods or ()
        }
        return sorted(found)
