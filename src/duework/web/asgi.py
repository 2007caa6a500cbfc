"""The pages of an App as an ASGI application: the table below, and what its parts declare."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Mount

from duework.errors import UsageError
from duework.web import acts, metrics, overview, pages
from duework.web.live.route import PATH, live_route
from duework.web.parts.table import part_routes
from duework.web.rendering import renderer
from duework.web.shapes.table import shape_routes
from duework.web.shield import Shield
from duework.web.visits import OPEN, Handler, door

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


def make(app: App, prefix: str = "", public_names: Iterable[str] = ()) -> Shield:
    """The application; it runs no worker and opens the database with the first request."""
    if prefix and (not prefix.startswith("/") or prefix.endswith("/")):
        raise UsageError("a prefix starts with a slash and ends without one: '/work'")
    render = renderer(app)
    route = door(app, render)
    own = [route(path, handler, scope, (method,)) for path, handler, scope, method in TABLE]
    taken = [PATH, *(path for path, *_ in TABLE)]
    own[-1:-1] = shapes = shape_routes(app, route, taken)
    parts = part_routes(app, route, [*taken, *(each.path for each in shapes)])
    live = live_route(app, [*own[:-1], *parts], render)
    # The last of ours answers to whatever is left.
    routes: list[BaseRoute] = [live, *own[:-1], *parts, own[-1]]
    if prefix:
        routes = [Mount(prefix, routes=routes)]
    return Shield(Starlette(routes=routes), public_names)
