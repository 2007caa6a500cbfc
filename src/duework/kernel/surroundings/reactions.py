"""Functions of the user's that run inside a transaction: what they may be, checked when they are given.

A transaction cannot wait, so they are plain functions. A coroutine or a generator would be a reaction
that never happens.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from duework.errors import UsageError


def reaction(where: str, function: Callable[..., Any], takes: str) -> Callable[..., Any]:
    """The function as it is to be called; a `UsageError` if it cannot be."""
    if not callable(function):
        raise UsageError(f"{where} takes a function, not {function!r}")
    _refuse_unrun(where, function)
    _refuse_signature(where, function, takes)

    def call(*args: Any) -> Any:
        value = function(*args)
        if inspect.isawaitable(value) or inspect.isgenerator(value) or inspect.isasyncgen(value):
            _drop(value)
            raise UsageError(_unrun(where, function, f"gave back {type(value).__name__}"))
        return value

    return call


def _refuse_unrun(where: str, function: Callable[..., Any]) -> None:
    inner = _inner(function)
    if inspect.iscoroutinefunction(inner):
        raise UsageError(_unrun(where, function, "is `async def`"))
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise UsageError(_unrun(where, function, "has a `yield`"))


def _inner(function: Any) -> Any:
    """What a partial or an object with `__call__` really calls."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isroutine(function) or inspect.isclass(function):
        return function
    return type(function).__call__


def _unrun(where: str, function: Any, why: str) -> str:
    return (
        f"{where}: {_name(function)} {why} and would never be run; it is called inside the settle's"
        " transaction, which cannot wait: make it a plain `def`, and let it tx.enqueue(…) a task"
        " for what takes time"
    )


def _refuse_signature(where: str, function: Callable[..., Any], takes: str) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        # Written in C, perhaps: it is called as it is.
        return
    try:
        signature.bind(*takes.split(", "))
    except TypeError as error:
        message = f"{where}: {_name(function)} is called with ({takes}): {error}"
        raise UsageError(message) from None


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", None) or repr(function)


def _drop(value: Any) -> None:
    """Without the warning that it was never awaited."""
    if inspect.iscoroutine(value):
        value.close()
