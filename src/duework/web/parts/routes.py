"""The routes of parts: who may ask, what was sent, what is answered. For programs, in JSON."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from duework.config import Secret
from duework.errors import NotFound
from duework.face import PartRoute, Person, SharedSecret
from duework.part import Part
from duework.web.limits.rates import ADMITTED
from duework.web.parts.bodies import BadRequest, bounded, from_fields, path_values, read_body
from duework.web.parts.calls import call
from duework.web.parts.problems import answer_problem, answer_reply
from duework.web.tokens import Who, same
from duework.web.visits import SAFE, Visit, check_site, recognise, recognise_person

if TYPE_CHECKING:
    from duework.app import App

Enter = Callable[[Request], Awaitable[Response]]


def scope_of(method: str) -> str:
    return "read" if method in SAFE else "operate"


def enter_route(app: App, part: Part, route: PartRoute) -> Enter:
    """What answers requests to a route: nothing that is raised leaves it."""

    async def enter(request: Request) -> Response:
        try:
            given = await _answer(app, part, route, bounded(request, route.max_body))
            return answer_reply(given, str(request.scope.get("root_path", "")).rstrip("/"))
        except Exception as error:  # noqa: BLE001 - the handler's code may raise anything
            return answer_problem(route, error)

    return enter


async def _answer(app: App, part: Part, route: PartRoute, request: Request) -> Any:
    endpoint = route.endpoint
    person = await _admit(app, part, route, request)
    if route.auth != "public":
        request.scope[ADMITTED] = True
    values: dict[str, Any] = path_values(endpoint, request.path_params)
    if endpoint.body is not None:
        name, kind = endpoint.body
        in_query = request.method in SAFE or request.method == "DELETE"
        values[name] = (
            from_fields(request.query_params.multi_items(), kind)
            if in_query
            else await read_body(request, kind)
        )
    if endpoint.raw is not None:
        values[endpoint.raw] = await request.body()
    if endpoint.request is not None:
        values[endpoint.request] = request
    if endpoint.person is not None:
        values[endpoint.person] = person
    return await call(app, endpoint, values)


async def _admit(app: App, part: Part, route: PartRoute, request: Request) -> Person | None:
    """Who asks; raises for those who may not."""
    auth = route.auth
    if auth == "public":
        return None
    if isinstance(auth, SharedSecret):
        _check_secret(part, auth, request)
        return None
    if auth == "token":
        await run_in_threadpool(admit_token, app, request, scope_of(request.method))
        return None
    if auth == "person":
        return await run_in_threadpool(_check_person, app, part, request)
    if callable(auth):
        ask: Callable[[Request], Any] = auth
        is_async = inspect.iscoroutinefunction(ask)
        found = await ask(request) if is_async else await run_in_threadpool(ask, request)
        if found is not None:
            return _of_part(found, part)
    raise BadRequest(401, "Sign in first.")


def _of_part(person: Any, part: Part) -> Person:
    """A person of one part is nobody in another."""
    if not isinstance(person, Person) or person.part != part.name:
        raise NotFound(f"that is no person of {part.name}")
    return person


def _check_secret(part: Part, auth: SharedSecret, request: Request) -> None:
    value = getattr(part.settings, auth.setting)
    wanted = value.reveal() if isinstance(value, Secret) else value
    sent = request.headers.getlist(auth.header)
    # Without a secret nobody has it.
    if not (wanted and len(sent) == 1 and same(sent[0], wanted)):
        raise BadRequest(401, f"{auth.header} does not have the secret.")


def _check_person(app: App, part: Part, request: Request) -> Person:
    """A person's session; what acts must come from a page of ours."""
    visit = Visit(app, request, None, part=part)
    recognise_person(visit)
    if visit.person is None:
        raise BadRequest(401, "Sign in first.")
    if request.method not in SAFE:
        check_site(visit)
    return visit.person


def admit_token(app: App, request: Request, scope: str) -> Who:
    """A program's token; a browser's session is enough to look, but not to act."""
    if request.method not in SAFE and "authorization" not in request.headers:
        raise BadRequest(401, "Send a token: Authorization: Bearer …")
    visit = Visit(app, request, None)
    recognise(visit)
    if visit.who is None:
        words = f"That token is {visit.refused}." if visit.refused else "Send a token."
        raise BadRequest(401, words)
    if not visit.who.may(scope):
        words = f"This needs the scope {scope}; {visit.who.name} has {visit.who.scope}."
        raise BadRequest(403, words)
    return visit.who
