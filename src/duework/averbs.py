"""The async twin of a verb, made from the verb: nothing is written twice.

The call runs in a thread, so the event loop goes on while the database answers. `enqueue` has a
quicker twin of its own, since the writer can answer an event loop directly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")


def averb(
    verb: Callable[Concatenate[S, P], R],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
    """The same verb for async code."""

    async def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(verb, self, *args, **kwargs)

    call.__name__ = f"a{verb.__name__}"
    call.__doc__ = f"`{verb.__name__}` for async code."
    return call
