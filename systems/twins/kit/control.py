"""The control routes that every twin has beside the upstream's own, under `/_twin`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from systems.twins.kit.faults import BadPlan

if TYPE_CHECKING:
    from systems.twins.kit.app import Twin


def control_routes(twin: Twin) -> list[Route]:
    control = Control(twin)
    return [
        Route("/_twin", control.show, methods=["GET"]),
        Route("/_twin/faults", control.faults, methods=["GET"]),
        Route("/_twin/faults", control.set_faults, methods=["POST"]),
        Route("/_twin/ledger", control.ledger, methods=["GET"]),
        Route("/_twin/log", control.log, methods=["GET"]),
        Route("/_twin/reset", control.reset, methods=["POST"]),
        Route("/_twin/switch/{name}", control.switch, methods=["POST"]),
    ]


class Control:
    def __init__(self, twin: Twin) -> None:
        self._twin = twin

    async def show(self, request: Request) -> Response:
        return JSONResponse(describe(self._twin))

    async def faults(self, request: Request) -> Response:
        return JSONResponse([rule.as_json() for rule in self._twin.faults.rules])

    async def set_faults(self, request: Request) -> Response:
        """A list of rules, or `{"faults": […], "seed": 7}`; a bad plan leaves the old one."""
        try:
            sent = await request.json()
        except ValueError:
            return _bad("the body is no JSON")
        rules, seed = sent, None
        if isinstance(sent, dict):
            rules, seed = sent.get("faults"), sent.get("seed")
        if seed is not None and not isinstance(seed, int):
            return _bad(f"{seed!r} is no seed")
        try:
            self._twin.faults.set(rules, seed)
        except BadPlan as problem:
            return _bad(str(problem))
        return await self.faults(request)

    async def ledger(self, request: Request) -> Response:
        """All entries, or those of `?kind=`; `?by=key` counts them by one of their facts."""
        ledger, kind = self._twin.ledger, request.query_params.get("kind")
        if by := request.query_params.get("by"):
            return JSONResponse({str(k): n for k, n in ledger.counts(by, kind).items()})
        return JSONResponse(ledger.entries if kind is None else ledger.of(kind))

    async def log(self, request: Request) -> Response:
        route = request.query_params.get("route")
        entries = self._twin.log.entries if route is None else self._twin.log.of(route)
        return JSONResponse(
            {
                "calls": self._twin.log.calls,
                "peak": self._twin.log.peak,
                "limited": sum(asked.limit is not None for asked in entries),
                "over_limit": sum(asked.limit == "ignored" for asked in entries),
                "log": [asked.as_json() for asked in entries],
            }
        )

    async def reset(self, request: Request) -> Response:
        self._twin.reset()
        return JSONResponse({"reset": self._twin.name})

    async def switch(self, request: Request) -> Response:
        name = str(request.path_params["name"])
        try:
            sent = await request.json() if await request.body() else {}
            found = use(self._twin, name, sent)
        except ValueError as problem:
            return _bad(str(problem))
        return JSONResponse({"switched": name, "result": _plain(found)})


def use(twin: Twin, name: str, values: object) -> object:
    """Turn a switch; a name or values that it does not know are a ValueError and change nothing."""
    switch = twin.switches().get(name)
    if switch is None:
        raise ValueError(f"there is no switch {name!r}; there are {sorted(twin.switches())}")
    takes = f"{name}{_signature(switch)}"
    try:
        if not isinstance(values, dict):
            raise TypeError("the values are no object")
        return switch(**values)
    except (TypeError, ValueError) as problem:
        raise ValueError(f"{takes}: {problem}") from problem
    except (KeyError, StopIteration) as problem:
        raise ValueError(f"{takes}: there is no {problem}") from problem


def describe(twin: Twin) -> dict[str, Any]:
    """What people who build a client want to know about a twin."""
    return {
        "name": twin.name,
        "about": twin.about,
        "url": twin.url,
        "now": twin.now(),
        "samples": twin.samples(),
        "routes": sorted({door.name for door in twin.doors} | set(twin.other_routes())),
        "switches": {name: _signature(switch) for name, switch in twin.switches().items()},
        "delivered": len(twin.ledger.entries),
        "calls": twin.log.calls,
    }


def _signature(switch: Callable[..., object]) -> str:
    return str(inspect.signature(switch)).partition(" ->")[0].replace("'", "")


def _plain(found: object) -> object:
    return found if isinstance(found, (str, int, float, bool, list, dict)) else None


def _bad(problem: str) -> Response:
    return JSONResponse({"error": problem}, 400)
