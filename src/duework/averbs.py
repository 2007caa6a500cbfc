"""Verbs and their async forms, made from one definition: nothing is written twice.

What can be done with one subject (jobs, batches, schedules and so on) stands in one class, of which each App
has one instance. `App` lists those that are its own: `batches, abatches = verb(Batches, Batches.search)`.

An async form runs in a thread, so the event loop goes on while the database answers. `enqueue` has a
quicker one of its own, since the writer can answer an event loop directly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from types import MethodType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

if TYPE_CHECKING:
    from duework.kernel.engine import Engine
    from duework.kernel.tasks import Registry
    from duework.wiring import Wiring

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")
V = TypeVar("V", bound="Verbs")
M = TypeVar("M")


def averb(
    verb: Callable[Concatenate[S, P], R],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
    """The same verb for async code."""

    @wraps(verb)
    async def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(verb, self, *args, **kwargs)

    call.__name__ = f"a{verb.__name__}"
    call.__doc__ = f"`{verb.__name__}` for async code."
    return call


class Verbs:
    """What can be done with one subject on one App; what users hold of it refers to this."""

    def __init__(self, wiring: Wiring) -> None:
        self.wiring = wiring

    @property
    def engine(self) -> Engine:
        return self.wiring.engine

    @property
    def registry(self) -> Registry:
        return self.wiring.registry

    def now(self) -> int:
        return self.wiring.now()


class Verb(Generic[M]):
    """A row of App's table of verbs: on an App it is the method of the App's own instance."""

    def __init__(self, of: type[Verbs], function: Callable[..., Any]) -> None:
        self._of = of
        self._function = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, app: None, owner: type) -> Self: ...

    @overload
    def __get__(self, app: object, owner: type) -> M: ...

    def __get__(self, app: Any, owner: type) -> Any:
        if app is None:
            return self
        return MethodType(self._function, app.wiring.find(self._of))


def verb(
    of: type[V], function: Callable[Concatenate[V, P], R]
) -> tuple[Verb[Callable[P, R]], Verb[Callable[P, Coroutine[Any, Any, R]]]]:
    """A verb of a subject and its async form, for the table of App."""
    return Verb(of, function), Verb(of, averb(function))


def annotated_verb(of: type[Verbs], function: Callable[..., Any]) -> tuple[Any, Any]:
    """The same for a verb whose arguments depend on each other: its row is annotated with its type."""
    return Verb(of, function), Verb(of, averb(function))
