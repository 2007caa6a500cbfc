"""A twin: an ASGI application that behaves like an upstream, keeps books and fails on demand.

A subclass lists its doors (route, method, path, function), keeps its state in `start_over`, which a
reset calls again, and words its errors in `refusal`. A door's function gets a Call and returns a
reply; it raises Answer to leave early. Everything runs in one event loop, so no state needs a lock.
"""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
import random
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from systems.twins.kit.clock import Clock, Now, as_http_date, as_now
from systems.twins.kit.courier import Courier
from systems.twins.kit.faults import Fault, Plan
from systems.twins.kit.ledger import Asked, Ledger, Log
from systems.twins.kit.limits import Window
from systems.twins.kit.replies import Cut, Dropped, Never, Slow, malformed

if TYPE_CHECKING:
    from systems.twins.kit.serve import Served

Handler = Callable[["Call"], Response | Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Door:
    """One route of the upstream; its name is what a fault plan and the log call it."""

    name: str
    method: str
    path: str
    answer: Handler


class Answer(Exception):
    """Raised to answer at once, from however deep inside a check."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status_code)
        self.response = response


class Call:
    """A request with its body read, and its entry in the log."""

    def __init__(self, request: Request, body: bytes, asked: Asked) -> None:
        self.request = request
        self.body = body
        self.asked = asked
        self.now = asked.at
        self.headers = request.headers
        self.query = request.query_params

    def part(self, name: str) -> str:
        return str(self.request.path_params[name])

    def note(self, **facts: Any) -> None:
        self.asked.notes.update(facts)

    def limited(self, window: Window) -> None:
        self.asked.limit = window.refuse()

    def json(self) -> Any:
        """The body as JSON; None if it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    def fields(self) -> dict[str, Any]:
        """What was sent by query, by form or as a JSON object, later ones over earlier ones."""
        found: dict[str, Any] = dict(self.query)
        kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "application/json":
            sent = self.json()
            return found | sent if isinstance(sent, dict) else found
        if kind == "application/x-www-form-urlencoded":
            found.update(parse_qsl(self.body.decode(errors="replace"), keep_blank_values=True))
        return found

    def bearer(self) -> str | None:
        scheme, _, token = self.headers.get("authorization", "").partition(" ")
        return token.strip() if scheme.lower() in {"bearer", "token"} and token.strip() else None

    def basic(self) -> tuple[str, str] | None:
        scheme, _, text = self.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "basic":
            return None
        try:
            user, _, password = base64.b64decode(text, validate=True).decode().partition(":")
        except ValueError:
            return None
        return user, password


class Twin:
    name: ClassVar[str]
    about: ClassVar[str]

    def __init__(self, clock: Now | Clock | None = None, *, seed: int = 0) -> None:
        self.now = as_now(clock)
        self.seed = seed
        self.url = ""
        self._resets = 0
        self.ledger = Ledger()
        self.log = Log()
        self.courier = Courier(self.now, self.tick)
        self.doors = self.make_doors()
        self.faults = Plan({door.name for door in self.doors} | set(self.other_routes()), seed)
        self.draw = random.Random()
        self.reset()

    # What an upstream says for itself.

    def make_doors(self) -> list[Door]:
        raise NotImplementedError

    def other_routes(self) -> tuple[str, ...]:
        """Routes that faults can name and that are no HTTP ones."""
        return ()

    def start_over(self) -> None:
        """Set the state that the upstream has when nobody has used it yet."""

    def tick(self) -> None:
        """Do what has become due by the clock alone; called often, and by `settle`."""

    def samples(self) -> dict[str, str]:
        """What a client is configured with to begin: tokens, addresses, ids."""
        return {}

    def switches(self) -> Mapping[str, Callable[..., object]]:
        """What can be set from outside, over the control routes too."""
        return {}

    async def open(self, served: Served) -> None:
        """Begin to listen, where HTTP is not all there is."""

    async def close(self) -> None:
        """Stop what `open` began."""

    def refusal(self, status: int) -> Response:
        """The upstream's own words for a status, where a fault asks for one."""
        return JSONResponse({"message": HTTPStatus(status).phrase}, status)

    # What all of them share.

    def reset(self) -> None:
        """Forget everything: books, faults, and what was changed since the start."""
        self._resets += 1
        self.draw = random.Random(f"{self.name}/{self.seed}")
        self.ledger.clear()
        self.log.clear()
        self.courier.clear()
        self.faults.set([], self.seed)
        self.start_over()

    def uuid(self) -> str:
        return str(uuid.UUID(int=self.draw.getrandbits(128), version=4))

    def token(self, prefix: str = "", length: int = 40) -> str:
        return prefix + "".join(self.draw.choices("0123456789abcdef", k=length))

    def application(self) -> Starlette:
        from systems.twins.kit.control import control_routes

        routes = control_routes(self) + [
            Route(door.path, partial(self._serve, door), methods=[door.method])
            for door in self.doors
        ]
        strangers = {HTTPException: self._stranger}
        return Starlette(routes=routes, exception_handlers=strangers)  # type: ignore[arg-type]

    def _stranger(self, request: Request, problem: HTTPException) -> Response:
        """A path or a method that the upstream does not have."""
        asked = self.log.open(self.now(), "?", request.method)
        asked.status = problem.status_code
        return self._dated(self.refusal(problem.status_code))

    async def _serve(self, door: Door, request: Request) -> Response:
        asked = self.log.open(self.now(), door.name, request.method)
        call = Call(request, await request.body(), asked)
        fault = self.faults.take(door.name)
        asked.fault = fault.do if fault else None
        with self.log.under_way():
            if fault is None:
                reply = await self._effect(door, call)
            else:
                reply = await self._go_wrong(door, call, fault)
        asked.status = None if isinstance(reply, (Dropped, Never)) else reply.status_code
        return self._dated(reply)

    async def _effect(self, door: Door, call: Call) -> Response:
        try:
            found = door.answer(call)
            return await found if inspect.isawaitable(found) else found
        except Answer as answer:
            return answer.response

    async def _go_wrong(self, door: Door, call: Call, fault: Fault) -> Response:
        reply = await self._effect(door, call) if fault.effect else Response()
        match fault.do:
            case "drop_before" | "drop_after":
                return Dropped()
            case "never":
                return Never()
            case "status":
                return self._status(fault)
            case "delay":
                before = self._resets
                await asyncio.sleep(fault.seconds)
                if before != self._resets:
                    # What was asked before a reset leaves no trace after it.
                    return Dropped()
        if not fault.effect:
            reply = await self._effect(door, call)
        if fault.do == "malformed":
            return malformed(reply)
        if fault.do == "cut":
            return Cut(reply)
        return Slow(reply, fault.seconds) if fault.do == "slow_body" else reply

    def _status(self, fault: Fault) -> Response:
        if fault.body is None:
            reply = self.refusal(fault.status)
        elif isinstance(fault.body, str):
            reply = Response(fault.body, fault.status, media_type="text/html")
        else:
            reply = JSONResponse(fault.body, fault.status)
        for name, value in fault.headers.items():
            reply.headers[name] = value
        return reply

    def _dated(self, reply: Response) -> Response:
        # By the twin's own clock: clients compare it with Retry-After and with tokens.
        reply.headers.setdefault("date", as_http_date(self.now()))
        return reply
