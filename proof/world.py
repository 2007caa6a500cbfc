"""One simulated run: a seed decides the nodes, the work, the faults and the order of everything.

First there are faults, then none: the nodes are healed, and whatever is left must end by itself. Then the
history is checked.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from duework import App
from duework.db import limits
from duework.db.sqlite import database as sqlite
from duework.db.sqlite import tx as sqlite_tx
from duework.db.sqlite.inotify import Notices
from duework.db.writer import writer
from duework.errors import Error, Unavailable, Unknown, UsageError
from duework.health.verify import verify
from duework.kernel.checks import KERNEL_CHECKS
from duework.kernel.machine import processes
from duework.shapes import SHAPES
from duework.worker import attempts, host, lease_keeper, worker
from duework.worker.handoff import handoff
from duework.worker.wake import wakeups
from proof import tasks
from proof.check import check
from proof.history import History, Op, gather, record, total
from proof.loop import SimLoop, Stuck, whose
from proof.nodes import LEASE, Node, SimKeeper, SimWakeups, World

CHECKS = [*KERNEL_CHECKS, *(check for shape in SHAPES for check in shape.checks())]

HOUR = 3_600_000
YEAR = 365 * 24 * HOUR
# Virtual seconds: how long there are faults, and how long a healed world may take to finish.
FAULTS_FOR = 60.0
HEALED_WITHIN = 150.0
PATIENTLY = 1500.0
# In a virtual second: a world that turns and turns is not going to end either.
MOST_STEPS = 200


@dataclass
class Outcome:
    """What one seed gave."""

    seed: int
    violations: list[str] = field(default_factory=list)
    trace: str = ""
    seconds: float = 0.0
    steps: int = 0
    jobs: int = 0
    unfinished: int = 0
    claims: int = 0
    infos: int = 0
    lost: int = 0
    along: int = 0
    handed: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)


class Folder:
    """Files for many runs: a database that is migrated already, to copy from."""

    def __init__(self) -> None:
        memory = Path("/dev/shm")  # noqa: S108 - nothing of it has to last
        self.path = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
        template = self.path / "template.db"
        app = App(f"sqlite:///{template}", durability="process")
        tasks.set_up(app)
        record(app)
        app.close()
        self._template = template

    def fresh(self) -> str:
        for old in self.path.glob("run.db*"):
            old.unlink()
        shutil.copyfile(self._template, self.path / "run.db")
        return f"sqlite:///{self.path / 'run.db'}"

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


class _Drawn:
    """Stands in for `secrets` where a worker draws its number."""

    def __init__(self, rng: random.Random) -> None:
        self.randbits = rng.getrandbits


@contextlib.contextmanager
def simulated(loop: SimLoop, world: World, runtime: Path) -> Iterator[None]:
    """Clocks, chance, deaths and threads of this process are those of the simulation."""
    with contextlib.ExitStack() as stack:
        for module in (worker, attempts, lease_keeper, host, writer, sqlite, sqlite_tx, limits):
            stack.enter_context(mock.patch.object(module, "monotonic", loop.time))
        stack.enter_context(mock.patch.object(worker, "secrets", _Drawn(world.rng)))
        stack.enter_context(mock.patch.object(worker, "LeaseKeeper", SimKeeper))
        # Everybody shares one loop, in which somebody is always at work.
        stack.enter_context(mock.patch.object(handoff, "asleep", return_value=True))
        stack.enter_context(mock.patch.object(worker, "Wakeups", SimWakeups))
        stack.enter_context(mock.patch.object(wakeups, "TICK_SECONDS", 1.0))
        stack.enter_context(mock.patch.object(Notices, "of", return_value=None))
        stack.enter_context(mock.patch.object(processes, "verdict", world.verdict))
        stack.enter_context(mock.patch.dict(os.environ, {"XDG_RUNTIME_DIR": str(runtime)}))
        SimWakeups.deaths, SimWakeups.world = {}, world
        yield


class Run:
    """The run of one seed."""

    def __init__(self, seed: int, folder: Folder, within: float) -> None:
        self.seed = seed
        self.within = within
        self.rng = random.Random(seed * 2 + 1)
        self.loop = SimLoop(seed * 2)
        self.world = World(self.loop, self.rng, folder.fresh())
        self.ops: list[Op] = []
        self.notes: list[dict[str, Any]] = []
        self.balances: list[int] = []
        self.numbers = 0
        self.furthest = 0
        self.calm = self.rng.random() < 0.1
        self.quiet = False

    def note(self, line: dict[str, Any]) -> None:
        line.pop("pid", None)
        self.notes.append(line)
        self.world.say(f"{line['what']} {line['job']} {line['fence']} {whose.get()}")

    # --- the work

    async def client(self, node: Node, count: int) -> None:
        for _ in range(count):
            await asyncio.sleep(self.rng.expovariate(1.0))
            at_work = [other for other in self.world.nodes if other.alive and other.worker]
            if at_work and self.rng.random() < 0.5:
                # In the process of a worker, which may end with it.
                home = self.rng.choice(at_work)
                self.loop.create_task(self.enqueue(home), context=home.context)
            else:
                await self.enqueue(node)
            if self.rng.random() < 0.1:
                await self.cancel(node)

    async def enqueue(self, node: Node) -> None:
        self.numbers += 1
        name, arguments, options = tasks.draw(self.rng, self.numbers, LEASE / 1000)
        op = Op(self.numbers, key=options.get("key"))
        self.ops.append(op)
        call, unsure = node.tasks[name].using(**options), False
        while True:
            try:
                job = await call.aenqueue(*arguments)
            except Unknown:
                unsure = True
                # With a key that is good for ever it may simply be repeated.
                if "once" in options:
                    continue
            except (Unavailable, UsageError):
                # The second: its process is gone.
                op.kind = "info" if unsure else "fail"
            else:
                op.kind, op.job, op.existed = "ok", job.id, job.existed
            self.world.say(f"enqueue {op.n} {name} {op.kind} {op.job}")
            return

    async def cancel(self, node: Node) -> None:
        known = [op.job for op in self.ops if op.job is not None]
        if known:
            engine, job = node.app.wiring.engine, self.rng.choice(known)
            with contextlib.suppress(Error):
                [answer] = await engine.writer.acall(engine.cancel, [(job, "not wanted")])
                self.world.say(f"cancel {job} {answer}")

    # --- what goes wrong

    async def nemesis(self) -> None:
        while self.loop.time() < FAULTS_FOR and not self.quiet:
            await asyncio.sleep(self.rng.expovariate(1 / 6))
            victims = [node for node in self.world.nodes if node.alive and node.worker]
            if not victims or self.quiet:
                continue
            node = self.rng.choice(victims)
            kind = self.rng.choice(["crash", "crash", "pause", "pause", "cut", "step", "stop"])
            await getattr(self, f"_{kind}")(node)

    async def _crash(self, node: Node) -> None:
        node.crash()
        self.loop.call_later(self.rng.uniform(0, 10), self.restart, node)

    async def _pause(self, node: Node) -> None:
        self.world.fault("pause", node.mark)
        self.loop.hold(node.mark)
        self.loop.call_later(self.rng.uniform(0.1, 3 * LEASE / 1000), self._resume, node)

    def _resume(self, node: Node) -> None:
        if node.alive:
            self.world.say(f"resume {node.mark}")
            self.loop.release(node.mark)

    async def _cut(self, node: Node) -> None:
        self.world.fault("cut off", node.mark)
        node.cut = True
        self.loop.call_later(self.rng.uniform(0.1, 3 * LEASE / 1000), self._mend, node)

    def _mend(self, node: Node) -> None:
        self.world.say(f"mend {node.mark}")
        node.cut = False

    async def _step(self, node: Node) -> None:
        by = self.rng.choice([1, -1]) * self.rng.choice([1000, 30_000, HOUR, YEAR])
        self.world.fault("clock step", f"{node.mark} {by}")
        for each in self.world.nodes:
            if each is node or not self.world.many_hosts:
                each.clock.skew += by
                self.furthest = max(self.furthest, each.clock.skew)

    async def _stop(self, node: Node) -> None:
        self.world.fault("stop", node.mark)
        assert node.worker is not None, "it works"
        node.worker.stop()
        self.loop.call_later(self.rng.uniform(0, 10), self.restart, node)

    def restart(self, node: Node) -> None:
        if any(n.name == node.name and n.number > node.number for n in self.world.nodes):
            return
        fresh = Node(self.world, node.name, node.number + 1)
        # The same machine, the same clock.
        fresh.clock.skew = node.clock.skew
        fresh.open()
        fresh.start()
        self.world.say(f"start {fresh.mark}")

    # --- the whole

    async def main(self, observer: App) -> None:
        world, rng = self.world, self.rng
        world.many_hosts = rng.random() < 0.5
        if not self.calm:
            world.rate = rng.choice([0.0, 0.01, 0.05])
            world.lost_bells = rng.choice([0.0, 0.3])
        self.furthest = skew = 0 if self.calm else rng.randrange(-30_000, 30_000)
        clients = [Node(world, f"c{n}", 0, works=False) for n in range(rng.randrange(1, 3))]
        workers = [Node(world, f"n{n}", 0) for n in range(rng.randrange(1, 4))]
        for node in [*clients, *workers]:
            node.clock.skew = rng.randrange(-30_000, 30_000) if world.many_hosts else skew
            node.open()
            node.start()
        waits = [
            self.loop.create_task(self.client(node, rng.randrange(8, 16)), context=node.context)
            for node in clients
        ]
        trouble = None if self.calm else self.loop.create_task(self.nemesis())
        await asyncio.wait(waits)
        while trouble is not None and not trouble.done():
            await asyncio.sleep(1)
            self.balances.append(total(observer))
        self.heal()
        deadline = self.loop.time() + self.within
        last = self.loop.steps + MOST_STEPS * self.within
        while self.loop.time() < deadline and self.loop.steps < last and self._open(observer):
            await asyncio.sleep(2)
            self.balances.append(total(observer))

    def heal(self) -> None:
        """No more faults: everybody is back, and the store does what it is asked."""
        self.quiet = True
        self.world.rate = self.world.lost_bells = 0.0
        self.world.say("healed")
        for node in list(self.world.nodes):
            node.cut = False
            if not self.world.many_hosts:
                # What a clock that was a year ahead has put off is due in a year: be there.
                node.clock.skew = self.furthest
            if node.alive:
                self.loop.release(node.mark)
            elif node.worker is not None:
                self.restart(node)

    def _open(self, observer: App) -> int:
        rows = observer.read("select count(*) as n from duework_job where state = 'open'")
        return int(rows[0].n)

    def end(self) -> None:
        """Let go of everything, so that nothing of this run is left for the next."""
        for node in self.world.nodes:
            node.alive = False
        self.loop.release_all()
        left = asyncio.all_tasks(self.loop)
        for task in left:
            task.cancel()
        with contextlib.suppress(Stuck):
            for _ in range(50):
                if all(task.done() for task in left):
                    break
                self.loop.run_until_complete(asyncio.sleep(0.1))
        for node in self.world.nodes:
            node.app.close()
        self.loop.close()


def run(seed: int, folder: Folder, within: float = HEALED_WITHIN) -> Outcome:
    """Run one seed; the same seed gives the same trace, in any process."""
    random.seed(seed)
    this = Run(seed, folder, within)
    world = this.world
    observer = App(world.url, durability="process")
    with simulated(this.loop, world, folder.path), mock.patch.object(tasks, "note", this.note):
        asyncio.set_event_loop(this.loop)
        try:
            this.loop.run_until_complete(this.main(observer))
        except Stuck as error:
            world.say(str(error))
        history = _history(this, observer)
        outcome = _outcome(this, history, observer)
        this.end()
    observer.close()
    asyncio.set_event_loop(None)
    return outcome


def _history(this: Run, observer: App) -> History:
    history = gather(observer)
    history.ops, history.notes, history.balances = this.ops, this.notes, this.balances
    history.disturbed, history.lease = not this.calm, LEASE
    return history


def _outcome(this: Run, history: History, observer: App) -> Outcome:
    with observer.wiring.engine.database.reading() as tx:
        broken = [each for each in verify(tx, CHECKS) if each.violations]
    trace = hashlib.sha256()
    for line in this.world.log:
        trace.update(line.encode() + b"\n")
    for change in history.changes:
        trace.update(repr(tuple(change)).encode() + b"\n")
    return Outcome(
        this.seed,
        [*check(history), *(f"verify: {each.says}: {each.sample}" for each in broken)],
        trace.hexdigest()[:16],
        this.loop.time(),
        this.loop.steps,
        len(history.jobs),
        sum(1 for job in history.jobs.values() if job.state == "open"),
        sum(1 for change in history.changes if change.is_claim),
        sum(1 for op in this.ops if op.kind != "ok"),
        sum(1 for outcome, _ in history.attempts.values() if outcome not in {"retry", "failed"}),
        this.world.along,
        this.world.handed,
        this.world.faults,
        this.world.log,
    )
