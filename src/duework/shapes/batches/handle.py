"""Batches: one transaction, one job for each item, progress in one row, a follow-up at the end.

What users hold: `Batch`, its `Progress`, and the verbs that `App` gets from here. How members are
counted is the kernel's matter: the settle that ends them writes the batch's row, so there is nothing
here that could be late, lost or counted twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from duework.averbs import Verbs, averb
from duework.clock import pause
from duework.durations import Duration
from duework.errors import Error, WaitTimeout
from duework.handles import Job, looks
from duework.kernel.batches import verbs
from duework.kernel.batches.new import MemberTerms, NewBatch
from duework.kernel.error_text import redact
from duework.kernel.job import KEEP
from duework.task import Task, Using, new_members

if TYPE_CHECKING:
    from duework.db.database import Tx

AnyTask = Task[..., Any, Any] | Using[..., Any]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a batch is: its members by what became of them."""

    waiting: int
    running: int
    done: int
    failed: int
    cancelled: int
    total: int
    # Of members that have ended, in whichever way; halves are rounded up, an empty batch has 0.
    percent: int

    @property
    def settled(self) -> bool:
        """Whether every member has ended."""
        return self.waiting + self.running == 0


class Batch(msgspec.Struct, frozen=True):
    """A batch as it was when it was looked at; `progress()` looks again."""

    id: int
    name: str = ""
    key: str | None = None
    task: str = ""
    total: int = 0
    done: int = 0
    failed: int = 0
    cancelled: int = 0
    created: int = 0
    settled: int | None = None
    # Whether the follow-up was enqueued.
    fired: bool = False
    then_id: int | None = None
    # The name of the follow-up's task.
    then: str | None = None
    # Whether its key led to a batch that was there already.
    existed: bool = False
    _batches: Any = None

    def __repr__(self) -> str:
        return f"<batch {self.id} {self.name} of {self.total}>"

    def progress(self) -> Progress:
        """How far it is now: one row, and a look at its leased rows, however many members it has."""
        with self._of().engine.database.reading() as tx:
            batch = _view(verbs.find(tx, self.id), self._batches)
            return _progress(batch, verbs.running(tx, self.id))

    def refresh(self) -> Batch:
        """The batch as it is now."""
        return self._of().get(self.id)

    def jobs(self, *, phase: str = "", before: int = 2**62, limit: int = 50) -> list[Job[Any]]:
        """Its members, newest first; go on with `before=` the last id."""
        batches = self._of()
        now = batches.now()
        with batches.engine.database.reading() as tx:
            rows = verbs.members(tx, self.id, phase=phase, before=before, limit=limit, now=now)
        return [batches.wiring.jobs.view(row) for row in rows]

    def cancel(self, why: str = "its batch was cancelled") -> int:
        """End every member that has not ended; those that run are stopped by their workers.

        A chunk at a time, and safe to repeat. The follow-up is enqueued when the last one has ended.
        """
        engine, text = self._of().engine, redact(why)
        count = last = 0

        def cancel(tx: Tx, chunks: list[list[int]]) -> list[int]:
            answers = [engine.cancel_members(tx, self.task, chunk, text) for chunk in chunks]
            return [sum(answer.startswith("cancel") for answer in each) for each in answers]

        while True:
            # Looked for without a lock: thousands that have ended may lie before the next open one.
            with engine.database.reading() as tx:
                verbs.find(tx, self.id)
                members = verbs.open_members(tx, self.id, last)
            if not members:
                return count
            last = members[-1]
            count += engine.writer.call(cancel, [members])[0]

    def retry(self, *, then: bool = False) -> int:
        """Open the failed members again, all at once; how many.

        The follow-up is not enqueued a second time, unless with `then=True`.
        """
        engine = self._of().engine

        def retry(tx: Tx, items: list[int]) -> list[int]:
            return [engine.retry_batch(tx, each, then=then) for each in items]

        return engine.writer.call(retry, [self.id])[0]

    def add(self, items: Iterable[Any]) -> int:
        """Add a member for each item, by the options that the batch was made with; how many are new.

        A batch whose last member has ended is over, and this a `Conflict` that changes nothing.
        """
        batches = self._of()
        engine = batches.engine
        with engine.database.reading() as tx:
            terms = verbs.terms(tx, self.id)
        task = engine.registry.find(self.task)
        plain = MemberTerms(task.policy.queue, task.policy.priority)
        new = new_members(task, terms or plain, items, batches.now())
        mine = msgspec.structs.replace(new, member=new.member.but(batch=self.id))
        return engine.writer.call(engine.add_members, [mine])[0]

    def then_job(self) -> Job[Any] | None:
        """The follow-up, the last one if there were several; None while there is none."""
        batch = self.refresh()
        if not batch.fired or batch.then_id is None:
            return None
        return self._of().wiring.jobs.get(batch.then_id)

    def wait(self, timeout: Duration | None = None) -> Progress:
        """Wait until every member has ended; `WaitTimeout` if that takes longer."""
        for delay in looks(timeout):
            progress = self.progress()
            if progress.settled:
                return progress
            pause(delay)
        raise WaitTimeout(f"batch {self.id} has not settled in {timeout}")

    async def await_(self, timeout: Duration | None = None) -> Progress:  # noqa: ASYNC109 - as `wait`
        """The same for async code."""
        for delay in looks(timeout):
            progress = await asyncio.to_thread(self.progress)
            if progress.settled:
                return progress
            await asyncio.sleep(delay)
        raise WaitTimeout(f"batch {self.id} has not settled in {timeout}")

    aprogress = averb(progress)
    arefresh = averb(refresh)
    ajobs = averb(jobs)
    acancel = averb(cancel)
    aretry = averb(retry)
    aadd = averb(add)
    athen_job = averb(then_job)

    def _of(self) -> Batches:
        if self._batches is None:
            raise Error("this batch is not bound to an App")
        batches: Batches = self._batches
        return batches


def _progress(batch: Batch, running: int) -> Progress:
    ended, total = batch.done + batch.failed + batch.cancelled, batch.total
    return Progress(
        total - ended - running,
        running,
        batch.done,
        batch.failed,
        batch.cancelled,
        total,
        percent=(200 * ended + total) // (2 * total) if total else 0,
    )


def _view(row: tuple[Any, ...], of: Any, *, existed: bool = False) -> Batch:
    names = Batch.__struct_fields__[: len(row)]
    fields: dict[str, Any] = dict(zip(names, row, strict=True))
    return Batch(**{**fields, "fired": bool(fields["fired"])}, existed=existed, _batches=of)


class Batches(Verbs):
    """What an App can do with batches."""

    def create(
        self,
        task: AnyTask,
        items: Iterable[Any],
        *,
        name: str = "",
        then: AnyTask | None = None,
        key: str | None = None,
        keep: Duration | None = KEEP / 1000,
        member_key: str | None = None,
        once: Duration | Literal["forever"] | None = None,
    ) -> Batch:
        """One job for each item, in one transaction, counted together.

        A tuple is a list of arguments, anything else one argument. When the last job first ends,
        in whichever way, `then` is enqueued, with the batch's id if it takes an argument. A second
        batch with the same `key` is not made: the first is returned, for as long as it is kept.
        `member_key` is a text with the names of arguments in braces: an item of which there is an open
        job with that key, or one that `once` remembers, gets none, and is not counted.
        """
        using = task.using()
        options: dict[str, Any] = {"name": name, "then": then, "key": key, "keep": keep}
        options |= {"member_key": member_key, "once": once}
        new = using.as_batch(items, self.now(), **options)
        return self._made(new, using.connection)

    def _made(self, new: NewBatch, connection: Any) -> Batch:
        engine = self.engine
        if connection is None:
            answer = engine.writer.call(engine.batch, [new])[0]
            with engine.database.reading() as tx:
                return _view(verbs.find(tx, answer.id), self, existed=answer.existed)
        tx = engine.database.adopt(connection)
        answer = engine.batch(tx, [new])[0]
        return _view(verbs.find(tx, answer.id), self, existed=answer.existed)

    def get(self, identifier: int) -> Batch:
        """A batch by its id; `NotFound` if there is none, or it is not kept any more."""
        with self.engine.database.reading() as tx:
            return _view(verbs.find(tx, int(identifier)), self)

    def search(self, *, name: str = "", before: int = 2**62, limit: int = 50) -> list[Batch]:
        """Batches, newest first; go on with `before=` the last id."""
        with self.engine.database.reading() as tx:
            rows = verbs.page(tx, name=name, before=before, limit=limit)
        return [_view(row, self) for row in rows]
