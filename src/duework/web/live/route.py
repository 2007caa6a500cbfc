"""The WebSocket at `/live`: who may look, at what, from where."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

from duework.errors import DatabaseError
from duework.web.live.hub import Hub
from duework.web.live.pages import MARKER, PageAddress, find, live_page
from duework.web.live.viewer import SIGN_IN, TRY_LATER, Viewer
from duework.web.tokens import Tokens, Who
from duework.web.visits import (
    OPEN,
    PERSON,
    DoorRoute,
    Visit,
    recognise,
    recognise_person,
    same_host,
)

if TYPE_CHECKING:
    from duework.app import App

PATH = "/live"
NOT_ALLOWED, NOT_TAKEN = 4403, 1008


class LiveRoute(WebSocketRoute):
    """The one door that asks nothing itself: what is needed is what the page needs that is looked at."""

    needs: str | None = None


def live_route(app: App, routes: Sequence[DoorRoute], render: Callable[..., Response]) -> LiveRoute:
    """Pushes the pages behind these routes."""
    hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()

    async def enter(socket: WebSocket) -> None:
        address = find(routes, socket.scope["query_string"])
        if address is None or not _from_our_page(socket):
            # Before it is accepted: an answer of 403, which tells another site nothing.
            await socket.close(NOT_TAKEN)
            return
        hub = hubs.setdefault(asyncio.get_running_loop(), Hub(app))
        visit = Visit(
            app, Request(_as_request(socket)), None, part=address.people_of, render=render
        )
        code = await _refusal(address, visit, hub)
        await socket.accept()
        if code is not None:
            await socket.close(code)
        else:
            await _look(hub, address, visit, socket)

    return LiveRoute(PATH, enter)


def _from_our_page(socket: WebSocket) -> bool:
    """A browser says from which page it comes; a program with a token is no browser."""
    headers = socket.headers
    if "authorization" in headers:
        return True
    origin = headers.get("origin")
    return origin is not None and same_host(origin, headers.get("host", ""))


def _as_request(socket: WebSocket) -> dict[str, object]:
    return {**socket.scope, "type": "http", "method": "GET"}


async def _refusal(address: PageAddress, visit: Visit, hub: Hub) -> int | None:
    """Why it is closed at once, in a code that the page understands; None if it may look."""
    if hub.full:
        return TRY_LATER
    try:
        await run_in_threadpool(recognise_person if address.needs == PERSON else recognise, visit)
    except DatabaseError:
        return TRY_LATER
    if address.needs == OPEN or visit.person is not None:
        return None
    if visit.who is None:
        return SIGN_IN
    return None if visit.who.may(address.needs) else NOT_ALLOWED


async def _look(hub: Hub, address: PageAddress, visit: Visit, socket: WebSocket) -> None:
    session, is_open = _session(visit)
    viewer = Viewer(socket, session, is_open, (MARKER, visit.form_key))
    async with hub.joined(live_page(address, visit), viewer):
        ways = [asyncio.create_task(viewer.serve()), asyncio.create_task(_until_left(socket))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)


def _session(visit: Visit) -> tuple[str, Callable[[], bool]]:
    """What was shown at the door, and how to ask whether it still opens."""
    if visit.person is not None and visit.part is not None:
        people, theirs = visit.part.people, visit.person_session
        return theirs, lambda: people.who(theirs) is not None
    tokens, own = Tokens(visit.app), visit.who.session if visit.who else ""
    return own, lambda: isinstance(tokens.who(own, "session"), Who)


async def _until_left(socket: WebSocket) -> None:
    """A page has nothing to say; what it sends is not read."""
    while (await socket.receive())["type"] != "websocket.disconnect":
        continue
