"""Whoever asks too often is told when to come back, before any page is asked.

Counts are of this process: they need no database, which is what they protect. A token that came in lately is
let through while others from its address guess.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from duework.clock import monotonic
from duework.web.limits.buckets import MOST_KEYS, Buckets
from duework.web.limits.clients import client_of
from duework.web.limits.settings import WebSettings

# Set by a door that has let somebody in by a token or a key of their own.
ADMITTED = "duework.admitted"
UNAUTHORIZED = 401
Refuse = Callable[[Scope, Receive, Send, HTTPException], Awaitable[None]]


def real_milliseconds() -> int:
    """Of the real time: those who ask do not live by the App's clock."""
    return int(monotonic() * 1000)


def too_many(wait: int) -> HTTPException:
    """The refusal, in words and as a header."""
    seconds = math.ceil(wait / 1000)
    words = f"Too many requests: try again in {seconds} second{'s' if seconds > 1 else ''}."
    return HTTPException(429, words, {"retry-after": str(seconds)})


class RateLimits:
    """The limits of one server, and the ASGI application around its pages."""

    def __init__(
        self,
        settings: WebSettings,
        now: Callable[[], int] = real_milliseconds,
        most_keys: int = MOST_KEYS,
    ) -> None:
        self._now = now
        self._most_keys = most_keys
        self._trusted = settings.networks()
        self._sign_ins = Buckets(settings.sign_ins, most_keys)
        self._failures = Buckets(settings.failures, most_keys)
        self._actions = Buckets(settings.actions, most_keys)
        self._requests = Buckets(settings.requests, most_keys)
        self._good: OrderedDict[int, None] = OrderedDict()

    def act(self, who: str) -> None:
        """Count what somebody does; raises if it is too much."""
        if wait := self._actions.take(who, self._now()):
            raise too_many(wait)

    def around(self, inner: ASGIApp, sign_ins: Collection[str], refuse: Refuse) -> ASGIApp:
        """The pages, asked by those who keep to the limits; `sign_ins` are like `POST /login`."""

        async def enter(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] not in {"http", "websocket"}:
                await inner(scope, receive, send)
                return
            client, token = client_of(scope, self._trusted), _token(scope)
            signs_in = f"{scope.get('method')} {_path(scope)}" in sign_ins
            if wait := self._wait(client, token, signs_in=signs_in):
                await refuse(scope, receive, send, too_many(wait))
                return
            await inner(scope, receive, self._watched(scope, send, client, token))

        return enter

    def _wait(self, client: str, token: int | None, *, signs_in: bool) -> int:
        now = self._now()
        if signs_in and (wait := self._sign_ins.take(client, now)):
            return wait
        if token is None:
            return self._requests.take(client, now)
        if token not in self._good and (wait := self._failures.wait(client, now)):
            return wait
        return self._requests.take(f"token {token}", now)

    def _watched(self, scope: Scope, send: Send, client: str, token: int | None) -> Send:
        """Sends on, and looks at what became of the token."""
        if token is None:
            return send

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._note(client, token, message["status"], admitted=ADMITTED in scope)
            await send(message)

        return watched

    def _note(self, client: str, token: int, status: int, *, admitted: bool) -> None:
        if admitted:
            self._good[token] = None
            self._good.move_to_end(token)
            if len(self._good) > self._most_keys:
                self._good.popitem(last=False)
        elif status == UNAUTHORIZED:
            self._good.pop(token, None)
            self._failures.take(client, self._now())


def _token(scope: Scope) -> int | None:
    """Stands for the token that was sent; None without one. It is never kept itself."""
    return next((hash(value) for name, value in scope["headers"] if name == b"authorization"), None)


def _path(scope: Scope) -> str:
    return str(scope["path"]).removeprefix(str(scope.get("root_path", "")))
