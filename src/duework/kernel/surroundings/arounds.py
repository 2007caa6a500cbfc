"""Arounds: context managers that the user puts around each attempt, where its function runs.

They are entered in order, the first one outermost, in the function's own thread, loop or process. What
the function raises passes through all of them and stays the outcome, also if one of them swallows it.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

from duework.errors import UsageError


@dataclass(frozen=True, slots=True)
class AroundAttempt:
    """A function `(run) -> context manager`, and whether that is an async one."""

    # As it was given: a process of its own finds it by its module and name.
    given: Callable[..., Any]
    enter: Callable[[Any], Any]
    is_async: bool

    def __str__(self) -> str:
        return getattr(self.given, "__qualname__", repr(self.given))


def around(given: Any) -> AroundAttempt:
    """An around from what `@app.around` stands above; a generator function becomes a context manager."""
    if inspect.isasyncgenfunction(given):
        return AroundAttempt(given, asynccontextmanager(given), is_async=True)
    if inspect.isgeneratorfunction(given):
        return AroundAttempt(given, contextmanager(given), is_async=False)
    below = getattr(given, "__wrapped__", given)
    if inspect.isasyncgenfunction(below) or (
        hasattr(given, "__aenter__") and not hasattr(given, "__enter__")
    ):
        return AroundAttempt(given, given, is_async=True)
    if inspect.isgeneratorfunction(below) or hasattr(given, "__enter__"):
        return AroundAttempt(given, given, is_async=False)
    message = (
        f"around takes a function (run) with one yield, under @contextmanager or"
        f" @asynccontextmanager: not {given!r:.100}"
    )
    raise UsageError(message)


def check_around(name: str, *, is_async: bool, arounds: Sequence[AroundAttempt]) -> None:
    """A plain function has no event loop in which an async context manager could be entered."""
    for each in arounds:
        if each.is_async and not is_async:
            message = (
                f"{each} is an async context manager and wraps async tasks only, and {name} is a plain"
                f" function: write it with @contextmanager, or the task with async def"
            )
            raise UsageError(message)


def call_within(arounds: Sequence[AroundAttempt], run: Any, call: Callable[[], Any]) -> Any:
    """Call a plain function inside its arounds."""
    raised: BaseException | None = None
    with ExitStack[bool]() as stack:
        try:
            for each in arounds:
                stack.enter_context(each.enter(run))
            return call()
        except BaseException as error:
            raised = error
            raise
    # One of them has swallowed it, which makes no attempt done that was not.
    assert raised is not None, "it has returned otherwise"
    raise raised


async def acall_within(
    arounds: Sequence[AroundAttempt], run: Any, call: Callable[[], Awaitable[Any]]
) -> Any:
    """The same for an async function."""
    raised: BaseException | None = None
    async with AsyncExitStack[bool]() as stack:
        try:
            for each in arounds:
                if each.is_async:
                    await stack.enter_async_context(each.enter(run))
                else:
                    stack.enter_context(each.enter(run))
            return await call()
        except BaseException as error:
            raised = error
            raise
    assert raised is not None, "it has returned otherwise"
    raise raised
