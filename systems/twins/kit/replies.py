"""Replies that go wrong on purpose. Each is a response that ends its connection in its own way."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.background import BackgroundTask
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

TRANSPORT = "twin_transport"
PIECES = 10


class Connection(H11Protocol):
    """uvicorn's protocol, which also tells the application how to cut the connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.app_state = {**self.app_state, TRANSPORT: transport}
        super().connection_made(transport)


class Dropped(Response):
    """The connection is cut and nothing is said."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"][TRANSPORT].abort()
        await gone(receive)


class Never(Response):
    """Nothing is said for as long as the client waits."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await gone(receive)


class Slow(Response):
    """A reply whose body comes in pieces, over some real seconds."""

    def __init__(self, reply: Response, seconds: float) -> None:
        super().__init__(b"", reply.status_code, background=BackgroundTask(lambda: None))
        self._reply = reply
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = bytes(self._reply.body)
        start: dict[str, Any] = {"type": "http.response.start", "status": self._reply.status_code}
        await send({**start, "headers": self._reply.raw_headers})
        size = max(1, -(-len(body) // PIECES))
        for at in range(0, len(body), size):
            piece = {"type": "http.response.body", "body": body[at : at + size], "more_body": True}
            await send(piece)
            await asyncio.sleep(self._seconds / PIECES)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class Cut(Response):
    """Half of a reply whose headers promise all of it, and then the end of the connection."""

    def __init__(self, reply: Response) -> None:
        super().__init__(b"", reply.status_code)
        self._reply = reply

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = bytes(self._reply.body)
        start: dict[str, Any] = {"type": "http.response.start", "status": self._reply.status_code}
        await send({**start, "headers": self._reply.raw_headers})
        half = body[: len(body) // 2]
        await send({"type": "http.response.body", "body": half, "more_body": True})
        transport = scope["state"][TRANSPORT]
        # What was written is still sent; the rest never comes.
        transport.close()
        await gone(receive)


def malformed(reply: Response) -> Response:
    """The first half of a body, with headers that belong to it; an empty body becomes half a JSON."""
    body = bytes(reply.body)
    reply.body = body[: len(body) // 2] if body else b'{"ok'
    reply.headers["content-length"] = str(len(reply.body))
    return reply


async def gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
