"""Which pages change by themselves, by which topics, in which regions; and how one is rendered again.

Our own pages differ by the scope of who looks and by their zone, and by nothing else that is in a region;
what belongs to one session stands there as a marker. Those of parts also differ by name and person.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import parse_qsl, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from duework.face import PartPage
from duework.part import Part
from duework.web.live.view import LEAST_SECONDS, LivePage, Rendered
from duework.web.parts.pages import regions_of, render_page, visitor_of
from duework.web.regions import cut
from duework.web.tokens import Who
from duework.web.visits import PERSON, DoorRoute, Visit

# Stands for the session of whoever looks, whose key for forms is put in when it is sent.
_ANY_SESSION = secrets.token_hex(32)
MARKER = Who("", "read", _ANY_SESSION).form_key
# The jobs of an open list.
ROWS, MOST_ROWS = "rows", 100


@dataclass(frozen=True, slots=True)
class PageAddress:
    """A page that somebody looks at: its route, what is in its path, its query."""

    route: DoorRoute
    path: str
    params: Mapping[str, Any]
    query: tuple[tuple[str, str], ...]

    @property
    def needs(self) -> str:
        """The scope; empty if there is none."""
        return cast("str", self.route.needs)

    @property
    def people_of(self) -> Part | None:
        """The part whose people alone may see it."""
        page = self.route.page
        return page[0] if isinstance(page, tuple) and self.needs == PERSON else None


def find(routes: Iterable[DoorRoute], query: bytes) -> PageAddress | None:
    """The page that `?page=/jobs&phase=failed` names, if it is one that changes by itself."""
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, max_num_fields=100)
    except ValueError:
        return None
    if not pairs or pairs[0][0] != "page":
        return None
    path = pairs[0][1]
    scope = {"type": "http", "method": "GET", "path": path, "root_path": "", "path_params": {}}
    for route in routes:
        match, child = route.matches(scope)
        if match is Match.FULL:
            address = PageAddress(route, path, child["path_params"], tuple(pairs[1:]))
            return address if _is_live(route) else None
    return None


def _is_live(route: DoorRoute) -> bool:
    page = route.page
    return bool(page[1].live) if isinstance(page, tuple) else route.regions is not None


def live_page(address: PageAddress, visit: Visit) -> LivePage:
    """What to render, for all who would see the same."""
    page = address.route.page
    viewer = (str(visit.zone), visit.utc, visit.base, visit.person)
    place = (address.path, address.query)
    scope = visit.who.scope if visit.who else ""
    if isinstance(page, tuple):
        name = visit.who.name if visit.who else ""
        return _of_part(page, ("part", place, viewer, scope, name), address, visit)
    ours = cast("Callable[[Visit], Response]", page)
    return _own(ours, ("own", place, viewer, scope), address, visit)


def again(address: PageAddress, visit: Visit, name: str = "") -> Visit:
    """The same visit to the page itself, by anybody of that name, scope and zone."""
    query = [pair for pair in address.query if pair[0] != ROWS]
    scope = {
        **visit.request.scope,
        "type": "http",
        "method": "GET",
        "path": visit.base + address.path,
        "raw_path": (visit.base + address.path).encode(),
        "query_string": urlencode(query).encode(),
        "path_params": dict(address.params),
        "headers": [pair for pair in visit.request.scope["headers"] if pair[0] == b"host"],
    }
    zone = {name: visit.request.cookies.get(name, "") for name in ("tz", "zone")}
    scope["headers"].append((b"cookie", "; ".join(f"{k}={v}" for k, v in zone.items()).encode()))
    who = visit.who and Who(name, visit.who.scope, _ANY_SESSION)
    session = _ANY_SESSION if visit.person is not None else ""
    return Visit(
        *(visit.app, Request(scope), who),
        person=visit.person,
        part=visit.part,
        person_session=session,
        render=visit.render,
    )


def _own(
    page: Callable[[Visit], Response], key: Any, address: PageAddress, visit: Visit
) -> LivePage:
    regions = address.route.regions
    assert regions is not None, "found by `find`"
    rows = _rows(address)

    def render() -> Rendered:
        looking = again(address, visit)
        looking.rows = rows
        answer = page(looking)
        if answer.status_code != 200:  # noqa: PLR2004 - the page has become another one
            raise HTTPException(answer.status_code)
        html = bytes(answer.body).decode()
        found = cut(html, lambda identifier: regions.name(identifier) is not None)
        return Rendered(found, looking.again)

    async def rendered() -> Rendered:
        return await run_in_threadpool(render)

    return LivePage(key, regions.topics, rendered, regions.interval, regions.least)


def _rows(address: PageAddress) -> tuple[int, ...]:
    """The jobs that the browser's list shows; what is no id is none."""
    given = next((value for name, value in address.query if name == ROWS), "")
    found = [each for each in given.split(".") if each.isascii() and each.isdigit()]
    return tuple(int(each) for each in found[:MOST_ROWS] if int(each) < 2**63)


def _of_part(face: tuple[Part, PartPage], key: Any, address: PageAddress, visit: Visit) -> LivePage:
    part, page = face

    async def rendered() -> Rendered:
        visitor = visitor_of(again(address, visit, visit.who.name if visit.who else ""))
        made = await render_page(part, page, address.params, list(address.query), visitor)
        return Rendered({} if made.reply is not None else regions_of(page, made.html))

    topics = frozenset(page.topics(address.params))
    return LivePage(key, topics, rendered, lambda _: LEAST_SECONDS)
