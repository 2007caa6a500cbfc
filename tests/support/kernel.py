"""The kernel's verbs for tests: one transaction each, time and ids given, rows to look at.

k = Kernel(url)
[job] = k.enqueue(k.new("greet"))
[held] = k.claim("greet")
k.settle(k.done(held))
assert k.row(job.id).state == "done"
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import msgspec

from duework.db import migrate
from duework.db.database import Tx
from duework.db.urls import open_database
from duework.db.writer.writer import Writer
from duework.kernel import claim as claims
from duework.kernel import enqueue, operate, pruning, settle
from duework.kernel import recover as recovery
from duework.kernel.batches import verbs as batches
from duework.kernel.batches.counters import Tally
from duework.kernel.batches.new import Follow, NewBatch
from duework.kernel.claim import ClaimRequest
from duework.kernel.counters import SettleContext
from duework.kernel.job import (
    Claimed,
    Ending,
    Enqueued,
    Kind,
    LaneName,
    LockedJob,
    NewJob,
)
from duework.kernel.lanes import Lanes
from duework.kernel.paces.admission import PaceRules
from duework.shapes import SHAPES
from duework.testing import Counter

START = 1_800_000_000_000
ME, OTHER = 101, 202
LEASE = 15_000


@dataclass
class Event:
    """A reaction that ran inside a settle."""

    job: int
    kind: Kind


def schema_steps(kind: str) -> list[migrate.Migrations]:
    """The migrations of the kernel and of the shapes that every App has."""
    return [migrate.kernel_steps(kind), *filter(None, (each.schema(kind) for each in SHAPES))]


class Kernel:
    """Verbs bound to one database; each call is a transaction of its own."""

    def __init__(self, url: str) -> None:
        # Nothing here has to survive a power cut.
        self.database = open_database(url, "process")
        migrate.migrate(self.database, schema_steps(self.database.kind))
        self.writer = Writer(self.database)
        self.lanes = Lanes()
        self.ids = Counter()
        self.now = START
        self.reacted: list[Event] = []
        self.on_react: Callable[[Tx, LockedJob, Ending], None] | None = None
        self.immortal: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.writer.close()
        self.database.close()

    def react(self, tx: Tx, row: LockedJob, ending: Ending) -> None:
        self.reacted.append(Event(row.id, ending.kind))
        if self.on_react is not None:
            self.on_react(tx, row, ending)

    def settle_context(self) -> SettleContext:
        """What verbs that end jobs have in common."""
        return SettleContext(self.now, self.lanes, self.react, Tally())

    def run(self, function: Callable[[Tx], Any]) -> Any:
        """Any function, in one transaction through the writer."""
        return self.writer.call(lambda tx, items: [function(tx) for _ in items], [None])[0]

    @contextmanager
    def reading(self) -> Iterator[Tx]:
        with self.database.reading() as tx:
            yield tx

    def spied(self, function: Callable[[Tx], Any]) -> tuple[Any, list[tuple[str, Any]]]:
        """The same, and every statement it ran by name with its values, in order."""
        seen: list[tuple[str, Any]] = []

        def verb(tx: Any) -> Any:
            query, change, bulk, put = tx.query, tx.change, tx.bulk, tx.put
            tx.query = lambda statement, values: (
                seen.append((statement.name, values)) or query(statement, values)
            )
            tx.change = lambda statement, values: (
                seen.append((statement.name, values)) or change(statement, values)
            )
            tx.bulk = lambda statement, rows: (
                seen.append((statement.name, rows)) or bulk(statement, rows)
            )
            tx.put = lambda statement, values: (
                seen.append((statement.name, values)) or put(statement, values)
            )
            try:
                return function(tx)
            finally:
                del tx.query, tx.change, tx.bulk, tx.put

        return self.run(verb), seen

    # --- verbs

    def new(
        self, task: str = "greet", /, *, queue: str = "default", priority: int = 0, **more: Any
    ) -> NewJob:
        more.setdefault("payload", "{}")
        more.setdefault("at", self.now)
        return NewJob(lane=LaneName(queue, task, priority), **more)

    def enqueue(self, *new: NewJob) -> list[Enqueued]:
        def verb(tx: Tx) -> list[Enqueued]:
            return enqueue.enqueue(tx, new, ids=self.ids, lanes=self.lanes, now=self.now)  # type: ignore[arg-type]

        return self.run(verb)

    def want(self, *tasks: str, free: int = 100, worker: int = ME, **more: Any) -> ClaimRequest:
        if "paces" in more:
            more["admission"] = PaceRules(*more.pop("paces"))
        return ClaimRequest(worker, LEASE, dict.fromkeys(tasks, "async"), {"async": free}, **more)

    def claim(self, *tasks: str, free: int = 100, worker: int = ME, **more: Any) -> list[Claimed]:
        return self.claim_as(self.want(*tasks, free=free, worker=worker, **more)).jobs

    def claim_as(self, want: ClaimRequest, *, along: bool = False) -> claims.Claim:
        def verb(tx: Tx) -> claims.Claim:
            return claims.claim(tx, want, self.settle_context(), along=along)

        return self.run(verb)

    def ending(self, held: Claimed, kind: Kind, worker: int = ME, **more: Any) -> Ending:
        more.setdefault("batch", held.batch)
        return Ending(held.id, held.fence, worker, kind, **more)

    def done(self, held: Claimed, worker: int = ME, **more: Any) -> Ending:
        more.setdefault("result", "null")
        return self.ending(held, "done", worker, **more)

    def settle(self, *endings: Ending) -> list[Ending | None]:
        def verb(tx: Tx) -> list[Ending | None]:
            return settle.settle(tx, endings, self.settle_context())

        return self.run(verb)

    def extend(self, *held: Claimed, worker: int = ME) -> list[int]:
        leases = [(each.id, each.fence) for each in held]
        until = self.now + LEASE
        gone = self.run(lambda tx: recovery.extend(tx, leases, worker=worker, until=until))
        return [job for job, _ in gone]

    def recover(
        self, *, crashed: bool = True, dead: Sequence[int] = (), take_over: bool = True
    ) -> list[Ending]:
        def verb(tx: Tx) -> list[Ending]:
            return recovery.recover(
                tx,
                self.settle_context(),
                crashed=lambda _, __: crashed,
                immortal=self.immortal.__contains__,
                dead=dead,
                take_over=take_over,
            )

        return self.run(verb)

    def batch(self, task: str, members: int, /, *, then: str = "", **more: Any) -> Enqueued:
        """A batch of so many members, perhaps with a follow-up that takes no argument."""
        follow = Follow(LaneName("default", then)) if then else None
        get_batch = {name: more.pop(name) for name in ("key", "keep") if name in more}
        payloads = [f"[{number}]" for number in range(members)]
        new = NewBatch("a batch", self.new(task, **more), payloads, then=follow, **get_batch)

        def verb(tx: Tx) -> list[Enqueued]:
            return batches.create(tx, [new], ids=self.ids, lanes=self.lanes, now=self.now)  # type: ignore[arg-type]

        return self.run(verb)[0]

    def retry_batch(self, batch: int, *, then: bool = False) -> int:
        return self.run(
            lambda tx: batches.retry(tx, batch, self.settle_context(), then=then, ids=self.ids)  # type: ignore[arg-type]
        )

    def cancel(self, *wanted: int, why: str = "not wanted") -> list[str]:
        def verb(tx: Tx) -> list[str]:
            return operate.cancel(tx, wanted, self.settle_context(), why=why)

        return self.run(verb)

    def revive(self, *wanted: int) -> list[str]:
        return self.run(lambda tx: operate.revive(tx, wanted, self.settle_context()))

    def prune(self, chunk: int = 1000) -> int:
        def verb(tx: Tx) -> int:
            over = pruning.prune(tx, self.settle_context(), chunk=chunk)
            return max(over, batches.forget(tx, now=self.now, chunk=chunk))

        return self.run(verb)

    # --- looking

    def row(self, job: int) -> LockedJob:
        with self.reading() as tx:
            return settle.lock_jobs(tx, [job], lock=False)[job]

    def rows(self) -> list[LockedJob]:
        with self.reading() as tx:
            found = tx.read("select id from duework_job order by id")
            by_id = settle.lock_jobs(tx, [each.id for each in found], lock=False)
        return [by_id[key] for key in sorted(by_id)]

    def read(self, sql: str, **values: Any) -> list[Any]:
        with self.reading() as tx:
            return tx.read(sql, **values)

    @staticmethod
    def but(job: NewJob, **changes: Any) -> NewJob:
        return msgspec.structs.replace(job, **changes)
