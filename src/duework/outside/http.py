"""HTTP as tasks need it: bounded in time and size, and clear about what is known after a failure.

    github = http.Client("https://api.github.com", timeout="10s")      # trusts its own host
    hooks = http.Client(guard=http.Guard())                            # for URLs that users supply

    reply = await github.get("/users/ada")                             # in async code
    reply = github.call("GET", "/users/ada")                           # in a thread

An answer of 429, or of 503 with `Retry-After`, is raised as `duework.Throttled`. After one of `http.LOST`
nobody knows whether the request had an effect; after one of `http.UNSENT` it had none. Messages name the host
and never a path, a query or a header: tokens are to be found in all of them. Redirects are not followed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary

from duework.clock import SystemClock
from duework.durations import Duration, milliseconds
from duework.errors import (
    BadStatus,
    HttpError,
    LostReply,
    Refused,
    ReplyTooLarge,
    Unsent,
    UsageError,
)
from duework.kernel.outcomes import LOST
from duework.kernel.surroundings.leaving import leaves
from duework.outside.extra import extra
from duework.outside.guard import Guard
from duework.outside.reply import Response, TooMany, read_body, throttle

if TYPE_CHECKING:
    from types import ModuleType

    import httpcore2
    import httpx2

__all__ = [
    "LOST",
    "UNSENT",
    "BadStatus",
    "Client",
    "Guard",
    "HttpError",
    "LostReply",
    "Refused",
    "ReplyTooLarge",
    "Response",
    "TooMany",
    "Unsent",
]

# After one of these a request surely had no effect.
UNSENT: tuple[type[Exception], ...] = (Unsent, Refused)
TIMEOUT = "10s"
LIMIT = 10_000_000
POOL = 10
# Set where processes are forked from that run a task each, and in those.
_ISOLATED = "DUEWORK_ISOLATED"
_OURS = {"accept": "*/*", "accept-encoding": "gzip", "user-agent": "duework"}


class Client:
    """Asks one host that it trusts, or under a guard any public one. One for each upstream is enough."""

    def __init__(
        self,
        base: str = "",
        *,
        guard: Guard | None = None,
        timeout: Duration = TIMEOUT,
        headers: Mapping[str, str] | None = None,
        pool: int = POOL,
        limit: int = LIMIT,
        ca: str | os.PathLike[str] | None = None,
        now: Callable[[], int] | None = None,
    ) -> None:
        if bool(base) == (guard is not None):
            raise UsageError(
                'a client has a host that it trusts, as in http.Client("https://api.github.com"),'
                " or a guard, as in http.Client(guard=http.Guard())"
            )
        if pool < 1 or limit < 0:
            raise UsageError("a client has a pool of at least 1 connection, and a limit in bytes")
        self._base = base.rstrip("/")
        self._guard = guard
        self._timeout = milliseconds(timeout) / 1000
        self._headers = {**_OURS, **{name.lower(): text for name, text in (headers or {}).items()}}
        self._size = pool
        self._limit = limit
        self._ca = None if ca is None else os.fspath(ca)
        self._now = now or SystemClock().now
        self._pools: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()
        self._origin: tuple[Any, ...] | None = None
        if _ISOLATED in os.environ:
            # Nobody uses it where tasks are forked from: made there, it is made for all of them.
            _wire().tls(self._ca)

    def __repr__(self) -> str:
        return f"<Client of {self._base or 'public hosts'}>"

    async def get(self, url: str = "", **options: Any) -> Response:
        """Ask for something; options as `request`."""
        return await self.request("GET", url, **options)

    async def post(self, url: str = "", **options: Any) -> Response:
        """Send something; options as `request`."""
        return await self.request("POST", url, **options)

    def call(self, method: str, url: str = "", **options: Any) -> Response:
        """`request` for code without an event loop: it waits."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            # The thread that asks does not know for which send.
            leaves()
            answer: Response = _wire().run_in_thread(self.request(method, url, **options))
            return answer
        raise UsageError("client.call would stop the event loop: await client.request(…) instead")

    async def request(
        self,
        method: str,
        url: str = "",
        *,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        json: Any = None,
        data: Mapping[str, Any] | None = None,
        content: bytes | str | None = None,
        timeout: Duration | None = None,  # noqa: ASYNC109 - a duration, as everywhere here
    ) -> Response:
        """Ask and read the whole answer, within the time and the size that are allowed.

        `json`, `data` (a form) or `content` is the body. The time counts from the call to the last byte.
        """
        wire = _wire()
        target = self._target(wire, url, params)
        request = _written(method, target, self._headers, headers, json, data, content)
        sent = _Sent()
        asked = f"{request.method} {target.scheme}://{target.netloc.decode('ascii')}"
        seconds = self._timeout if timeout is None else milliseconds(timeout) / 1000
        try:
            async with asyncio.timeout(seconds):
                response = await self._exchange(wire, request, sent, asked)
        except TimeoutError as error:
            raise sent.failed(asked, f"did not answer within {seconds:g} s") from error
        except wire.FAILURES as error:
            raise sent.failed(asked, f"failed ({type(error).__name__})") from error
        throttle(response, self._now())
        if self._guard is not None and 300 <= response.status < 400:  # noqa: PLR2004 - 3xx
            raise Refused(f"{asked} answered with a redirect, which is not followed")
        return response

    async def _exchange(
        self, wire: ModuleType, request: httpx2.Request, sent: _Sent, asked: str
    ) -> Response:
        url = request.url
        outgoing = wire.httpcore2.Request(
            method=request.method,
            url=wire.httpcore2.URL(
                scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
            ),
            headers=request.headers.raw,
            content=request.content,
            extensions={"trace": sent.trace},
        )
        reply: httpcore2.Response = await (await self._pool(wire)).handle_async_request(outgoing)
        try:
            headers = wire.httpx2.Headers(reply.headers)
            content = b""
            if request.method != "HEAD":
                content = await read_body(reply.aiter_stream(), headers, self._limit, asked)
        finally:
            await reply.aclose()
        return Response(reply.status, headers, content, asked)

    def _target(self, wire: ModuleType, url: str, params: Mapping[str, Any] | None) -> httpx2.URL:
        found: httpx2.URL
        if self._guard is not None:
            found = self._guard.read(url)
        else:
            found = wire.parsed(url if "://" in url else self._below(url))
            if self._origin is None:
                self._origin = _origin(wire.parsed(self._base))
            if _origin(found) != self._origin:
                raise UsageError(f"this client is for {self._base} and asks nobody else")
        return found if params is None else found.copy_merge_params(params)

    def _below(self, path: str) -> str:
        return self._base + (path if path.startswith(("/", "?")) or not path else f"/{path}")

    async def _pool(self, wire: ModuleType) -> httpcore2.AsyncConnectionPool:
        """The connections of this event loop: a connection belongs to the loop that made it."""
        loop = asyncio.get_running_loop()
        if (kept := self._pools.get(loop)) is None:
            pool = wire.make_pool(self._size, self._guard, self._ca)
            closing = _close_at_end(pool)
            kept = self._pools[loop] = (pool, closing)
            await anext(closing)
        found: httpcore2.AsyncConnectionPool = kept[0]
        return found

    async def aclose(self) -> None:
        """Close this loop's connections; what is asked next opens new ones."""
        if (kept := self._pools.pop(asyncio.get_running_loop(), None)) is not None:
            await kept[1].aclose()

    def close(self) -> None:
        """Close the connections that `call` has opened."""
        _wire().run_in_thread(self.aclose())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()


class _Sent:
    """Whether a byte of the request has gone out: what decides between no effect and nobody knows."""

    def __init__(self) -> None:
        self._begun = False

    async def trace(self, event: str, _info: Mapping[str, Any]) -> None:
        if event.endswith("send_request_headers.started"):
            self._begun = True
            leaves()

    def failed(self, asked: str, how: str) -> HttpError:
        if self._begun:
            return LostReply(f"{asked} {how}; nobody knows whether it had an effect")
        return Unsent(f"{asked} {how} before it was sent")


async def _close_at_end(pool: httpcore2.AsyncConnectionPool) -> AsyncIterator[None]:
    """Closes a pool with its event loop, which ends the generators that were begun in it."""
    try:
        yield
    finally:
        await pool.aclose()


def _wire() -> ModuleType:
    with extra("duework.http"):
        from duework.outside import wire
    return wire


def _origin(url: httpx2.URL) -> tuple[Any, ...]:
    port = url.port or {"http": 80, "https": 443}.get(url.scheme)
    if port is None or not url.raw_host or url.userinfo:
        raise UsageError("the URL of a client is http:// or https://, a host, and no user")
    return url.scheme, url.raw_host, port


def _written(
    method: str,
    url: httpx2.URL,
    base: Mapping[str, str],
    own: Mapping[str, str] | None,
    *body: Any,
) -> httpx2.Request:
    import httpx2

    json, data, content = body
    headers = {**base, **{name.lower(): text for name, text in (own or {}).items()}}
    for name, text in headers.items():
        if not text.isascii() or "\n" in text or "\r" in text:
            # The text itself may be a token.
            raise UsageError(f"the header {name} is not a line of ASCII")
    return httpx2.Request(method, url, headers=headers, json=json, data=data, content=content)
