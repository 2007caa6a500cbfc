"""What every answer has and every request must pass, before any page is asked.

The names that a server answers to are listed: a page of somebody else that has its own name point to this
address (DNS rebinding) is not served. Headers are set here, once, also on errors that nobody foresaw.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_HOST = re.compile(r"([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")

POLICY = "; ".join(
    [
        *("default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data:"),
        *("connect-src 'self'", "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'"),
    ]
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_ENCODED = [(name.encode(), value.encode()) for name, value in HEADERS.items()]


def name_of(host: str) -> str | None:
    """The name in a Host header, without its port; None if it is not one."""
    match = _HOST.fullmatch(host.lower())
    return match[1] if match else None


class Shield:
    """An ASGI application around the pages."""

    def __init__(
        self,
        inner: ASGIApp,
        public_names: Iterable[str] = (),
        around: Callable[[ASGIApp], ASGIApp] = lambda inner: inner,
    ) -> None:
        self.inner = inner
        self._enter = around(inner)
        self.names = LOOPBACK | {name.lower() for name in public_names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"}:
            await self.inner(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message.get("headers", [])}
                more = [pair for pair in _ENCODED if pair[0] not in given]
                if b"cache-control" not in given:
                    more.append((b"cache-control", b"no-store"))
                message["headers"] = [*message.get("headers", []), *more]
            await send(message)

        if not self._known(scope):
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
                return
            words = "This server does not answer to that name; see --public-name.\n"
            await PlainTextResponse(words, 421)(scope, receive, guarded)
            return
        await self._enter(scope, receive, guarded)

    def _known(self, scope: Scope) -> bool:
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        return len(hosts) == 1 and name_of(hosts[0].decode("latin-1")) in self.names
