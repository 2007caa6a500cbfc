"""The pages of an App as an ASGI application: the table below, what is found, and what its parts declare."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import BaseRoute, Mount
from starlette.types import Receive, Scope, Send

from duework.errors import UsageError
from duework.web import acts, metrics, overview, pages
from duework.web.api.door import answer_refusal, api_routes, is_api
from duework.web.limits.rates import RateLimits, Refuse
from duework.web.limits.settings import WebSettings, load
from duework.web.live.route import PATH, live_route
from duework.web.parts.table import part_routes
from duework.web.regions import JOBS, SHELL, Regions, regions
from duework.web.rendering import renderer
from duework.web.shapes.table import shape_routes
from duework.web.shield import Shield
from duework.web.table import OwnPage, found_pages
from duework.web.visits import OPEN, Visit, door, problem

if TYPE_CHECKING:
    from duework.app import App

# A list of jobs, one job and the overview change by themselves.
OVERVIEW = regions(attention=1.0, dueline=2.0, tiles=0.5, queues=1.0)
LIST = Regions(JOBS, {"counts": 2.0, "job-": 0.5, "newer": 1.0, **SHELL})
ONE = Regions(JOBS, {"head": 1.0, "why": 1.0, "detail": 1.0, **SHELL})
# What stands in no module of its own.
TABLE = (
    OwnPage("/health", overview.health, OPEN),
    OwnPage("/static/{name}", pages.static, OPEN),
    OwnPage("/login", acts.login_page, OPEN),
    OwnPage("/login", acts.login, OPEN, "POST"),
    OwnPage("/logout", acts.logout, "read", "POST"),
    OwnPage("/theme", acts.theme, "read", "POST"),
    OwnPage("/", overview.overview, live=OVERVIEW),
    OwnPage("/metrics", metrics.metrics),
    OwnPage("/menu", pages.menu),
    OwnPage("/jobs", pages.jobs, live=LIST),
    OwnPage("/jobs/retry", acts.retry, "operate", "POST"),
    OwnPage("/jobs/cancel", acts.ask_cancel, "operate"),
    OwnPage("/jobs/cancel", acts.cancel, "operate", "POST"),
    OwnPage("/jobs/{id:int}", pages.job, live=ONE),
)
# Answers to whatever is left.
LAST = OwnPage("/{rest:path}", pages.nothing)


def table() -> list[OwnPage]:
    """Every address that is not a part's."""
    return [*TABLE, *found_pages(), LAST]


def make(
    app: App,
    prefix: str = "",
    public_names: Iterable[str] = (),
    settings: WebSettings | None = None,
) -> Shield:
    """The application; it runs no worker and opens the database with the first request."""
    if prefix and (not prefix.startswith("/") or prefix.endswith("/")):
        raise UsageError("a prefix starts with a slash and ends without one: '/work'")
    render = renderer(app)
    limits = RateLimits(settings or load())
    route = door(app, render, limits)
    rows = table()
    own = [
        route(each.path, each.answer, each.scope, (each.method,), None, each.live) for each in rows
    ]
    taken = [PATH, *(each.path for each in rows)]
    own[-1:-1] = shapes = shape_routes(app, route, taken)
    parts = part_routes(app, route, [*taken, *(each.path for each in shapes)])
    live = live_route(app, [*own[:-1], *parts], render)
    # The last of ours answers to whatever is left.
    routes: list[BaseRoute] = [live, *own[:-1], *api_routes(app), *parts, own[-1]]
    if prefix:
        routes = [Mount(prefix, routes=routes)]
    sign_ins = {f"{method} {prefix}{path}" for method, path in _sign_ins(app)}
    return Shield(
        Starlette(routes=routes),
        public_names,
        lambda inner: limits.around(inner, sign_ins, _refusal(app, render, prefix)),
    )


def _sign_ins(app: App) -> Iterable[tuple[str, str]]:
    """Where operators and people sign in."""
    yield "POST", "/login"
    for part in app.parts:
        yield from (("POST", f"/{part.name}/sign-in"), ("POST", f"/{part.name}/enter"))
        yield "GET", f"/{part.name}/oauth/back"


def _refusal(app: App, render: Any, prefix: str) -> Refuse:
    """How somebody is told to come back later."""

    async def refuse(scope: Scope, receive: Receive, send: Send, why: HTTPException) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1013})
            return
        if is_api(scope):
            await answer_refusal(why, Request(scope))(scope, receive, send)
            return
        # Nobody has gone below the prefix yet.
        below = {**scope, "root_path": f"{scope.get('root_path', '')}{prefix}"}
        visit = Visit(app, Request(below), None, render=render)
        await problem(visit, why.status_code, why.detail, why.headers)(scope, receive, send)

    return refuse
