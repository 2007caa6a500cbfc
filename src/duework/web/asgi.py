"""The pages of an App as an ASGI application: the table below, and what its parts declare."""

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
from duework.web.rendering import renderer
from duework.web.shapes.table import shape_routes
from duework.web.shield import Shield
from duework.web.visits import OPEN, Handler, Visit, door, problem

if TYPE_CHECKING:
    from duework.app import App

# Address, what answers, the scope that it needs, and how it is asked.
TABLE: tuple[tuple[str, Handler, str, str], ...] = (
    ("/health", overview.health, OPEN, "GET"),
    ("/static/{name}", pages.static, OPEN, "GET"),
    ("/login", acts.login_page, OPEN, "GET"),
    ("/login", acts.login, OPEN, "POST"),
    ("/logout", acts.logout, "read", "POST"),
    ("/theme", acts.theme, "read", "POST"),
    ("/", overview.overview, "read", "GET"),
    ("/metrics", metrics.metrics, "read", "GET"),
    ("/menu", pages.menu, "read", "GET"),
    ("/jobs", pages.jobs, "read", "GET"),
    ("/jobs/retry", acts.retry, "operate", "POST"),
    ("/jobs/cancel", acts.ask_cancel, "operate", "GET"),
    ("/jobs/cancel", acts.cancel, "operate", "POST"),
    ("/jobs/{id:int}", pages.job, "read", "GET"),
    ("/queues/pause", acts.ask_pause, "operate", "GET"),
    ("/queues/pause", acts.pause, "operate", "POST"),
    ("/queues/resume", acts.resume, "operate", "POST"),
    ("/{rest:path}", pages.nothing, "read", "GET"),
)


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
    own = [route(path, handler, scope, (method,)) for path, handler, scope, method in TABLE]
    taken = [PATH, *(path for path, *_ in TABLE)]
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
        lambda inner: limits.around(inner, sign_ins, _refusal(app, render)),
    )


def _sign_ins(app: App) -> Iterable[tuple[str, str]]:
    """Where operators and people sign in."""
    yield "POST", "/login"
    for part in app.parts:
        yield from (("POST", f"/{part.name}/sign-in"), ("POST", f"/{part.name}/enter"))
        yield "GET", f"/{part.name}/oauth/back"


def _refusal(app: App, render: Any) -> Refuse:
    """How somebody is told to come back later."""

    async def refuse(scope: Scope, receive: Receive, send: Send, why: HTTPException) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1013})
            return
        if is_api(scope):
            await answer_refusal(why, Request(scope))(scope, receive, send)
            return
        visit = Visit(app, Request(scope), None, render=render)
        await problem(visit, why.status_code, why.detail, why.headers)(scope, receive, send)

    return refuse
