"""Write transactions that code of the user's is inside of: which would wait for itself, and which is next.

Two ways lead to a wait without end. Code that is inside a transaction asks for another write: its context
knows. And a task of an event loop waits, without letting the loop go on, for a transaction that another task
of the same thread has open: the thread knows. Both are refused at once.

Blocks of async code take turns, one in each loop. On SQLite there is one at a time anyhow; on PostgreSQL a
statement of one could else wait, with the whole loop, for a row that another one has locked. Each loop has a
thread for its turns, in which they wait for the lock and for the disk, in order: what was begun for a task
that was cancelled is undone there before anything else begins.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import TypeVar

from duework.errors import Unavailable, UsageError

T = TypeVar("T")

# How long a block waits for the lock, or for its turn.
BLOCK_SECONDS = 5.0
SECOND = (
    "a transaction of this database is open already, here or in another task of this thread, and a second"
    " one would wait for it in vain: use its `tx`, or in async code `async with app.transaction()`, which"
    " waits for its turn"
)
BESIDE = (
    "another task of this thread has a transaction open, and this write would wait for it in vain:"
    " in async code use `await task.aenqueue(…)`, or the async verb of the same name"
)


class Hold:
    """A write transaction, for the code inside of it. Tasks that it starts inherit it, and may outlive it."""

    __slots__ = ("open", "outer", "thread", "url")

    def __init__(self, url: str, outer: Hold | None = None) -> None:
        self.url = url
        self.outer = outer
        self.thread = threading.get_ident()
        self.open = True

    def on(self, url: str | None = None) -> bool:
        """Whether code in here is inside a transaction, of this database or of any."""
        mine = self.open and url in {None, self.url}
        return mine or (self.outer is not None and self.outer.on(url))


# What this thread or task is inside of: `app.transaction()`, or a verb.
holding: ContextVar[Hold | None] = ContextVar("duework_holding", default=None)
# The blocks of `app.transaction()` that are open in this process.
_blocks: set[Hold] = set()


def inside(url: str | None = None) -> bool:
    """Whether the caller is inside a transaction, of this database or of any."""
    hold = holding.get()
    return hold is not None and hold.on(url)


def beside(url: str) -> bool:
    """Whether a block of this thread is open, in whatever task."""
    if not _blocks:
        return False
    here = threading.get_ident()
    return any(hold.thread == here and hold.on(url) for hold in _blocks.copy())


@contextlib.contextmanager
def inside_transaction(url: str = "") -> Iterator[Hold]:
    """Inside of this block, so; as it was afterwards, wherever a signal's handler raises."""
    before = holding.get()
    hold = Hold(url, before)
    try:
        holding.set(hold)
        yield hold
    finally:
        hold.open = False
        holding.set(before)


@contextlib.contextmanager
def block(url: str) -> Iterator[None]:
    """The same for a block of the user's, which the thread knows of as well."""
    with inside_transaction(url) as hold:
        try:
            _blocks.add(hold)
            yield
        finally:
            # One step: a signal's handler may raise before it has done anything, or afterwards.
            _blocks.discard(hold)


def refuse_second(url: str) -> None:
    """A block that would wait for one which cannot end before it is an error."""
    if inside(url) or beside(url):
        raise UsageError(SECOND)


class Turn:
    """Whose turn it is among the blocks of one event loop; there while a block has it or waits for it."""

    def __init__(self) -> None:
        self.wanted = 0
        self._next = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="duework-block")

    async def take(self) -> None:
        """Wait until those that came before are over."""
        try:
            async with asyncio.timeout(BLOCK_SECONDS):
                await self._next.acquire()
        except TimeoutError:
            message = (
                f"another `async with app.transaction()` has been open for {BLOCK_SECONDS:g} s"
            )
            raise Unavailable(message) from None

    def pass_on(self) -> None:
        self._next.release()

    def close(self) -> None:
        self._thread.shutdown(wait=False)

    async def run(self, work: Callable[[], T]) -> T:
        """In the turn's thread, and to its end, also if the task is cancelled meanwhile."""
        return await asyncio.shield(asyncio.wrap_future(self._thread.submit(work)))

    def leave(self, work: Callable[[], object]) -> None:
        """The same for something that is not waited for."""
        self._thread.submit(work)


_turns: dict[tuple[asyncio.AbstractEventLoop, str], Turn] = {}


@contextlib.asynccontextmanager
async def turn(url: str) -> AsyncIterator[Turn]:
    """The caller's turn among the blocks of this loop."""
    if inside(url):
        raise UsageError(SECOND)
    place = asyncio.get_running_loop(), url
    mine = _turns.get(place) or _turns.setdefault(place, Turn())
    mine.wanted += 1
    try:
        await mine.take()
        try:
            yield mine
        finally:
            mine.pass_on()
    finally:
        mine.wanted -= 1
        if not mine.wanted:
            # Only this loop's thread comes here for this loop.
            del _turns[place]
            mine.close()
