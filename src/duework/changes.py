"""`app.changes()`: what changes, as it changes, for pages and programs that show it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import weakref
from dataclasses import dataclass
from functools import partial

from duework.clock import monotonic
from duework.durations import Duration, milliseconds
from duework.kernel.changes import Feed, Topics
from duework.kernel.engine import Engine
from duework.worker.wake.others import watch_others

# More than so many at once are told as one: look at everything.
MOST_TOPICS = 1000


@dataclass(frozen=True, slots=True)
class Change:
    """What has changed since the last one.

    `topics` are `jobs`, names of shapes and what was touched. None: another process has committed, and
    no more is known of it, so look again at all that is shown.
    """

    topics: frozenset[str] | None

    def about(self, *topics: str) -> bool:
        """Whether one of these may have changed."""
        return self.topics is None or not self.topics.isdisjoint(topics)


class _Pending:
    """What was told and not read yet; told from any thread, read in one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._topics: set[str] = set()
        self._all = self._rung = False
        self.ready = asyncio.Event()
        self.over = False

    def tell(self, topics: Topics) -> None:
        with self._lock:
            if topics is None or len(self._topics) > MOST_TOPICS:
                self._all = True
            else:
                self._topics |= topics
            self._ring()

    def end(self) -> None:
        with self._lock:
            self.over = True
            self._ring()

    def take(self) -> Change:
        with self._lock:
            topics = None if self._all else frozenset(self._topics)
            self._topics = set()
            self._all = self._rung = False
            self.ready.clear()
        return Change(topics)

    def _ring(self) -> None:
        """Wake the reader, once for all that comes before it reads."""
        if not self._rung:
            self._rung = True
            # A loop that has ended reads no more.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self.ready.set)


class ChangeStream:
    """Gives one `Change` after the other, for `async for`; it listens until it is closed or forgotten."""

    def __init__(self, feed: Feed, seconds: float) -> None:
        self._pending = _Pending()
        self._seconds = seconds
        self._next = 0.0
        number = feed.listen(self._pending.tell, self._pending.end)
        # Also if the loop that reads it is left by `break`, or cancelled.
        self._leave = weakref.finalize(self, feed.leave, number)

    def __aiter__(self) -> ChangeStream:
        return self

    async def __anext__(self) -> Change:
        pending = self._pending
        await pending.ready.wait()
        if (left := self._next - monotonic()) > 0 and not pending.over:
            await asyncio.sleep(left)
        if pending.over:
            raise StopAsyncIteration
        self._next = monotonic() + self._seconds
        return pending.take()

    async def aclose(self) -> None:
        """Listen no more; whoever waits for the next one gets none."""
        self._leave()
        self._pending.end()


def watch(engine: Engine, coalesce: Duration) -> ChangeStream:
    """What changes from now on: the first one at once, later ones not sooner after each other."""
    seconds = milliseconds(coalesce) / 1000
    engine.feed.watch_others = partial(watch_others, engine)
    return ChangeStream(engine.feed, seconds)
