"""Chains: one page after the other, each from where the last one ended.

A page is a job of the chain's task. In the transaction that settles it, its effects, its counts, its
completion and the job of the next page are written, so a chain never stops between two pages and never
does one twice. A chain that was cancelled meanwhile keeps what the page did and gets no further page.
Every change of a chain is made here, under a lock of its row, taken after that of its page's job.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import msgspec

from duework.clock import FOREVER
from duework.codec import encode
from duework.db.database import Retryable, Tx
from duework.db.queries import load
from duework.durations import milliseconds
from duework.errors import Conflict, NotFound
from duework.kernel.engine import Engine
from duework.kernel.error_text import describe, redact, short
from duework.kernel.job import KEEP, Ending, LaneName, LockedJob, NewJob
from duework.kernel.settle import THEIRS, lock_jobs
from duework.kernel.tasks import Writes
from duework.kernel.transaction import Transaction
from duework.shapes.chains import SHAPE
from duework.shapes.chains.handle import Chain, ChainPage, Counts, End, Next, expected_of, page_of
from duework.shapes.shape import CHUNK, Hooks, Shape, in_chunks

if TYPE_CHECKING:
    from duework.shapes.chains.tasks import ChainTask
    from duework.wiring import Wiring

CHAINS = load("duework.shapes.chains", "chains")

# The end of a page that found its chain stopped before it began.
STOPPED = "its chain is not active"
CURSOR_LIMIT = 64 * 1024
Item = TypeVar("Item")
Result = TypeVar("Result")


class NewChain(msgspec.Struct, frozen=True):
    """A chain to be started."""

    lane: LaneName
    payload: str
    size: int
    at: int
    key: str | None = None


class PageRow(msgspec.Struct, frozen=True):
    """A page as its chain sees it."""

    number: int
    job: int
    state: str
    cursor: str | None
    size: int


class Chains(Hooks):
    """The chains of one App, whether or not this process knows their code."""

    shape: ClassVar[Shape] = SHAPE

    def __init__(self) -> None:
        self._wiring: Wiring | None = None
        self.tasks: dict[str, ChainTask[...]] = {}

    def bind(self, wiring: Wiring) -> None:
        self._wiring = wiring

    def writes(self) -> Mapping[str, Writes]:
        return {"chain": Writes(NewChain, self.start_all)}

    @property
    def _engine(self) -> Engine:
        assert self._wiring is not None, "bound"
        return self._wiring.engine

    def _call(self, verb: Callable[[Tx, list[Item]], Sequence[Result]], item: Item) -> Result:
        return self._engine.writer.call(verb, [item])[0]

    # --- looking

    def get(self, identifier: int) -> Chain:
        with self._engine.database.reading() as tx:
            return self._found(tx.query(CHAINS.look, {"id": int(identifier)}), identifier)

    def search(self, *, state: str, task: str, key: str, before: int, limit: int) -> list[Chain]:
        """Newest first."""
        values: dict[str, Any] = {"task": task, "before": before, "wanted": min(limit, 1000)}
        with self._engine.database.reading() as tx:
            if key:
                rows = tx.query(CHAINS.newest_of_key, {**values, "key": key, "state": state})
            elif state:
                rows = tx.query(CHAINS.newest_of_state, {**values, "state": state})
            else:
                rows = tx.query(CHAINS.newest, values)
        return [self._view(row) for row in rows]

    def pages(self, identifier: int, after: int, limit: int) -> list[ChainPage]:
        engine = self._engine
        values = {"chain": identifier, "after": after, "wanted": min(limit, 1000)}
        with engine.database.reading() as tx:
            rows = tx.query(CHAINS.pages, values)
        return [page_of(row, engine.clock.now()) for row in rows]

    def _view(self, row: Sequence[Any]) -> Chain:
        fields: dict[str, Any] = dict(zip(Chain.__struct_fields__, row, strict=False))
        return Chain(**fields, _chains=self)

    def _found(self, rows: Sequence[Sequence[Any]], identifier: int) -> Chain:
        if not rows:
            raise NotFound(f"there is no chain {identifier}")
        return self._view(rows[0])

    def _lock(self, tx: Tx, identifier: int) -> Chain:
        return self._found(tx.query(CHAINS.lock, {"id": identifier}), identifier)

    # --- starting

    def start_all(self, tx: Tx, wanted: list[NewChain]) -> Sequence[Chain]:
        """Write chains with their first pages; one whose key is taken is answered with its holder."""
        engine = self._engine
        answers: dict[int, Chain] = {}
        # Keys are taken in one order by every transaction.
        for place in sorted(range(len(wanted)), key=lambda each: wanted[each].key or ""):
            answers[place] = self._start_one(tx, wanted[place], engine)
        return [answers[place] for place in range(len(wanted))]

    def _start_one(self, tx: Tx, new: NewChain, engine: Engine) -> Chain:
        now, lane = engine.clock.now(), new.lane
        values = {
            "id": engine.ids.draw(),
            "task": lane.task,
            "key": new.key,
            "payload": new.payload,
            "queue": lane.queue,
            "priority": lane.priority,
            "size": new.size,
            "started": now,
            "due": FOREVER,
        }
        while not tx.query(CHAINS.new, values):
            taken = tx.query(CHAINS.active_by_key, {"task": lane.task, "key": new.key})
            if taken:
                chain = self._found(tx.query(CHAINS.look, {"id": taken[0][0]}), taken[0][0])
                return msgspec.structs.replace(chain, existed=True)
        chain = self._found(tx.query(CHAINS.look, {"id": values["id"]}), 0)
        self._new_page(tx, chain, at=new.at)
        return chain

    def _new_page(self, tx: Tx, chain: Chain, *, at: int) -> None:
        values = {
            "chain": chain.id,
            "number": chain.number,
            "job": self._enqueue(tx, chain, at),
            "cursor": chain.stored_cursor,
            "size": chain.size,
            "created": self._engine.clock.now(),
        }
        tx.query(CHAINS.new_page, values)

    def _enqueue(self, tx: Tx, chain: Chain, at: int) -> int:
        lane = LaneName(chain.queue, chain.task, chain.priority)
        job = NewJob(lane, chain.payload, at, owner=f"{self.shape.owner}:{chain.id}")
        return self._engine.enqueue(tx, [job])[0].id

    def prune(self) -> None:
        """Delete chains whose retention has ended, each with all of its pages."""
        in_chunks(self._engine, self._delete_over)

    def _delete_over(self, tx: Tx, items: list[None]) -> Sequence[int]:
        values = {"now": self._engine.clock.now(), "wanted": CHUNK}
        over = [row[0] for row in tx.query(CHAINS.over, values)]
        if over:
            tx.query(CHAINS.delete_pages, {"ids": over})
            tx.query(CHAINS.delete_chains, {"ids": over})
        return [len(over) for _ in items]

    # --- a page has ended

    def settled(self, tx: Tx, job: LockedJob, ending: Ending) -> None:
        """A page is done, failed or cancelled, in the transaction that says so."""
        identifier = _number((job.owner or "").partition(":")[2])
        if identifier is None or not (rows := tx.query(CHAINS.lock, {"id": identifier})):
            return
        chain = self._view(rows[0])
        page = self._page(tx, chain)
        # A page that is done stays so, also if its job is revived; the end may be left to do.
        if page.job != job.id or (page.state == "done" and not chain.finishing):
            return
        if ending.kind == "cancelled" and ending.error == STOPPED and chain.state == "active":
            # It was resumed between the look of its page and this.
            self._again(tx, chain, page, None)
        elif ending.kind == "done" and page.state == "done":
            self._late_end(tx, chain)
        elif ending.kind == "done":
            self._completed(tx, chain, job, ending)
        else:
            if page.state != "done":
                self._settle_page(tx, chain, job, ending)
            if chain.state == "active":
                self._stop(tx, chain, ending.kind, ending.error)

    def _page(self, tx: Tx, chain: Chain) -> PageRow:
        """The newest one."""
        return PageRow(*tx.query(CHAINS.page, {"chain": chain.id, "number": chain.number})[0])

    def _settle_page(
        self, tx: Tx, chain: Chain, job: LockedJob, ending: Ending, said: Next | End | None = None
    ) -> None:
        failed = ending.kind == "failed"
        values = {
            "chain": chain.id,
            "number": chain.number,
            "state": ending.kind,
            "counts": None if said is None else encode(said.counts),
            "quota": None if said is None else encode(said.quota),
            "failures": job.failures + failed,
            # Of a page that is done in the end: what went wrong before.
            "error": job.error if said is not None else short(ending.error),
            "started": ending.started,
            "settled": self._engine.clock.now(),
        }
        tx.query(CHAINS.settle_page, values)

    def _completed(self, tx: Tx, chain: Chain, job: LockedJob, ending: Ending) -> None:
        """Count a page; then the next one, or the end, unless the chain was cancelled."""
        said = msgspec.json.decode(ending.result or "", type=Next | End)
        self._settle_page(tx, chain, job, ending, said)
        chain = msgspec.structs.replace(
            chain,
            completed=chain.number,
            stored_counts=_sum(chain.counts, said.counts),
            stored_expected=_expected(chain, said),
        )
        if chain.state == "failed":
            # An operator has revived the job of its failed page.
            chain = self._reactivated(tx, chain)
        if isinstance(said, Next):
            size, cursor = said.size or chain.size, encode(said.cursor, CURSOR_LIMIT, "cursor")
            chain = msgspec.structs.replace(chain, size=size, stored_cursor=cursor)
            if chain.state == "active":
                chain = self._next(tx, chain, said.delay)
        elif chain.state == "active":
            chain = self._finished(tx, chain)
        else:
            chain = msgspec.structs.replace(chain, finishing=1)
        self._rewrite(tx, chain)

    def _next(self, tx: Tx, chain: Chain, delay: float | None = None) -> Chain:
        chain = msgspec.structs.replace(chain, number=chain.completed + 1)
        after = 0 if delay is None else milliseconds(delay)
        self._new_page(tx, chain, at=self._engine.clock.now() + after)
        return chain

    def _late_end(self, tx: Tx, chain: Chain) -> None:
        """Its last page was done when it was cancelled: the end comes after a resume."""
        if chain.state == "failed":
            chain = self._reactivated(tx, chain)
        if chain.state == "active":
            self._rewrite(tx, self._finished(tx, chain))

    def _finished(self, tx: Tx, chain: Chain) -> Chain:
        """The end, with what the task does then; if that raises, the page that ended it has failed."""
        chain = msgspec.structs.replace(self._ended(chain, "done", None), finishing=0)
        if (task := self.tasks.get(chain.task)) is not None:
            theirs = Transaction(tx, self._engine)
            for function in task.finishers:
                more = function(theirs, chain)
                if isinstance(more, Mapping):
                    counts = _sum(chain.counts, more)
                    chain = msgspec.structs.replace(chain, stored_counts=counts)
            for reaction in task.reactions:
                reaction(theirs, chain, "done")
        return chain

    def _stop(self, tx: Tx, chain: Chain, state: Any, error: str | None) -> None:
        """End an active chain early. A reaction that fails is undone, and the chain is ended."""
        chain = self._ended(chain, state, short(error))
        task = self.tasks.get(chain.task)
        try:
            if task is not None and task.reactions:
                with tx.savepoint():
                    for reaction in task.reactions:
                        reaction(Transaction(tx, self._engine), chain, state)
        except (Retryable, RecursionError, MemoryError):
            raise
        except THEIRS as raised:
            text = f"{error} (and a reaction to that failed: {describe(raised)})"
            chain = msgspec.structs.replace(chain, error=short(text))
        self._rewrite(tx, chain)

    def _ended(self, chain: Chain, state: Any, error: str | None) -> Chain:
        now = self._engine.clock.now()
        known = self._engine.registry.get(chain.task)
        if state == "failed":
            keep = None if known is None else known.keep_failed_ms
        else:
            keep = KEEP if known is None else known.keep_ms
        due = FOREVER if keep is None else now + keep
        changes = {"state": state, "error": error, "settled": now, "due": due}
        return msgspec.structs.replace(chain, **changes)

    def _rewrite(self, tx: Tx, chain: Chain) -> None:
        values = {
            "id": chain.id,
            "state": chain.state,
            "size": chain.size,
            "cursor": chain.stored_cursor,
            "number": chain.number,
            "completed": chain.completed,
            "counts": chain.stored_counts,
            "expected": chain.stored_expected,
            "finishing": chain.finishing,
            "error": chain.error,
            "settled": chain.settled,
            "due": chain.due,
        }
        tx.query(CHAINS.rewrite, values)

    # --- what operators do

    def cancel(self, identifier: int, why: str) -> str:
        return self._call(self.cancel_all, (int(identifier), redact(why)))

    def resume(self, identifier: int) -> None:
        self._call(self.resume_all, (int(identifier), False))

    def retry(self, identifier: int) -> None:
        self._call(self.resume_all, (int(identifier), True))

    def _held(self, tx: Tx, identifier: int) -> tuple[Chain, PageRow, LockedJob | None, bool]:
        """A chain, its newest page and that page's job, and whether the job too is under lock."""
        chain = self._found(tx.query(CHAINS.look, {"id": identifier}), identifier)
        before = self._page(tx, chain).job
        job = lock_jobs(tx, [before]).get(before)
        chain = self._lock(tx, identifier)
        page = self._page(tx, chain)
        if page.job == before:
            return chain, page, job, True
        # It went on in between. A transaction that has locked the chain must not wait for a job: the
        # settle of its page has locked that, and may wait for the chain.
        return chain, page, lock_jobs(tx, [page.job], lock=False).get(page.job), False

    def cancel_all(self, tx: Tx, wanted: list[tuple[int, str]]) -> Sequence[str]:
        """Give them no further page. A page that runs goes on to its end, and is counted."""
        engine = self._engine
        answers: list[str] = []
        for identifier, why in wanted:
            chain, _, job, locked = self._held(tx, identifier)
            waits = job is not None and job.worker is None and job.state == "open"
            if chain.state != "active":
                answers.append(chain.state)
            elif job is not None and waits and locked:
                # `settled` ends the chain, as after any page that is cancelled.
                engine.cancel(tx, [(job.id, why)])
                answers.append("cancelled")
            else:
                # A page that has yet to begin looks at the chain's state itself.
                self._stop(tx, chain, "cancelled", why)
                answers.append("cancelling")
        return answers

    def resume_all(self, tx: Tx, wanted: list[tuple[int, bool]]) -> Sequence[None]:
        """Go on after the last completed page; with a flag, only if a page has failed."""
        for identifier, only_failed in wanted:
            chain, page, job, _ = self._held(tx, identifier)
            if only_failed and "failed" not in {page.state, chain.state}:
                raise Conflict(f"no page of chain {identifier} has failed; it is {chain.state}")
            if chain.state == "active":
                continue
            if chain.state == "done":
                raise Conflict(f"chain {identifier} is done; start a new one")
            chain = self._reactivated(tx, chain)
            if page.state == "done" and not chain.finishing:
                chain = self._next(tx, chain)
            else:
                self._again(tx, chain, page, job)
            self._rewrite(tx, chain)
        return [None for _ in wanted]

    def _reactivated(self, tx: Tx, chain: Chain) -> Chain:
        if chain.key is not None and (
            taken := tx.query(CHAINS.active_by_key, {"task": chain.task, "key": chain.key})
        ):
            message = f"chain {chain.id} cannot go on: its key {chain.key!r} is held by chain {taken[0][0]}"
            raise Conflict(message)
        changes: dict[str, Any] = {
            "state": "active",
            "error": None,
            "settled": None,
            "due": FOREVER,
        }
        return msgspec.structs.replace(chain, **changes)

    def _again(self, tx: Tx, chain: Chain, page: PageRow, job: LockedJob | None) -> None:
        """Run a page once more, or the end after it, by the same job if there still is one."""
        engine, number = self._engine, page.job
        if job is None:
            # Its row is gone, or is settled as cancelled at this moment.
            number = self._enqueue(tx, chain, engine.clock.now())
        elif job.state != "open":
            engine.revive(tx, [number])
        state = "done" if page.state == "done" else "open"
        values = {"chain": chain.id, "number": page.number, "job": number, "state": state}
        tx.query(CHAINS.page_again, values)


def _number(text: str) -> int | None:
    """A chain's id as an owner names it; None for what no id can be."""
    digits = text.isascii() and text.isdecimal() and len(text) < 20  # noqa: PLR2004 - of 2^63
    return int(text) if digits and int(text) < 2**63 else None


def _sum(counts: Counts, more: Mapping[str, int | float]) -> str:
    """The JSON text of both, added up."""
    return encode({name: counts.get(name, 0) + more.get(name, 0) for name in {**counts, **more}})


def _expected(chain: Chain, said: Next | End) -> str | None:
    """What the page said about the end, or else what an earlier one did."""
    wanted = said.expected
    if wanted is None and chain.stored_expected is not None:
        wanted = expected_of(chain.stored_expected)
    if wanted is None:
        return None
    if wanted.total is not None and wanted.of is None:
        first = next(iter([*chain.counts, *said.counts]), None)
        wanted = msgspec.structs.replace(wanted, of=first)
    return encode(wanted)


__all__ = ["CHAINS", "STOPPED", "Chains", "NewChain"]
