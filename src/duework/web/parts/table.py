"""All addresses of an App's parts as routes, checked against each other and against our own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from duework.errors import Error, UsageError
from duework.face import PartAction, PartPage, PartRoute
from duework.part import Part
from duework.web.parts.actions import answer_action
from duework.web.parts.bodies import BadRequest
from duework.web.parts.oauth import oauth_routes
from duework.web.parts.pages import answer_page
from duework.web.parts.problems import LOG, answer_problem
from duework.web.parts.routes import enter_route, scope_of
from duework.web.parts.sign_in import sign_in_routes
from duework.web.visits import OPEN, PERSON, DoorRoute, Handler, Visit, problem

if TYPE_CHECKING:
    from duework.app import App

MakeRoute = Callable[..., DoorRoute]
# Where the HTTP API stands; what else is below /api may be a part's.
OURS = "/api/v1"


def part_routes(app: App, door: MakeRoute, own: Iterable[str]) -> list[DoorRoute]:
    """Routes for the faces of all parts; `own` are the addresses of the shell itself."""
    taken = {re.split(r"[/{]", path[1:])[0] for path in own} - {""}
    made: dict[tuple[str, str], DoorRoute] = {}
    # An App is a part, too: it may have routes of its own.
    for part in (app, *app.parts):
        _check_names(part, taken)
        for route in _routes(app, part, door):
            for method in sorted((route.methods or set()) - {"HEAD"}):
                key = (method, _shape(route.path))
                if key in made:
                    raise UsageError(f"two parts answer to {method} {route.path}")
                made[key] = route
    # What is written out goes before what has parameters.
    found = sorted(made.values(), key=lambda route: _specific(route.path))
    by_path = {_shape(route.path): route for route in reversed(found)}
    return [*found, *(_wrong_method(route, found) for route in by_path.values())]


def _check_names(part: Part, taken: set[str]) -> None:
    face = part.contents.face
    if (face.pages or face.actions) and part.name in taken:
        raise UsageError(
            f"the pages of part {part.name} would stand at /{part.name}, which is ours"
        )
    for each in face.routes:
        if f"{each.endpoint.path}/".startswith(f"{OURS}/"):
            raise UsageError(f"the route {each.endpoint.path} of {part.name} stands where ours do")
        first = re.split(r"[/{]", each.endpoint.path[1:])[0]
        if first in taken or first == "":
            raise UsageError(f"the route {each.endpoint.path} of {part.name} stands where ours do")
    kinds = [page.auth for page in face.pages] + [action.auth for action in face.actions]
    kinds += [str(route.auth) for route in face.routes]
    if "person" in kinds and face.link_sender is None and face.oauth_sign_in is None:
        raise UsageError(
            f"part {part.name} serves people: say how they come in, @part.sign_in or @part.oauth"
        )
    if face.pages and not part.contents.templates.is_dir():
        raise UsageError(
            f"part {part.name} has pages: its templates go to {part.contents.templates}"
        )


def _routes(app: App, part: Part, door: MakeRoute) -> Iterable[DoorRoute]:
    face = part.contents.face
    for route in face.routes:
        for method in route.methods:
            yield _program_route(app, part, route, method)
    for page in face.pages:
        handler = _guarded(answer_page(part, page))
        for path in (f"/{part.name}{page.endpoint.path}", *_bare(part, page)):
            made = door(path, handler, _needs(page, "read"), ("GET",), _of_people(page, part))
            made.page = (part, page)
            yield made
    for action in face.actions:
        handler = _guarded(answer_action(part, action))
        path, people = f"/{part.name}{action.endpoint.path}", _of_people(action, part)
        needs = _needs(action, "operate")
        yield door(path, handler, needs, ("POST",), people, uploads=action.max_body)
    if face.link_sender is not None or face.oauth_sign_in is not None:
        yield from sign_in_routes(part, door)
    if face.oauth_sign_in is not None:
        yield from oauth_routes(part, face.oauth_sign_in, door)


def _bare(part: Part, page: PartPage) -> list[str]:
    """`/streaks` is `/streaks/`."""
    return [f"/{part.name}"] if page.endpoint.path == "/" else []


def _needs(face: PartPage | PartAction, scope: str) -> str:
    return {"public": OPEN, "person": PERSON}.get(face.auth, scope)


def _of_people(face: PartPage | PartAction, part: Part) -> Part | None:
    """The part, where its people sign in: an operator's page leads to the operators' door."""
    return part if face.auth == "person" else None


def _program_route(app: App, part: Part, route: PartRoute, method: str) -> DoorRoute:
    path = route.endpoint.path
    made = DoorRoute(path, enter_route(app, part, route), methods=[method], name=f"{method} {path}")
    made.needs = scope_of(method) if route.auth == "token" else route.auth
    made.for_programs, made.part_route = True, route
    return made


def _guarded(handler: Any) -> Handler:
    """A page of a part that fails is a page that says so, and an entry in the log."""

    async def answer(visit: Visit) -> Response:
        try:
            made: Response = await handler(visit)
        except Error:
            raise
        except BadRequest as error:
            return problem(visit, error.status, error.detail)
        except Exception as error:
            if type(error).__module__.startswith("starlette."):
                raise
            LOG.exception("the page %s failed", visit.here)
            return problem(visit, 500, "Something went wrong here; it is in the log.")
        return made

    return answer


def _shape(path: str) -> str:
    """Two paths of one shape match the same addresses."""
    return re.sub(r"\{[^}]*\}", "{}", path)


def _specific(path: str) -> list[tuple[int, str]]:
    return [(1 + (":path" in each) if "{" in each else 0, each) for each in path.split("/")]


def _wrong_method(route: DoorRoute, found: Iterable[DoorRoute]) -> DoorRoute:
    """After all others: an address that is there, asked in a way that it does not answer to."""
    shape = _shape(route.path)
    allowed = {m for each in found if _shape(each.path) == shape for m in each.methods or ()}
    refusing = _WrongMethod(route.part_route, sorted(allowed))
    return DoorRoute(route.path, refusing, name=f"other {route.path}")


class _WrongMethod:
    """Answers 405 to whatever is asked."""

    def __init__(self, route: PartRoute | None, allowed: list[str]) -> None:
        self._route = route
        self._allowed = ", ".join(allowed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        error = BadRequest(405, f"This address answers to {self._allowed}.")
        answer = answer_problem(self._route, error)
        answer.headers["allow"] = self._allowed
        await answer(scope, receive, send)
