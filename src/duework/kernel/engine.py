"""What the kernel's parts share in one process: the database, the time, the tasks, the hooks.

The verbs here are the kernel's, bound to this process: each takes a transaction and a list and can
be handed to the writer. Nothing below this reads a clock or makes an id.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from duework.clock import Clock, SystemClock
from duework.db.database import Database, Tx
from duework.db.writer import Writer
from duework.errors import Error
from duework.ids import Ids
from duework.kernel import admission, batches, jobs, lanes, liveness
from duework.kernel.admission import Change, Note
from duework.kernel.bell import Bell
from duework.kernel.facts import ClockStepped, Fact
from duework.kernel.job import Ending, Enqueued, Held, JobId, NewBatch, NewJob
from duework.kernel.lanes import Lanes
from duework.kernel.offers import PAYLOAD_LIMIT
from duework.kernel.steps import Reading, Steps, reading
from duework.kernel.tasks import Registry, Writes

logger = logging.getLogger("duework")
# How the names of the engine's own tasks begin.
OWN_TASKS = "duework."
PRUNE_TASK = "duework.prune"
# How often the server is asked for the time until an answer is quick enough to be exact.
LOOKS_AT_SERVER = 5
QUICK_MS = 1
# No job is claimed so often between two boots.
EPOCH_BITS = 32


@dataclass(frozen=True, slots=True)
class Settings:
    """What an operator may choose; the defaults suit one machine."""

    lease_ms: int = 15_000
    # How long a stopping worker lets its jobs finish before it hands them back.
    grace_ms: int = 25_000
    # How long an attempt that was told to stop is waited for.
    patience_ms: int = 5_000
    async_slots: int = 100
    thread_slots: int = 10
    process_slots: int = 2


class Engine:
    """One process's side of one database."""

    def __init__(self, database: Database, registry: Registry, clock: Clock | None = None) -> None:
        self.database = database
        self.registry = registry
        self.clock: Clock = clock or SystemClock()
        self.writer = Writer(database)
        self.steps = Steps(self.clock, self._ask_server, self._clock_stepped)
        self.lanes = Lanes()
        self.ids = Ids(self.clock.now)
        self.writer.before_second_run = self._draw_elsewhere
        self.chance: Callable[[], float] = random.random
        self.hooks: list[Callable[[Fact], None]] = []
        # Called, from any thread, when there may be something to claim.
        self.local_bells: list[Callable[[], None]] = []
        self.bell: Bell | None = None
        # What every fence given here is above, once a worker was made ready; None if no boots are counted.
        self.floor: int | None = None
        # Makes the public view of a job for `@task.settled`; set by the app.
        self.reactor: Callable[[Tx, Held, Ending], None] | None = None
        # One object each, so that the writer can tell requests of the same verb.
        self.enqueue: Callable[[Tx, list[NewJob]], Sequence[Enqueued]] = self._enqueue
        # The same for a caller who has no transaction of his own.
        self.enqueue_alone: Callable[[Tx, list[NewJob]], Sequence[Enqueued]] = self._enqueue_alone
        self.cancel: Callable[[Tx, list[tuple[int, str]]], Sequence[str]] = self._cancel
        self.revive: Callable[[Tx, list[int]], Sequence[str]] = self._revive
        self.hear: Callable[[Tx, list[Note]], Sequence[None]] = self._hear
        registry.on_note = self._noted
        registry.writes["batch"] = Writes(NewBatch, self.batch)

    def make_ready(self) -> None:
        """For a worker: room for a full disk, and fences that no loss of power has taken back."""
        self.database.reserve()
        if (epoch := self.database.epoch(liveness.boot())) is not None:
            self.floor = epoch << EPOCH_BITS

    def _draw_elsewhere(self) -> None:
        self.ids.scatter()

    def _enqueue(self, tx: Tx, new: list[NewJob]) -> Sequence[Enqueued]:
        now = self.clock.now()
        answers = jobs.enqueue(tx, new, ids=self.ids, lanes=self.lanes, now=now)
        self.ring_after(tx)
        return answers

    def _enqueue_alone(self, tx: Tx, new: list[NewJob]) -> Sequence[Enqueued]:
        # A worker of this process has left its errand.
        if self.bell is not None and len(new) == 1 and not self.local_bells:
            job = self._hand_over(tx, new[0], self.bell)
            if job is not None:
                return [Enqueued(job)]
        return self._enqueue(tx, new)

    def _hand_over(self, tx: Tx, new: NewJob, bell: Bell) -> JobId | None:
        """Enqueue it for a worker of another process that offers to start it at once."""
        if len(new.payload) > PAYLOAD_LIMIT or (offered := bell.offered(new.lane)) is None:
            return None
        seen, number, terms = offered
        job = jobs.enqueue_claimed(
            *(tx, new, terms.worker),
            lease_ms=terms.lease_ms,
            ids=self.ids,
            lanes=self.lanes,
            now=self.clock.now(),
        )
        if job is None:
            return None
        announced, handed = seen.take(number, job)
        # It gets ready while this commits.
        bell.announce(seen, announced)
        tx.after_commit.append(partial(bell.hand_over, seen, handed))
        return job.id

    def _cancel(self, tx: Tx, wanted: list[tuple[int, str]]) -> Sequence[str]:
        answers: list[str] = []
        for identifier, why in wanted:
            answers += jobs.cancel(
                *(tx, [identifier]),
                why=why,
                now=self.clock.now(),
                lanes=self.lanes,
                react=self.react,
            )
        self.ring_after(tx)
        return answers

    def _revive(self, tx: Tx, wanted: list[int]) -> Sequence[str]:
        answers = jobs.revive(tx, wanted, now=self.clock.now())
        self.ring_after(tx)
        return answers

    def batch(self, tx: Tx, new: list[NewBatch]) -> Sequence[Enqueued]:
        answers = batches.create(tx, new, ids=self.ids, lanes=self.lanes, now=self.clock.now())
        self.ring_after(tx)
        return answers

    def cancel_members(self, tx: Tx, task: str, members: list[int], why: str) -> list[str]:
        """End members of a batch; quicker where nobody reacts to that."""
        known = self.registry.get(task)
        react = self.react if known is not None and known.reactions else None
        now = self.clock.now()
        answers = batches.cancel(tx, members, why=why, now=now, lanes=self.lanes, react=react)
        self.ring_after(tx)
        return answers

    def retry_batch(self, tx: Tx, batch: int, *, then: bool) -> int:
        count = batches.retry(tx, batch, then=then, ids=self.ids, now=self.clock.now())
        self.ring_after(tx)
        return count

    def purge(self, tx: Tx, wanted: list[int]) -> Sequence[int]:
        count = jobs.purge(tx, wanted, now=self.clock.now(), lanes=self.lanes, react=self.react)
        self.ring_after(tx)
        return [count]

    def purge_queue(self, tx: Tx, queues: list[str]) -> Sequence[int]:
        now = self.clock.now()
        return [
            jobs.purge_queue(tx, queue, now=now, lanes=self.lanes, react=self.react)
            for queue in queues
        ]

    def pause(self, tx: Tx, queues: list[str]) -> Sequence[None]:
        for queue in queues:
            lanes.pause(tx, queue)
        return [None for _ in queues]

    def resume(self, tx: Tx, queues: list[str]) -> Sequence[None]:
        for queue in queues:
            lanes.resume(tx, queue)
        self.ring_after(tx)
        return [None for _ in queues]

    def _hear(self, tx: Tx, notes: list[Note]) -> Sequence[None]:
        """Let paces hear of what happened; whoever waits for them may have to wait no more."""
        if notes and admission.hear(tx, notes, now=self.clock.now()):
            self.ring_after(tx)
        return [None for _ in notes]

    def _noted(self) -> None:
        """A pace was told something: a worker here writes it down, or we do."""
        if self.local_bells:
            for wake in list(self.local_bells):
                wake()
            return
        notes = self.registry.notes
        while notes:
            note = notes.popleft()
            try:
                self.writer.call(self.hear, [note])
            except Error:
                # Whoever is told something next, or a worker, writes it down then.
                notes.appendleft(note)
                raise

    def change_pace(self, tx: Tx, wanted: list[tuple[str, str | None, Change]]) -> Sequence[None]:
        for name, kind, how in wanted:
            admission.change(tx, name, kind, how, now=self.clock.now())
        self.ring_after(tx)
        return [None for _ in wanted]

    def _ask_server(self) -> Reading | None:
        """The time of the database's server, if there is one: hosts disagree, it does not."""
        if not isinstance(self.clock, SystemClock):
            return None
        looks: list[Reading] = []
        while len(looks) < LOOKS_AT_SERVER:
            if (found := reading(self.clock, self.database.now)) is None:
                return None
            looks.append(found)
            if found.within <= QUICK_MS:
                break
        # The quicker the answer, the less is left to guess of when it was given.
        return min(looks, key=lambda each: each.within)

    def _clock_stepped(self, by: int) -> None:
        """Whoever sleeps went by another time."""
        self.tell(ClockStepped(by))
        for wake in list(self.local_bells):
            wake()

    def react(self, tx: Tx, row: Held, ending: Ending) -> None:
        if self.reactor is not None:
            self.reactor(tx, row, ending)

    def ring_after(self, tx: Tx) -> None:
        """Once this transaction has committed, wake whoever might want to know."""
        tx.hint("due")
        if self.ring not in tx.after_commit:
            tx.after_commit.append(self.ring)

    def ring(self) -> None:
        for wake in list(self.local_bells):
            wake()
        if self.bell is not None:
            self.bell.ring()

    def tell(self, fact: Fact) -> None:
        """Report a fact; a hook that fails is logged and changes nothing."""
        for hook in self.hooks:
            try:
                hook(fact)
            except Exception:
                logger.exception("a hook failed")


def prune_round(engine: Engine, chunks: int) -> int:
    """Delete settled rows whose retention is over, a small transaction each; the chunks it took."""

    def chunk(tx: Tx, items: list[None]) -> Sequence[int]:
        now = engine.clock.now()
        quiet = admission.forget(tx, now=now, chunk=jobs.CHUNK)
        return [max(quiet, jobs.prune(tx, now=now)) for _ in items]

    for done in range(1, chunks + 1):
        if engine.writer.call(chunk, [None], patience=None)[0] < jobs.CHUNK:
            return done
    return chunks
