"""Simulated nodes: the real engine and the real worker, in virtual time, on a store that fails.

Real are: every verb and every statement, the group commit and its retries (`Writer._attempt`), the
decision about a COMMIT whose answer was lost (`SqliteDatabase._after_failed_commit`), `Worker`, `Rounds`,
`Attempts`, `Runner`, what `LeaseKeeper` extends, the looks of `Wakeups` at `data_version`, `ClockWatch` and
`TakeoverPause`, the file of started jobs, and the SQLite below. Not real are: threads (the writer's and the
keeper's are coroutines here), sockets, the death of a process as the system reports it, PostgreSQL, and
anything inside one transaction: that is one step of the simulation.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw

from duework import App
from duework.clock import SystemClock
from duework.db.database import Retryable, Tx
from duework.db.sqlite.database import SqliteDatabase, SqliteTx
from duework.db.sqlite.url import parse
from duework.db.writer.attached import AttachedRequests
from duework.db.writer.requests import AttachedRequest, Request, requested
from duework.db.writer.writer import Writer, _backoff
from duework.errors import Unavailable, UsageError
from duework.ids import Ids
from duework.kernel.engine import AppSide, Engine
from duework.kernel.job import LaneName
from duework.kernel.machine.processes import Process
from duework.worker.handoff.board import OfferBoard
from duework.worker.handoff.offer import SUFFIX, ForeignOffer, Offer, Terms
from duework.worker.lease_keeper import LeaseKeeper
from duework.worker.wake.wakeups import Wakeups
from duework.worker.worker import Worker
from proof import tasks
from proof.loop import SimLoop, whose

EPOCH = 1_800_000_000_000
LEASE = 5_000


class World:
    """What the nodes share: time, chance, the file, and what is wrong with the store."""

    def __init__(self, loop: SimLoop, rng: random.Random, url: str) -> None:
        self.loop = loop
        self.rng = rng
        self.url = url
        # How often a transaction meets a fault, and how often a bell is not heard.
        self.rate = 0.0
        self.lost_bells = 0.0
        # Where there is a server, hosts follow its time; a file has one host and one clock.
        self.many_hosts = False
        self.nodes: list[Node] = []
        self.faults: dict[str, int] = {}
        # Claims that went along with an enqueue, in a worker's own process and by others for it.
        self.along = self.handed = 0
        # What workers offer to other nodes.
        self.offers: dict[int, ForeignOffer] = {}
        self.log: list[str] = []

    def say(self, what: str) -> None:
        self.log.append(f"{self.loop.time():.6f} {what}")

    def fault(self, kind: str, who: str) -> None:
        self.faults[kind] = self.faults.get(kind, 0) + 1
        self.say(f"{kind} {who}")

    def hit(self, chance: float) -> bool:
        return chance > 0 and self.rng.random() < chance

    def delay(self) -> float:
        """How long the store takes: mostly little, sometimes long."""
        if self.hit(self.rate / 2):
            return self.rng.uniform(0.5, 2 * LEASE / 1000)
        return self.rng.expovariate(200)

    def verdict(self, process: Process, *, near: bool = True) -> str:  # noqa: ARG002 - as the real one
        """What the current node can say about another process."""
        here = next((n for n in self.nodes if n.mark == whose.get()), None)
        other = next((n for n in self.nodes if n.worker and n.worker.id == process.id), None)
        if here is None or (self.many_hosts and (other is None or other.name != here.name)):
            return "elsewhere"
        return "alive" if other is not None and other.alive else "dead"


class SimClock(SystemClock):
    """A host's clock: off by a skew that a step may change."""

    def __init__(self, loop: SimLoop) -> None:
        super().__init__()
        self._loop = loop
        self.skew = 0

    def wall(self) -> int:
        return EPOCH + int(self._loop.time() * 1000) + self.skew

    def boot(self) -> int:
        return int(self._loop.time() * 1000)

    def monotonic(self) -> float:
        return self._loop.time()


class SimDatabase(SqliteDatabase):
    """SQLite whose transactions fail before and after their commit, and may be out of reach."""

    def __init__(self, world: World, node: Node) -> None:
        super().__init__(world.url, "process")
        self._world, self._node = world, node
        # Whether the next connection for a write is not to be had.
        self._lost = False

    def now(self) -> int | None:
        return EPOCH + int(self._world.loop.time() * 1000) if self._world.many_hosts else None

    def begin(self) -> Tx:
        if self._node.cut:
            raise Retryable("cut off")
        if self._world.hit(self._world.rate):
            self._world.fault("refused", self._node.mark)
            raise Retryable("the database is locked by another connection")
        return super().begin()

    def commit(self, tx: Tx) -> None:
        if self._world.hit(self._world.rate):
            kind = self._world.rng.choice(["before", "after", "before?", "after?"])
            self._world.fault(f"commit failed {kind}", self._node.mark)
            # With a question mark nobody can find out what happened.
            self._lost = kind.endswith("?")
            assert isinstance(tx, SqliteTx), "a file's"
            faulty: Any = Faulty(tx.connection, happens=kind.startswith("after"))
            tx.connection = faulty
        super().commit(tx)

    def _write_connection(self) -> Any:
        if self._lost:
            self._lost = False
            raise Retryable("it cannot be reached")
        return super()._write_connection()

    @contextlib.contextmanager
    def reading(self) -> Iterator[Tx]:
        if self._node.cut:
            raise Unavailable("cut off")
        with super().reading() as tx:
            yield tx


class Faulty:
    """A connection whose COMMIT fails, whether or not it has happened."""

    def __init__(self, real: apsw.Connection, *, happens: bool) -> None:
        self._real, self._happens = real, happens

    def execute(self, sql: str, *values: Any) -> Any:
        if sql == "commit":
            if self._happens:
                self._real.execute(sql)
            raise apsw.IOError("a fault of the simulation")
        return self._real.execute(sql, *values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class SimErrands(AttachedRequests):
    """Counts what went along."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def begin(self) -> list[AttachedRequest]:
        found = super().begin()
        self._world.along += len(found)
        return found


class SimWriter(Writer):
    """The writer with a coroutine for its thread; groups, retries and answers are its own."""

    def __init__(self, database: SimDatabase, world: World, node: Node) -> None:
        super().__init__(database)
        self.attached = SimErrands(world)
        self._world, self._node = world, node
        self._serving = False

    def _check(self) -> None:
        if not self._node.alive:
            raise UsageError("its process is gone")
        super()._check()

    def _submit(self, request: Request, *, first: bool) -> None:
        if first:
            self._waiting.appendleft(request)
        else:
            self._waiting.append(request)
        if not self._serving:
            self._serving = True
            asyncio.get_running_loop().create_task(self._aserve())

    async def _aserve(self) -> None:
        while self._waiting:
            await asyncio.sleep(self._world.delay())
            group, tries = self._take(), 0
            self.attached.choose(group)
            while group and not self._attempt(group):
                self._answer([each for each in group if each.error is not None])
                group = [each for each in group if each.error is None]
                self._answer(self._overdue())
                tries += 1
                await asyncio.sleep(_backoff(tries))
            # It has happened, and nobody knows yet.
            await asyncio.sleep(self._world.delay())
            self._answer(group)
        self._serving = False

    def call_within(self, verb: Any, items: list[Any], seconds: float) -> Sequence[Any]:
        self._check()
        request = requested(verb, items, seconds, essential=True)
        if self._world.hit(self._world.rate):
            self._world.fault("extension late", self._node.mark)
            loop = asyncio.get_running_loop()
            loop.call_later(self._world.delay(), self._attempt, [request])
            raise Unavailable("not within the time")
        if not self._attempt([request]):
            raise Unavailable("cut off")
        results: Sequence[Any] = request.answer()
        return results


class SimKeeper(LeaseKeeper):
    """The keeper with a coroutine for its thread."""

    def start(self) -> None:
        asyncio.get_running_loop().create_task(self._aserve())

    def stop(self) -> None:
        self._stop.set()

    async def _aserve(self) -> None:
        loop = asyncio.get_running_loop()
        self._last_success = loop.time()
        self._next_extend = loop.time() + self._every
        while not self._stop.is_set():
            await asyncio.sleep(min(0.25, self._every / 2))
            self._extend_if_due()


class SimBell:
    """Rings the other nodes after a while, and hands jobs over to them, unless that is lost."""

    def __init__(self, world: World, node: Node) -> None:
        self._world, self._node = world, node

    def ring(self) -> None:
        for node in self._world.nodes:
            if node is not self._node and node.alive and node.worker is not None:
                if self._world.hit(self._world.lost_bells):
                    continue
                delay = self._world.rng.expovariate(500)
                self._world.loop.call_later(delay, node.worker.ring, context=node.context)

    def listen(self, _: int) -> None:
        return None

    def leave(self, _: int) -> None:
        """There is nothing to leave."""

    def take_down(self, worker: int) -> None:
        if (seen := self._world.offers.pop(worker, None)) is not None:
            seen.take_down()

    def close(self) -> None:
        """There is nothing to close."""


class SimOffers(OfferBoard):
    """What workers offer to the other nodes of one host."""

    def __init__(self, engine: Engine, world: World) -> None:
        self._engine = engine
        self._world = world

    def own(self, worker: int) -> Offer:
        path = Path(f"{parse(self._world.url)[0]}-{worker:x}{SUFFIX}")
        made = Offer(path)
        self._world.offers[worker] = ForeignOffer(str(path))
        return made

    def offered(self, lane: LaneName) -> tuple[ForeignOffer, int, Terms] | None:
        if self._world.many_hosts:
            return None
        for seen in self._world.offers.values():
            if (found := seen.offered(lane)) is not None:
                return seen, *found
        return None

    def deliver(self, taken: ForeignOffer, message: bytes) -> None:
        for node in self._world.nodes:
            worker = node.worker
            if worker is None or self._world.offers.get(worker.id) is not taken:
                continue
            if not node.alive or self._world.hit(self._world.lost_bells):
                # Also as if this node had ended right after its commit.
                self._world.say(f"nothing handed over to {node.mark}")
                return
            self._world.handed += 1
            delay = self._world.rng.expovariate(500)
            handed = worker._resting.handed
            self._world.loop.call_later(delay, handed, message, context=node.context)


class SimWakeups(Wakeups):
    """Is told of deaths by the simulation."""

    deaths: dict[int, list[tuple[Node | None, Callable[[int], None]]]]
    world: World

    def watch(self, process: Process) -> None:
        if process.id not in self._watched and self.world.verdict(process) == "alive":
            self._watched[process.id] = None
            node = next((n for n in self.world.nodes if n.mark == whose.get()), None)
            self.deaths.setdefault(process.id, []).append((node, self._died))


class Node:
    """One process: an App, and a worker if it works. A restart is a new one of the same name."""

    def __init__(self, world: World, name: str, number: int, *, works: bool = True) -> None:
        self.world, self.name, self.number = world, name, number
        self.mark = f"{name}.{number}"
        self.alive = True
        self.cut = False
        self.clock = SimClock(world.loop)
        self.worker: Worker | None = None
        self._works = works
        self.context = contextvars.copy_context()
        self.context.run(whose.set, self.mark)
        self.app = App(world.url, lease=f"{LEASE}ms", grace="2s", concurrency=4)
        self.tasks = tasks.define(self.app)
        self.main: asyncio.Task[None] | None = None
        world.nodes.append(self)

    def start(self) -> None:
        coroutine = self._run()
        self.main = self.world.loop.create_task(coroutine, name=self.mark, context=self.context)

    def open(self) -> None:
        """Open the database by way of the simulated store."""
        app, world = self.app, self.world
        database = SimDatabase(world, self)
        app.wiring.bound.clock = self.clock
        side = AppSide(app.wiring.react, app.wiring.hooks)
        engine = app.wiring.bound.engine = Engine(database, app.wiring.registry, self.clock, side)
        engine.writer = SimWriter(database, world, self)
        engine.clock_watch.elsewhere = lambda ask: ask()
        engine.clock_watch.begin()
        # Its workers claim as those of one machine do.
        engine.floor = None if world.many_hosts else 0
        engine.ids = Ids(self.clock.now, world.rng.randrange)
        engine.chance = world.rng.random
        engine.doorbell = SimBell(world, self)
        engine.offers = SimOffers(engine, world)

    async def _run(self) -> None:
        if self._works:
            self.worker = Worker(self.app.wiring.engine, self.app.limits)
            await self.worker.run()
            self.world.say(f"stopped {self.mark}")
            self.alive = False

    def crash(self) -> None:
        """Nothing of it will run any more; its memory is as good as gone."""
        self.world.fault("crash", self.mark)
        self.world.loop.hold(self.mark)
        self.alive = False
        # The system closes what a killed process had open.
        self.app.wiring.engine.database._drop_connections()  # type: ignore[attr-defined]
        self._tell_of_death()

    def _tell_of_death(self) -> None:
        if self.worker is None:
            return
        for node, told in SimWakeups.deaths.pop(self.worker.id, []):
            if node is not None and node.alive:
                delay = self.world.rng.expovariate(20)
                self.world.loop.call_later(delay, told, self.worker.id, context=node.context)
