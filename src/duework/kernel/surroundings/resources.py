"""Resources: what attempts share and is too dear to make for each of them, such as clients and pools.

An async one is opened once for each event loop, by a task of its own that closes it, too: what is
entered in one asyncio task cannot be left in another. A plain one is opened once for each process. An
opening that fails leaves nothing behind, and the next attempt that asks opens anew.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Generic, TypeVar

from duework.errors import UsageError

T = TypeVar("T")
logger = logging.getLogger("duework")

# How long the end of a worker waits for a resource that is being closed.
CLOSE_SECONDS = 5.0


class Resource(Generic[T]):
    """A generator function with one `yield`: `run.resource(pool)` gives what it yields."""

    def __init__(self, function: Callable[[], Iterator[T]]) -> None:
        self.function = function
        self.name = function.__qualname__
        self.__doc__ = function.__doc__

    def __call__(self) -> Iterator[T]:
        return self.function()

    def __repr__(self) -> str:
        return f"<resource {self.name}>"


class AsyncResource(Generic[T]):
    """The same from an async generator function: `await run.resource(github)`."""

    def __init__(self, function: Callable[[], AsyncIterator[T]]) -> None:
        self.function = function
        self.name = function.__qualname__
        self.__doc__ = function.__doc__

    def __call__(self) -> AsyncIterator[T]:
        return self.function()

    def __repr__(self) -> str:
        return f"<async resource {self.name}>"


def declared(function: Any) -> Any:
    """A resource from what `@app.resource` stands above."""
    if not (inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)):
        message = (
            f"a resource is a function with one yield, async or not, without @contextmanager:"
            f" not {function!r:.100}"
        )
        raise UsageError(message)
    if inspect.signature(function).parameters:
        raise UsageError(f"a resource takes no arguments: {function.__qualname__} does")
    return (AsyncResource if inspect.isasyncgenfunction(function) else Resource)(function)


class _Opening:
    """An async resource in one loop, from its opening to its closing."""

    def __init__(self, resource: AsyncResource[Any], failed: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        self.resource = resource
        self.waiting = 0
        self._failed = failed
        self._opened: asyncio.Future[Any] = loop.create_future()
        self._close = asyncio.Event()
        # In a context of its own: it is shared by attempts that know nothing of each other.
        self._life = loop.create_task(
            self._live(), name=f"duework-{resource.name}", context=contextvars.Context()
        )

    async def _live(self) -> None:
        generator = self.resource.function()
        try:
            self._opened.set_result(await anext(generator))
        except StopAsyncIteration:
            self._fail(UsageError(f"{self.resource!r} has yielded nothing"))
        except asyncio.CancelledError:
            self._failed()
            self._opened.cancel()
        except Exception as error:  # noqa: BLE001 - for the attempts that wait for it
            self._fail(error)
        else:
            try:
                await self._close.wait()
            finally:
                await _end(generator, self.resource)

    def _fail(self, error: Exception) -> None:
        self._failed()
        if self.waiting:
            self._opened.set_exception(error)

    async def value(self) -> Any:
        """What it yields; an opening that no attempt waits for any more is stopped."""
        self.waiting += 1
        try:
            return await asyncio.shield(self._opened)
        finally:
            self.waiting -= 1
            if not self.waiting and not self._opened.done():
                self._failed()
                self._life.cancel()

    async def close(self) -> None:
        self._close.set()
        if not self._opened.done():
            self._life.cancel()
        _, late = await asyncio.wait([self._life], timeout=CLOSE_SECONDS)
        if late:
            logger.error("%r was not closed in %g s", self.resource, CLOSE_SECONDS)
            self._life.cancel()
        elif not self._life.cancelled() and (error := self._life.exception()) is not None:
            logger.error("%r could not be closed", self.resource, exc_info=error)


async def _end(generator: AsyncIterator[Any], resource: AsyncResource[Any]) -> None:
    async for _ in generator:
        raise UsageError(f"{resource!r} yields more than once")


class Resources:
    """What is open in one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: dict[Resource[Any], threading.Lock] = {}
        self._plain: dict[Resource[Any], tuple[Iterator[Any], Any]] = {}
        self._loops: dict[asyncio.AbstractEventLoop, dict[AsyncResource[Any], _Opening]] = {}
        # How many workers there are in each loop: with the last one, what is open there is closed.
        self._workers: dict[asyncio.AbstractEventLoop, int] = {}

    def get(self, resource: Any) -> Any:
        """The value of a plain resource; of an async one, something to await."""
        if isinstance(resource, AsyncResource):
            return self._in_loop(resource)
        if not isinstance(resource, Resource):
            raise UsageError(
                f"run.resource takes what @app.resource has made: not {resource!r:.100}"
            )
        with self._lock:
            lock = self._locks.setdefault(resource, threading.Lock())
        with lock:
            if (known := self._plain.get(resource)) is None:
                known = self._plain[resource] = _opened(resource)
        return known[1]

    def _in_loop(self, resource: AsyncResource[Any]) -> Any:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            message = (
                f"{resource!r} lives in an event loop, and this task is a plain function: write the"
                f" task with async def, or the resource with def"
            )
            raise UsageError(message) from None
        return self._value(resource, self._loops.setdefault(loop, {}))

    async def _value(
        self, resource: AsyncResource[Any], opened: dict[AsyncResource[Any], _Opening]
    ) -> Any:
        if (found := opened.get(resource)) is None:

            def failed() -> None:
                if opened.get(resource) is found:
                    del opened[resource]

            found = opened[resource] = _Opening(resource, failed)
        return await found.value()

    def enter(self) -> None:
        """A worker begins in this loop."""
        loop = asyncio.get_running_loop()
        self._workers[loop] = self._workers.get(loop, 0) + 1

    async def leave(self) -> None:
        """A worker ends in this loop; the last one closes what is open, the newest first."""
        loop = asyncio.get_running_loop()
        self._workers[loop] = self._workers.get(loop, 1) - 1
        if self._workers[loop] > 0:
            return
        del self._workers[loop]
        for opening in reversed(self._loops.pop(loop, {}).values()):
            await opening.close()
        if not self._workers:
            self.close()

    def close(self) -> None:
        """Close the plain ones."""
        while self._plain:
            resource, (generator, _) = self._plain.popitem()
            try:
                for _ in generator:
                    raise UsageError(f"{resource!r} yields more than once")
            except Exception:
                logger.exception("%r could not be closed", resource)


def _opened(resource: Resource[Any]) -> tuple[Iterator[Any], Any]:
    generator = resource.function()
    for value in generator:
        return generator, value
    raise UsageError(f"{resource!r} has yielded nothing")
