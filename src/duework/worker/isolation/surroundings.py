"""What surrounds an attempt in a process of its own: context managers found by name, resources to close.

Modules and names come from the registry of the parent, never from stored data.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

from duework.errors import UsageError
from duework.kernel.surroundings.arounds import AroundAttempt, acall_within, around, call_within
from duework.kernel.surroundings.resources import Resources
from duework.worker.runner import RunningAttempt

Place = tuple[str, str]


def found(module: str, name: str) -> Any:
    """What a module has under a name, in a fresh process."""
    loaded = sys.modules.get("__mp_main__" if module == "__main__" else module)
    target: Any = loaded or importlib.import_module(module)
    for part in name.split("."):
        target = getattr(target, part)
    return target


def at_top(function: Any) -> Any:
    """What this process has where a fresh one would look for the function; None if nothing."""
    target: Any = sys.modules.get(function.__module__)
    for part in function.__qualname__.split("."):
        target = getattr(target, part, None)
    return target


def places(arounds: Sequence[AroundAttempt]) -> list[Place]:
    """Where a fresh process finds them; a clear error for one that it cannot find."""
    for each in arounds:
        if at_top(each.given) is not each.given:
            message = (
                f"{each} cannot go around a task with a process of its own: a fresh process must find it"
                f" as {each.given.__module__}.{each.given.__qualname__}, at the top of an importable module"
            )
            raise UsageError(message)
    return [(each.given.__module__, each.given.__qualname__) for each in arounds]


def call_surrounded(attempt: RunningAttempt, wanted: Sequence[Place], resources: Resources) -> Any:
    """Call the task's function inside what the parent has around it, and close what it opened."""
    task, run = attempt.task, attempt.run
    arounds = [around(found(*place)) for place in wanted]
    args = [run, *attempt.args] if task.takes_run else attempt.args
    call = partial(task.function, *args, **attempt.kwargs)
    if not task.is_async:
        try:
            return call_within(arounds, run, call)
        finally:
            resources.close()

    import asyncio

    async def acall() -> Any:
        resources.enter()
        try:
            return await acall_within(arounds, run, call)
        finally:
            await resources.leave()

    return asyncio.run(acall())
