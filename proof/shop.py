"""The real engine on one SQLite file, worked by hand in a single thread.

A `Shop` is an App in virtual time with tasks that write effects, enqueue what follows and fail at first.
A `Hand` does what a worker's event loop does, with the worker's own verbs (`Turns`, `Runner`, `Ledger`
and the group-commit writer), but one step after the other: so the n-th instruction, the n-th call of the
file system and the n-th write are the same in every run, and a fault can be put at each of them.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import socket
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, cast

from duework import App, Run
from duework.clock import FOREVER, VirtualClock
from duework.db.writer.requests import AttachedRequest, requested
from duework.kernel.claim import ClaimRequest
from duework.kernel.engine import EPOCH_BITS
from duework.kernel.job import Claimed, Ending
from duework.kernel.lanes import JOBS
from duework.kernel.machine import processes
from duework.kernel.machine.clock_watch import TakeoverPause
from duework.kernel.machine.processes import Process
from duework.worker.handoff.board import OfferBoard
from duework.worker.handoff.claims import Grabs
from duework.worker.handoff.offer import Offer
from duework.worker.host import WorkerHost
from duework.worker.rounds import Round, RoundResult, Rounds
from duework.worker.runner import Runner
from duework.worker.started import StartedJobs
from duework.worker.wake.doorbell import MESSAGE_LIMIT, Doorbell

START = 1_800_000_000_000
LEASE_MS = 15_000
LINKS = 2
EFFECT = "insert into effect (what, job, fence) values (:what, :job, :fence)"
# Long enough that a row does not fit on a page.
LONG = "x" * 6000

# What was acknowledged to whoever asked, in order: ("enqueued", label), ("settled", job, fence, kind).
Ack = Callable[..., None]


class Awake(TakeoverPause):
    """Time that is moved by hand is no process that stood still."""

    def ends_in(self) -> int:
        return 0


def silent(*_: Any) -> None:
    """Nobody is told."""


class Shop:
    """An App on one file, with tasks whose every effect can be counted."""

    def __init__(self, path: Path, *, durability: str = "power", now: int = START) -> None:
        self.path = path
        # Which boot of the machine its workers belong to.
        self.boot = "first"
        self.app = App(f"sqlite:///{path}", durability=durability)
        self.clock = VirtualClock(now)
        self.app.wiring.bound.clock = self.clock
        self._add_tasks()

    def _add_tasks(self) -> None:
        app = self.app

        @app.task(name="note", keep="1d")
        def note(run: Run, what: str, filler: str = "") -> str:
            """Leaves one row."""
            run.write(EFFECT, what=what, job=run.job.id, fence=run.job.fence)
            return what + filler

        @app.task(name="link")
        def link(run: Run, number: int, name: str = "link") -> int:
            """Leaves a row and the next of its kind."""
            run.write(EFFECT, what=f"{name} {number}", job=run.job.id, fence=run.job.fence)
            if number < LINKS:
                run.enqueue(link, number + 1, name)
            return number

        @app.task(name="flaky", retries=3, backoff=("1s",))
        def flaky(run: Run, what: str) -> None:
            """Leaves a row, but only in its second attempt."""
            run.write(EFFECT, what=what, job=run.job.id, fence=run.job.fence)
            if run.attempt == 1:
                raise ValueError("the first attempt fails")

        @link.settled
        def react(tx: Any, job: Any, _outcome: str) -> None:
            tx.write(EFFECT, what=f"reaction {job.id}", job=job.id, fence=0)

        self.note, self.link, self.flaky = note, link, flaky

    def again(self, path: Path, now: int) -> None:
        """The same tasks for another file, or for the next process on this one."""
        app = self.app
        self.path, self.clock = path, VirtualClock(now)
        bound = app.wiring.bound
        bound.url, bound.clock, bound.closed = f"sqlite:///{path}", self.clock, False
        app.wiring.parts.clear()

    def open(self) -> None:
        """Open and migrate; the table of effects is the user's own."""
        with self.app.transaction() as tx:
            tx.write("create table if not exists effect (what text, job integer, fence integer)")

    def hand(self) -> Hand:
        return Hand(self)

    def work(self, acked: Ack = silent) -> None:
        """Be a worker until nothing is left that time would bring."""
        hand = self.hand()
        hand.work(acked)
        hand.close()

    def close(self) -> None:
        self.app.close()

    # --- looking

    def rows(self) -> list[Any]:
        return self.app.read("select * from duework_job order by id")

    def effects(self) -> Counter[str]:
        """How often each effect is there."""
        return Counter(row.what for row in self.app.read("select what from effect"))

    def findings(self) -> list[str]:
        """What `duework verify --full` finds."""
        return [
            f"verify: {each.name}: {', '.join(each.sample)}"
            for each in self.app.admin.verify(full=True)
            if each.violations
        ]


class AtOnce:
    """An event loop of somebody who is at it already."""

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any) -> None:
        callback(*args)


class Door(NamedTuple):
    """Where other processes find a worker."""

    bell: Doorbell
    listener: socket.socket
    offer: Offer


class Hand:
    """A worker's turns, taken one after the other in the caller's thread."""

    def __init__(self, shop: Shop) -> None:
        engine = shop.app.wiring.engine
        self._shop = shop
        self._engine = engine
        self.id = secrets.randbits(62)
        hold = Awake(engine.clock, engine.clock_watch, LEASE_MS)
        process = processes.this_process(self.id, engine.clock.now())
        # Everything happens in one thread, sooner than a lease ends: nothing is extended.
        self._turns = Rounds(engine, process, hold, lambda _: None)
        host = WorkerHost(engine, self.id, lambda: None, lambda _job, _sign: None)
        self._runner = Runner(engine.registry, host, self.id, lambda: 0.5)
        self._ledger = StartedJobs(16)
        self._ledger.open(self.id)
        epoch = engine.database.epoch(shop.boot)
        assert epoch is not None, "a file"
        engine.floor = epoch << EPOCH_BITS
        # Told of every job and its fence before it starts.
        self.started: Callable[[int, int], None] = silent
        # How long a turn waits for the database, in seconds; None is for ever, as a worker does.
        self.patience: float | None = None
        # What has ended and is not settled yet: kept when a turn fails, as a worker does.
        self._endings: list[Ending] = []
        self._door: Door | None = None

    def turn(self, endings: Sequence[Ending] = (), *, claim: bool = True) -> RoundResult:
        """Settle what ended and claim what is due, in one transaction."""
        want = None
        dead: tuple[int, ...] = ()
        if claim:
            want = self._want()
            with self._engine.database.reading() as tx:
                workers = [Process(*row) for row in tx.query(JOBS.workers, {})]
            dead = tuple(
                each.id
                for each in workers
                if each.id != self.id and processes.verdict(each, near=True) in {"dead", "rebooted"}
            )
        turn = Round(list(endings), want, dead)
        writer = self._engine.writer
        return writer.call(
            self._turns.settle_and_claim, [turn], first=True, patience=self.patience
        )[0]

    def _want(self) -> ClaimRequest:
        return ClaimRequest(
            self.id,
            LEASE_MS,
            self._engine.registry.pools(),
            {"thread": 10},
            floor=self._engine.floor or 0,
        )

    def enqueue_beside(self, task: Any, *arguments: Any) -> list[Claimed]:
        """What the writer's thread does with an enqueue while a worker sleeps; what that claimed."""
        taken: list[Claimed] = []
        writer, enqueue = self._engine.writer, self._engine.enqueue_alone
        writer.attached.leave(self._attached(taken))
        new = task.as_job(arguments, {}, self._engine.clock.now())
        request = requested(enqueue, [new], self.patience)
        writer._commit_group([request])
        request.answer()
        return taken

    def enqueue_handed(self, task: Any, *arguments: Any) -> list[Claimed]:
        """What another process does with an enqueue while a worker rests; what that was handed."""
        assert self._turns.known, "else nobody would see it die"
        engine, door = self._engine, self._door or self._opened()
        door.offer.show(self._want())
        assert isinstance(engine.doorbell, Doorbell), "it is a file"
        # However long it is since it has looked for others.
        engine.doorbell._look_at = 0.0
        task.enqueue(*arguments)
        handed = door.offer.receive(door.listener.recv(MESSAGE_LIMIT))
        if handed is None:
            return []
        door.offer.answer([handed.number])
        return [handed.job]

    def _opened(self) -> Door:
        found = os.stat(self._shop.path)
        bell = Doorbell((found.st_dev, found.st_ino))
        listener, offer = bell.listen(self.id), OfferBoard(self._engine, bell).own(self.id)
        assert listener is not None, "there is a place for it"
        assert offer is not None, "the same"
        self._door = Door(bell, listener, offer)
        return self._door

    def _attached(self, taken: list[Claimed]) -> AttachedRequest:
        def answered(request: AttachedRequest) -> None:
            taken.extend(job for claim in request.value or () for job in claim.jobs)

        enqueue = self._engine.enqueue_alone
        return AttachedRequest(
            Grabs(self._engine, self._turns).grab,
            [self._want()],
            loop=cast("asyncio.AbstractEventLoop", AtOnce()),
            beside=lambda request: request.verb == enqueue,
            then=answered,
        )

    def attempt(self, job: Claimed) -> Ending:
        """Run one job, as a pool would, and say how it ended."""
        self.started(job.id, job.fence)
        now = self._engine.clock.now()
        attempt = self._runner.prepare(job, now=now, monotonic=monotonic())
        if isinstance(attempt, Ending):
            return attempt
        place = self._ledger.start(job.id)
        value, error = None, None
        try:
            value = attempt.task.function(attempt.run, *attempt.args, **attempt.kwargs)
        except Exception as raised:  # noqa: BLE001 - whatever a task raises is its outcome
            error = raised
        self._ledger.finish(place)
        return self._runner.conclude(attempt, value, error, now)

    def carry_on(self, jobs: Sequence[Claimed], acked: Ack) -> None:
        """Run what was claimed by the way, and settle it."""
        ended = [self.attempt(job) for job in jobs]
        _say_settled(ended, self.turn(ended, claim=False), acked)

    def work(self, acked: Ack = silent) -> None:
        """Until nothing is left; if a turn fails it raises, and may be called again."""
        for _ in range(1000):
            result = self.turn(self._endings)
            ended, self._endings = self._endings, []
            _say_settled(ended, result, acked)
            assert result.claim is not None, "asked for"
            self._endings = [self.attempt(job) for job in result.claim.jobs]
            if not self._endings and not result.recovered:
                if result.claim.next_due >= FOREVER:
                    return
                self._shop.clock.move_to(result.claim.next_due)
        raise AssertionError("the work never ends")

    def close(self) -> None:
        if self._door is not None:
            self._door.listener.close()
            self._door.offer.close()
            self._door.bell.close()
        self._engine.writer.call(self._turns.farewell, [Round([])], patience=None)
        self._ledger.close()


def _say_settled(ended: Sequence[Ending], result: RoundResult, acked: Ack) -> None:
    for ending, written in zip(ended, result.settled, strict=True):
        if written is not None:
            acked("settled", ending.id, ending.fence, written.kind)


@contextmanager
def folder() -> Iterator[Path]:
    """A place for files that need not outlive the machine, and for what workers leave beside them."""
    memory = Path("/dev/shm")  # noqa: S108 - its own folder in it is private
    base = memory if os.access(memory, os.W_OK) else None
    made = Path(tempfile.mkdtemp(prefix="duework-proof-", dir=base))
    before = os.environ.get("XDG_RUNTIME_DIR")
    os.environ["XDG_RUNTIME_DIR"] = str(made)
    try:
        yield made
    finally:
        if before is None:
            del os.environ["XDG_RUNTIME_DIR"]
        else:
            os.environ["XDG_RUNTIME_DIR"] = before
        shutil.rmtree(made, ignore_errors=True)


def copy_database(source: Path, target: Path) -> None:
    """Copy a closed database; remove what an earlier one left beside the target."""
    for rest in ("", "-wal", "-shm", "-journal"):
        Path(f"{target}{rest}").unlink(missing_ok=True)
    if source.exists():
        shutil.copyfile(source, target)
