"""Messages of outboxes: their rows, and the verbs on them that need no code of the user's.

A message is in one of six states, and each move is reported after its commit. While it is queued
or sending, a job is there that submits or polls it; settled, it is kept for a while.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from duework.averbs import averb
from duework.clock import FOREVER
from duework.codec import decode, encode
from duework.db.database import Tx
from duework.db.queries import load
from duework.errors import Conflict, NotFound, UsageError
from duework.kernel.error_text import storable
from duework.kernel.facts import MessageMoved
from duework.kernel.job import KEEP, LaneName, NewJob
from duework.kernel.moves import still_held
from duework.shapes.sends import must_be_unsure
from duework.shapes.shape import CHUNK, in_chunks

if TYPE_CHECKING:
    from duework.kernel.engine import Engine

OUTBOXES = load("duework.shapes.outboxes", "outboxes")

# The owner of a job that submits or polls is `outbox:` and the message.
KIND = "outbox"
HOUR = 3_600_000
# Counts for people stop here.
BOUND = 10_000
# How the key of a message ends that was begun anew: a key of the user's that ends so is never sent as it is.
ANEW = re.compile(r":-[0-9]+\Z")

MessageState = Literal["queued", "sending", "sent", "failed", "unsure", "cancelled"]
STATES: tuple[MessageState, ...] = ("queued", "sending", "sent", "failed", "unsure", "cancelled")


class OutboxMessage(msgspec.Struct, frozen=True):
    """A message as it was when it was looked at."""

    id: int
    outbox: str
    key: str
    stored: str
    state: MessageState
    job: int
    queue: str
    priority: int
    lane: str
    round: int
    handle: str | None
    submits: int
    polls: int
    errors: int
    unsure_since: int | None
    error: str | None
    created: int
    accepted: int | None
    polled: int | None
    settled: int | None
    # Whether an enqueue found this message instead of making it.
    existed: bool = False

    @property
    def message(self) -> Any:
        """What was enqueued, as plain data."""
        return decode(self.stored)["message"]

    @property
    def sent_key(self) -> str:
        """The key that the other side is given; another one after it has rejected the message."""
        return self._sent_as(self.round)

    @property
    def sent_keys(self) -> list[str]:
        """Every key that the other side may have been given, the present one last."""
        # Above 0 they are of a version that counted upward.
        upward = self.round >= 0
        first, step = (0, 1) if upward else (first_round(self.key), -1)
        return [self._sent_as(each) for each in range(first, self.round + step, step)]

    def _sent_as(self, number: int) -> str:
        return self.key if not number else f"{self.key}:{number}"


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to be written; without a key it gets one of its own."""

    outbox: str
    key: str | None
    stored: str
    at: int
    queue: str
    priority: int
    lane: str


def poll_task(outbox: str) -> str:
    return f"{outbox}.poll"


def submit_task(outbox: str) -> str:
    return f"{outbox}.submit"


def first_round(key: str) -> int:
    """Rounds count downward from 0, or from -1 if the key alone could be that of another one's round.

    So what the other side is given ends in `:-N` for all rounds but 0, and for none of them twice.
    """
    return -1 if ANEW.search(key) else 0


def job_for(row: NewMessage | OutboxMessage, task: str, identifier: int, at: int) -> NewJob:
    """The job that submits or polls a message."""
    lane = LaneName(row.queue, task, row.priority, share=row.lane)
    payload = encode({"message": identifier})
    return NewJob(lane, payload, at, owner=f"{KIND}:{identifier}")


class OutboxOperator:
    """Messages of every outbox, for operators; of one, where a name is given."""

    def __init__(self, engine: Callable[[], Engine]) -> None:
        self._engine = engine

    # --- looking

    def names(self) -> list[str]:
        """Every outbox that has messages."""
        with self._engine().database.reading() as tx:
            return [row[0] for row in tx.query(OUTBOXES.names, {})]

    def counts(self, name: str) -> dict[str, int]:
        """Messages by state; counted up to a bound."""
        with self._engine().database.reading() as tx:
            found: dict[str, int] = {}
            for state in STATES:
                values = {"outbox": name, "state": state, "bound": BOUND}
                found[state] = int(tx.query(OUTBOXES.count, values)[0][0])
        return found

    def messages(
        self,
        name: str,
        *,
        state: MessageState | None = None,
        lane: str | None = None,
        before: int = 2**62,
        limit: int = 50,
    ) -> list[OutboxMessage]:
        """Messages, of one state or one lane if given, newest first; go on with `before=` the last id."""
        if state is not None and state not in STATES:
            raise UsageError(f"a message is {', '.join(STATES)}: not {state!r:.100}")
        if lane == "":
            raise UsageError("lane= is the name of a lane; leave it out to see all of them")
        most = min(limit, BOUND)
        values = {"outbox": name, "before": before, "wanted": most}
        found: list[int] = []
        with self._engine().database.reading() as tx:
            # A few seeks of an index each; a message has one state.
            for each in STATES if state is None else (state,):
                of_state = {**values, "state": each}
                if lane is None:
                    rows = tx.query(OUTBOXES.search, of_state)
                else:
                    rows = tx.query(OUTBOXES.search_lane, {**of_state, "lane": lane})
                found += [row[0] for row in rows]
            return seen(tx, sorted(found, reverse=True)[:most])

    def get_message(self, identifier: int) -> OutboxMessage:
        """One message; `NotFound` if there is none."""
        with self._engine().database.reading() as tx:
            found = seen(tx, [int(identifier)])
        if not found:
            raise NotFound(f"there is no message {identifier}")
        return found[0]

    # --- moving

    def retry(self, identifier: int) -> OutboxMessage:
        """Queue a message again that failed, is unsure or was cancelled; `Conflict` for others."""
        self._engine().writer.call(self.queue_again, [int(identifier)])
        return self.get_message(identifier)

    def retry_failed(self, name: str) -> Iterator[int]:
        """Queue all failed messages again; yields how many, in chunks."""
        while found := self.messages(name, state="failed", limit=CHUNK):
            self._engine().writer.call(self.queue_again, [each.id for each in found])
            yield len(found)

    def cancel(self, identifier: int, why: str = "cancelled by hand") -> str:
        """End a queued message; its state. `Conflict` if it is too late for that."""
        return self._engine().writer.call(self.cancel_all, [(int(identifier), why)])[0]

    def call_sent(self, identifier: int) -> OutboxMessage:
        """Somebody has looked, and an unsure message has arrived; `Conflict` for others."""
        return self._decide(identifier, "sent", None)

    def give_up(self, identifier: int, why: str = "given up by hand") -> OutboxMessage:
        """An unsure message has failed; `Conflict` for others."""
        return self._decide(identifier, "failed", storable(why))

    def _decide(self, identifier: int, state: MessageState, why: str | None) -> OutboxMessage:
        self._engine().writer.call(self.decide, [(int(identifier), state, why)])
        return self.get_message(identifier)

    anames = averb(names)
    acounts = averb(counts)
    amessages = averb(messages)
    aget_message = averb(get_message)
    aretry = averb(retry)
    acancel = averb(cancel)
    acall_sent = averb(call_sent)
    agive_up = averb(give_up)

    def prune(self) -> None:
        """Delete messages whose retention is over, and end those that nobody moves any more."""
        in_chunks(self._engine(), self._look)

    # --- inside a transaction

    def write(self, tx: Tx, new: list[NewMessage]) -> Sequence[tuple[int, bool]]:
        """Write messages and their jobs: (id, whether it was there already) of each.

        A key that is known is answered with its message, if the body is the same.
        """
        engine = self._engine()
        # Keys in one order for all transactions, so that two such transactions cannot deadlock.
        places = sorted(range(len(new)), key=lambda each: (new[each].key or "", each))
        answers = {place: self._insert(tx, new[place]) for place in places}
        fresh = [place for place in range(len(new)) if not answers[place][1]]
        jobs = [
            job_for(new[place], submit_task(new[place].outbox), answers[place][0], new[place].at)
            for place in fresh
        ]
        for place, job in zip(fresh, engine.enqueue(tx, jobs) if jobs else (), strict=True):
            identifier = answers[place][0]
            tx.query(OUTBOXES.has_job, {"id": identifier, "job": job.id})
            report_move(tx, engine, new[place].outbox, identifier, "queued")
        return [answers[place] for place in range(len(new))]

    def _insert(self, tx: Tx, new: NewMessage) -> tuple[int, bool]:
        """The id of a message, and whether it was there already."""
        engine = self._engine()
        now, identifier = engine.clock.now(), engine.ids.draw()
        key = new.key or f"{new.outbox}:{identifier}"
        row = {"id": identifier, "outbox": new.outbox, "message": new.stored, "key": key}
        row |= {"queue": new.queue, "priority": new.priority, "lane": new.lane, "now": now}
        row["round"] = first_round(key)
        while not tx.query(OUTBOXES.insert, {**row, "due": max(now, new.at) + HOUR}):
            # The message that has the key may be deleted before it is looked at; then the key is free.
            for known, stored in tx.query(OUTBOXES.by_key, {"outbox": new.outbox, "key": key}):
                if stored != new.stored:
                    message = (
                        f"message {known} of {new.outbox} has the key {key!r} and another body"
                    )
                    raise Conflict(message)
                return known, True
        return identifier, False

    def queue_again(self, tx: Tx, wanted: list[int]) -> Sequence[None]:
        engine, now = self._engine(), self._engine().clock.now()
        for row in locked(tx, wanted):
            if row.state not in {"failed", "unsure", "cancelled"}:
                raise Conflict(f"message {row.id} is {row.state}; there is nothing to retry")
            job = job_for(row, submit_task(row.outbox), row.id, now)
            new = {"id": row.id, "job": engine.enqueue(tx, [job])[0].id, "due": now + HOUR}
            # What was taken and then rejected would be rejected again under the same key.
            tx.query(OUTBOXES.queued_again, {**new, "raised": int(row.handle is not None)})
            report_move(tx, engine, row.outbox, row.id, "queued")
        return [None for _ in wanted]

    def decide(self, tx: Tx, wanted: list[tuple[int, MessageState, str | None]]) -> Sequence[None]:
        engine, now = self._engine(), self._engine().clock.now()
        for identifier, state, why in wanted:
            [row] = locked(tx, [identifier])
            must_be_unsure(f"message {identifier}", row.state)
            values = {"id": identifier, "state": state, "error": why, "now": now}
            tx.query(
                OUTBOXES.decide, {**values, "due": FOREVER if state == "failed" else now + KEEP}
            )
            report_move(tx, engine, row.outbox, identifier, state, why)
        return [None for _ in wanted]

    def cancel_all(self, tx: Tx, wanted: list[tuple[int, str]]) -> Sequence[str]:
        engine, answers = self._engine(), []
        for identifier, why in wanted:
            # Its job first: that is the order in which a settle locks the two.
            jobs = [row.job for row in seen(tx, [identifier])]
            held = still_held(tx, jobs)
            [row] = locked(tx, [identifier])
            if row.state == "queued" and not held:
                state: MessageState = "cancelled" if row.unsure_since is None else "unsure"
                ended(tx, engine, row, state, why, now=engine.clock.now())
                engine.cancel(tx, [(row.job, why)])
                answers.append(state)
            elif row.state in {"queued", "sending"}:
                raise Conflict(f"message {identifier} is with the other side already")
            else:
                answers.append(row.state)
        return answers

    def _look(self, tx: Tx, items: list[None]) -> Sequence[int]:
        engine = self._engine()
        now = engine.clock.now()
        found = tx.query(OUTBOXES.to_look_at, {"now": now, "wanted": CHUNK})
        for identifier, state, _, job_state in found:
            if state not in {"queued", "sending"}:
                tx.query(OUTBOXES.delete, {"id": identifier})
            elif job_state == "open":
                tx.query(OUTBOXES.look_again, {"id": identifier, "due": now + HOUR})
            else:
                for row in locked(tx, [identifier]):
                    unseen(tx, engine, row, "its job has ended unseen", now=now)
        return [len(found) for _ in items]


def seen(tx: Tx, ids: list[int]) -> list[OutboxMessage]:
    return [OutboxMessage(*row) for row in tx.query(OUTBOXES.seen, {"ids": ids})]


def forget_starts(tx: Tx, jobs: list[int]) -> None:
    """Their workers died before anything had left: what they began was not submitted."""
    tx.query(OUTBOXES.forget_starts, {"ids": jobs})


def locked(tx: Tx, ids: list[int]) -> list[OutboxMessage]:
    """Whole rows, under lock where the database has such locks; all of them or `NotFound`."""
    found = [OutboxMessage(*row) for row in tx.query(OUTBOXES.messages, {"ids": sorted(set(ids))})]
    if missing := set(ids) - {row.id for row in found}:
        raise NotFound(f"there is no message {min(missing)}")
    return found


def unseen(tx: Tx, engine: Engine, row: OutboxMessage, why: str, *, now: int) -> None:
    """End a message whose job ended without an outcome of its own: by what may have happened."""
    possible = row.state == "sending" or row.unsure_since is not None
    ended(tx, engine, row, "unsure" if possible else "failed", why, now=now)


def ended(
    tx: Tx,
    engine: Engine,
    row: OutboxMessage,
    state: MessageState,
    error: str | None,
    *,
    now: int,
    keep_ms: int | None = KEEP,
) -> None:
    """Settle a message that its job still has in hand."""
    kept = state in {"failed", "unsure"} or keep_ms is None
    text = None if error is None else storable(error)
    values = {"id": row.id, "job": row.job, "state": state, "error": text, "now": now}
    if tx.query(OUTBOXES.ended, {**values, "due": FOREVER if kept else now + (keep_ms or 0)}):
        report_move(tx, engine, row.outbox, row.id, state, text)


def report_move(
    tx: Tx, engine: Engine, outbox: str, message: int, state: str, error: str | None = None
) -> None:
    """Report the change to the hooks of this process, once it has committed."""
    tx.after_commit.append(partial(engine.emit, MessageMoved(outbox, message, state, error)))
