"""Leases of async methods: one at a time per object, over all processes.

In a process callers stand in a line, first come first served; the first of it takes the lease in the
database, where the first of other processes' lines may be before it. A line that has had the object for
a while, and that others wait for, leaves a gap in which they see it free. A lease is extended by a thread,
which a blocked event loop cannot stop, and which lives only while there is one to extend or to wait for.
If the process dies the lease ends by itself. A change made under a lease that was lost is refused.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress

import msgspec

from duework.clock import SystemClock, VirtualClock, monotonic
from duework.db.database import Tx
from duework.errors import DatabaseError, Error, Unavailable
from duework.kernel.engine import Engine
from duework.kernel.machine.clock_watch import TakeoverPause
from duework.shapes.objects import store
from duework.shapes.objects.store import ObjectClaim

# How long until another process's lease is looked at again: without a lock, and without a write.
_FIRST_LOOK = 0.005
_SLOWEST_LOOK = 0.1
# How long a line goes on while others wait, and the gap that it leaves them then.
_SLICE = 0.25
_GAP = 1.5 * _SLOWEST_LOOK

Waiter = tuple[asyncio.AbstractEventLoop, "asyncio.Future[None]"]
Name = tuple[str, str]


class LeaseLine:
    """Those of this process who wait for one object."""

    __slots__ = ("left", "since", "waiters", "wanted")

    def __init__(self) -> None:
        self.waiters: deque[Waiter] = deque()
        # Since when it has had the object, about, and whether others want it.
        self.since = monotonic()
        self.wanted = False
        # When the last of it went.
        self.left = 0.0

    def owes(self) -> bool:
        """Whether it is over and others, who want the object, may not have seen it free yet."""
        return self.wanted and monotonic() - self.left < _GAP


class Leases:
    """Those of one process."""

    def __init__(self, engine: Engine, lease_ms: int) -> None:
        self._engine = engine
        # As it is stored; extended three times in as many real seconds as it is meant to last.
        self._lease_ms = int(lease_ms * engine.clock.speed)
        self._every = lease_ms / 3000
        self._lock = threading.Lock()
        self._lines: dict[Name, LeaseLine] = {}
        # Those that ended just now while others waited: one who calls again and again goes on with it.
        self._owing: dict[Name, LeaseLine] = {}
        self._held: dict[Name, ObjectClaim] = {}
        # Who beats does so in real time; virtual time goes by in leaps, which are no standstills.
        clock = SystemClock() if isinstance(engine.clock, VirtualClock) else engine.clock
        self._hold = TakeoverPause(clock, engine.clock_watch, self._lease_ms)
        self._lookers = 0
        self._ended = threading.Event()
        self._keeping = False

    def _take(self, tx: Tx, claims: list[ObjectClaim]) -> Sequence[bool]:
        now = self._engine.clock_watch.checked_now_within(tx)
        return store.take_leases(tx, self._dated(claims, now), self._over(now))

    def _extend(self, tx: Tx, claims: list[ObjectClaim]) -> Sequence[None]:
        store.extend_leases(
            tx, self._dated(claims, self._engine.clock_watch.checked_now_within(tx))
        )
        return [None for _ in claims]

    def _dated(self, claims: list[ObjectClaim], now: int) -> list[ObjectClaim]:
        return [msgspec.structs.replace(each, until=now + self._lease_ms) for each in claims]

    @contextmanager
    def _looking(self) -> Iterator[None]:
        """While somebody waits or holds an object, a standstill of this process is noticed."""
        with self._lock:
            if not (self._lookers or self._held):
                self._hold.begin()
            self._lookers += 1
        try:
            yield
        finally:
            with self._lock:
                self._lookers -= 1
                self._end_keeping()

    def _over(self, now: int) -> int:
        """Leases that end before this are over: after a step of the clock, or a standstill, none is."""
        return 0 if self._hold.ends_in() else now

    @staticmethod
    def _drop(tx: Tx, claims: list[ObjectClaim]) -> Sequence[bool]:
        return store.drop_leases(tx, claims)

    @asynccontextmanager
    async def held(self, claim: ObjectClaim, *, wait: bool) -> AsyncIterator[bool]:
        """Hold the object; with False if another process has it and nobody wants to `wait`."""
        kind, key = claim.kind, claim.key
        await self._enter((kind, key))
        try:
            await self._let_others((kind, key))
            if not await self._taken(claim, wait=wait):
                yield False
                return
            try:
                yield True
            finally:
                await self._dropped(claim)
        finally:
            self._leave((kind, key))

    async def _taken(self, claim: ObjectClaim, *, wait: bool) -> bool:
        with self._looking():
            if not await self._try(claim):
                if not wait:
                    return False
                await self._wait(claim)
            with self._lock:
                self._held[claim.kind, claim.key] = claim
                self._begin_keeping()
        return True

    async def _wait(self, claim: ObjectClaim) -> None:
        """Look until it is free, and take it."""
        with self._lock:
            # Not before: most who come need not wait, and a thread costs more than their call.
            self._begin_keeping()
        while True:
            delay = _FIRST_LOOK
            await asyncio.sleep(delay)
            while await asyncio.to_thread(self._busy, claim):
                delay = min(delay * 1.5, _SLOWEST_LOOK, self._every)
                await asyncio.sleep(delay)
            if await self._try(claim):
                return

    async def _try(self, claim: ObjectClaim) -> bool:
        try:
            return (await self._engine.writer.acall(self._take, [claim]))[0]
        except asyncio.CancelledError:
            # It may be taken all the same. What is asked for now is done after that.
            with suppress(Error):
                await asyncio.shield(self._engine.writer.acall(self._drop, [claim]))
            raise

    def _busy(self, claim: ObjectClaim) -> bool:
        try:
            with self._engine.database.reading() as tx:
                return store.leased(tx, claim, self._over(self._engine.clock_watch.checked_now()))
        except Unavailable:
            # To be found out by trying: the writer has more patience than a reader.
            return False

    async def _dropped(self, claim: ObjectClaim) -> None:
        with self._lock:
            del self._held[claim.kind, claim.key]
            self._end_keeping()
        # If it cannot be given back now, it ends by itself.
        with suppress(DatabaseError):
            [wanted] = await self._engine.writer.acall(self._drop, [claim])
            self._lines[claim.kind, claim.key].wanted |= wanted

    def _begin_keeping(self) -> None:
        """Somebody holds an object, or waits for one; the caller has the lock."""
        if not self._keeping:
            self._keeping = True
            self._ended.clear()
            threading.Thread(target=self._keep, name="duework-object-leases", daemon=True).start()

    def _end_keeping(self) -> None:
        """Unless somebody still does; the caller has the lock."""
        if not (self._held or self._lookers):
            self._ended.set()

    def _keep(self) -> None:
        """Extend all that is held, three times per lease, and be seen awake by those who wait.

        Their own looks may be further apart than a lease, in a busy event loop.
        """
        while True:
            self._ended.wait(self._every)
            self._hold.awake()
            with self._lock:
                claims = list(self._held.values())
                if not (claims or self._lookers):
                    self._keeping = False
                    return
                self._ended.clear()
            if claims:
                # A database that is away may be back before the lease has ended.
                with suppress(Error):
                    self._engine.writer.call(self._extend, claims, first=True)

    # --- the line of this process

    async def _let_others(self, name: Name) -> None:
        """It is our turn here; those of other processes may have waited for longer."""
        line = self._lines[name]
        if line.wanted and monotonic() - line.since > _SLICE:
            line.wanted = False
            await asyncio.sleep(_GAP)
            line.since = monotonic()

    async def _enter(self, name: Name) -> None:
        loop = asyncio.get_running_loop()
        mine: Waiter = (loop, loop.create_future())
        with self._lock:
            line = self._lines.get(name)
            if line is None:
                before = self._owing.pop(name, None)
                self._lines[name] = before if before is not None and before.owes() else LeaseLine()
                return
            line.waiters.append(mine)
        try:
            await mine[1]
        except asyncio.CancelledError:
            with self._lock:
                waiting = mine in line.waiters
                if waiting:
                    line.waiters.remove(mine)
            if not waiting:
                # It was our turn just now.
                self._leave(name)
            raise

    def _leave(self, name: Name) -> None:
        """Let in whoever is next, if their event loop is still there."""
        while True:
            with self._lock:
                line = self._lines[name]
                if not line.waiters:
                    del self._lines[name]
                    self._gone(name, line)
                    return
                loop, turn = line.waiters.popleft()
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_grant, turn)
                return

    def _gone(self, name: Name, line: LeaseLine) -> None:
        """A line is over; the caller has the lock."""
        if line.wanted:
            line.left = monotonic()
            self._owing = {other: each for other, each in self._owing.items() if each.owes()}
            self._owing[name] = line


def _grant(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)
