"""The WebSocket at `/live`: who may look, at what, from where."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from duework.errors import DatabaseError
from duework.web.live.hub import Hub
from duework.web.live.pages import MARKER, Address, find, live_page
from duework.web.live.viewer import SIGN_IN, TRY_LATER, Viewer
from duework.web.visits import OPEN, Visit, recognise, same_host

if TYPE_CHECKING:
    from duework.app import App

PATH = "/live"
NOT_ALLOWED, NOT_TAKEN = 4403, 1008


def live_route(
    app: App, routes: Sequence[Route], render: Callable[..., Response]
) -> WebSocketRoute:
    """Pushes the pages behind these routes."""
    hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()

    async def enter(socket: WebSocket) -> None:
        address = find(routes, socket.scope["query_string"])
        if address is None or not _from_our_page(socket):
            # Before it is accepted: an answer of 403, which tells another site nothing.
            await socket.close(NOT_TAKEN)
            return
        hub = hubs.setdefault(asyncio.get_running_loop(), Hub(app))
        visit = Visit(app, Request(_as_request(socket)), None, render=render)
        code = await _refusal(address, visit, hub)
        await socket.accept()
        if code is not None:
            await socket.close(code)
        else:
            await _look(hub, address, visit, socket)

    made = WebSocketRoute(PATH, enter)
    # What it needs is what the page needs that is looked at.
    made.needs = None  # type: ignore[attr-defined]
    return made


def _from_our_page(socket: WebSocket) -> bool:
    """A browser says from which page it comes; a program with a token is no browser."""
    headers = socket.headers
    if "authorization" in headers:
        return True
    origin = headers.get("origin")
    return origin is not None and same_host(origin, headers.get("host", ""))


def _as_request(socket: WebSocket) -> dict[str, object]:
    return {**socket.scope, "type": "http", "method": "GET"}


async def _refusal(address: Address, visit: Visit, hub: Hub) -> int | None:
    """Why it is closed at once, in a code that the page understands; None if it may look."""
    if hub.full:
        return TRY_LATER
    try:
        await run_in_threadpool(recognise, visit)
    except DatabaseError:
        return TRY_LATER
    page = getattr(address.route, "page", None)
    if isinstance(page, tuple) and page[1].auth == "person":
        return None if visit.person is not None else SIGN_IN
    if address.needs == OPEN:
        return None
    if visit.who is None:
        return SIGN_IN
    return None if visit.who.may(address.needs) else NOT_ALLOWED


async def _look(hub: Hub, address: Address, visit: Visit, socket: WebSocket) -> None:
    who = visit.who
    viewer = Viewer(socket, who.session if who else "", MARKER, who.form_key if who else "")
    async with hub.joined(live_page(address, visit), viewer):
        ways = [asyncio.create_task(viewer.serve()), asyncio.create_task(_until_left(socket))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)


async def _until_left(socket: WebSocket) -> None:
    """A page has nothing to say; what it sends is not read."""
    while (await socket.receive())["type"] != "websocket.disconnect":
        continue
