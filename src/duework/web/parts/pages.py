"""The pages of parts: rendered by their templates inside our shell, also without a request.

`render_page` is what answers a request, and what a pusher calls again when a topic of the page was touched.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, FunctionLoader, TemplateNotFound
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, Response

from duework.errors import UsageError
from duework.face import PartPage, Reply, Template
from duework.part import Part
from duework.web.parts.bodies import Fields, path_values, query_value
from duework.web.parts.calls import call
from duework.web.parts.problems import answer_reply
from duework.web.regions import cut
from duework.web.rendering import environment, page_values
from duework.web.visitor import Visitor
from duework.web.visits import Visit, live_address


@dataclass(frozen=True, slots=True)
class RenderedPage:
    """A whole page as HTML, or the answer of a handler that chose another one."""

    html: str = ""
    reply: Reply | None = None


@lru_cache(maxsize=64)
def templates_of(folder: str, shell: str) -> Environment:
    """A part's own templates, and ours below them: components.html, and the shell as base.html."""
    loader, ours = environment().loader, environment()
    assert loader is not None

    def find(name: str) -> tuple[str, str | None, Any] | None:
        return loader.get_source(ours, shell) if name == "base.html" else None

    return ours.overlay(
        loader=ChoiceLoader([FileSystemLoader(folder), FunctionLoader(find), loader])
    )


async def render_page(
    part: Part, page: PartPage, params: Mapping[str, Any], query: Fields, visitor: Visitor
) -> RenderedPage:
    """The page at an address, as this visitor sees it now. Who may see it is asked before."""
    endpoint = page.endpoint
    values = {**path_values(endpoint, params), **query_value(endpoint, query)}
    if endpoint.person is not None:
        values[endpoint.person] = visitor.person
    made = await call(part.app, endpoint, values)
    if isinstance(made, Reply):
        return RenderedPage(reply=made)
    if not isinstance(made, Template):
        raise UsageError(f"page {endpoint.name} of {part.name} returns a Template or a Reply")
    return RenderedPage(await run_in_threadpool(_fill, part, page, made, visitor))


def _fill(part: Part, page: PartPage, made: Template, visitor: Visitor) -> str:
    shown = page_values(part.app, visitor)
    shown |= {"part_page": page, "part": part.name, "root": f"{visitor.base}/{part.name}"}
    shown |= {"title": page.title, "heading": part_title(part)}
    for_people = page.auth != "token" and visitor.who is None
    if page.live:
        shown["live"] = live_address(visitor.base, visitor.here)
    try:
        found = templates_of(
            str(part.contents.templates), "people.html" if for_people else "base.html"
        )
        template = found.get_template(made.name)
    except TemplateNotFound as error:
        message = f"there is no template {error.name} in {part.contents.templates}"
        raise UsageError(message) from error
    return template.render({**shown, **made.values})


def part_title(part: Part) -> str:
    """What a part is called on pages for people."""
    titles = [page.title for page in part.contents.face.pages if page.endpoint.path == "/"]
    return titles[0] if titles else part.name.capitalize()


def visitor_of(visit: Visit) -> Visitor:
    """The visitor behind a request."""
    return Visitor(
        who=visit.who,
        person=visit.person,
        form_key=visit.form_key,
        sign_in=visit.sign_in,
        base=visit.base,
        here=visit.here,
        theme=visit.theme,
        zone=visit.zone,
        utc=visit.utc,
        keys_off=visit.keys_off,
        said=visit.said,
    )


def answer_page(part: Part, page: PartPage) -> Callable[[Visit], Awaitable[Response]]:
    """The handler for requests to a page."""

    async def answer(visit: Visit) -> Response:
        params, query = visit.request.path_params, visit.request.query_params.multi_items()
        made = await render_page(part, page, params, query, visitor_of(visit))
        if made.reply is not None:
            return answer_reply(made.reply, visit.base)
        return HTMLResponse(made.html)

    return answer


# --- regions


def regions_of(page: PartPage, html: str) -> dict[str, str]:
    """The page's regions by their ids, each as the whole element; one that is not there is left out."""
    return cut(html, page.regions.__contains__)
