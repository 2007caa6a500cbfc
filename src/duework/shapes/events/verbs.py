"""Verbs on events: publish, subscribe, and what moves bulks. Each runs inside a transaction of the caller's.

Of every event each subscriber gets one job, with the event in its payload. Where one takes bulks, its jobs
are parked, and one job of the engine's runs the next of them together: in its settle each is ended by
itself, and what did not go well is due at once, to run alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from duework.codec import encode
from duework.db.queries import load
from duework.kernel.facts import ShapeFact
from duework.kernel.job import KEEP, LaneName, NewEvent, NewJob
from duework.kernel.moves import forget, hasten, move, still_held
from duework.kernel.paces.pace import UNTIL_ASKED

if TYPE_CHECKING:
    from duework.db.database import Tx
    from duework.kernel.engine import Engine

T = TypeVar("T")

EVENTS = load("duework.shapes.events", "events")
# The owner of a job that runs bulks is this and the subscriber; of others `event:` and the event.
BULKS = "event:@"


class Event(msgspec.Struct, Generic[T], frozen=True):
    """What was published: `Event`, or `Event[Enriched]` if its payload is to be of that type."""

    id: int
    name: str
    payload: T
    # When it was published, in milliseconds.
    at: int


@dataclass(frozen=True, slots=True)
class BulkSplit(ShapeFact):
    """A bulk has failed as a whole: its events run again, each by itself."""

    subscriber: str
    count: int
    why: str


class Subscriber(msgspec.Struct, frozen=True):
    """Who gets events of a name, as it is stored."""

    name: str
    event: str
    queue: str = "default"
    priority: int = 0
    # How many at once; 1: each alone.
    bulk: int = 1
    within_ms: int = 0
    # The job that runs its next bulk.
    job: int | None = None
    created: int = 0

    def terms(self) -> tuple[Any, ...]:
        """What code says of it."""
        return (self.name, self.event, self.queue, self.priority, self.bulk, self.within_ms)


class WantedSubscriber(msgspec.Struct, frozen=True):
    """A subscription that code declares, and how much of the past it wants when it is new."""

    row: Subscriber
    since_ms: int | None = None


def bulk_task(name: str) -> str:
    return f"{name}.bulk"


# --- publishing


def publish(
    tx: Tx, new: Sequence[NewEvent], engine: Engine, declared: Sequence[WantedSubscriber]
) -> list[int]:
    """Write events, and a job of each for every subscriber; their ids."""
    names = sorted({each.name for each in new})
    known = {row.name for row in _of(tx, names)}
    missing = [each for each in declared if each.row.event in names and each.row.name not in known]
    subscribe(tx, missing, engine)
    _share(tx, names)
    found = _of(tx, names)
    events = [Event(engine.ids.draw(), each.name, each.payload, engine.clock.now()) for each in new]
    for each in events:
        count = sum(row.event == each.name for row in found)
        values = {"id": each.id, "name": each.name, "payload": each.payload, "at": each.at}
        tx.query(EVENTS.insert, {**values, "jobs": count, "due": each.at + KEEP})
    for row in found:
        give(tx, row, [each for each in events if each.name == row.event], engine)
    return [each.id for each in events]


def _of(tx: Tx, names: list[str]) -> list[Subscriber]:
    return [Subscriber(*row) for row in tx.query(EVENTS.of_topics, {"names": names})]


def _share(tx: Tx, names: list[str]) -> None:
    """Keep others from subscribing until this has committed."""
    while len(found := tx.query(EVENTS.topics, {"names": names})) < len(names):
        for name in sorted(set(names) - {row[0] for row in found}):
            tx.query(EVENTS.new_topic, {"name": name})


def give(tx: Tx, row: Subscriber, events: Sequence[Event[str]], engine: Engine) -> None:
    """One job of a subscriber for each event; parked if it takes bulks."""
    if not events:
        return
    now, parked = engine.clock.now(), int(row.bulk > 1)
    lane = LaneName(row.queue, row.name, row.priority)
    at = UNTIL_ASKED if parked else now
    jobs = [NewJob(lane, stored(each), at, owner=f"event:{each.id}") for each in events]
    made = engine.enqueue(tx, jobs)
    rows = [
        (each.id, row.name, job.id, now, parked) for each, job in zip(events, made, strict=True)
    ]
    tx.bulk(EVENTS.insert_job, rows)
    if parked:
        run_next(tx, row.name, engine)


def stored(event: Event[str]) -> str:
    """The payload of its jobs; what was published is JSON already."""
    payload = msgspec.Raw(event.payload.encode())
    return encode(
        {"event": {"id": event.id, "name": event.name, "payload": payload, "at": event.at}}
    )


# --- subscribing


def subscribe(tx: Tx, wanted: Sequence[WantedSubscriber], engine: Engine) -> None:
    """Write subscriptions; a new one gets what was published since the time that it wants."""
    for each in sorted(wanted, key=lambda one: (one.row.event, one.row.name)):
        row, now = each.row, engine.clock.now()
        _lock_topics(tx, row.name, row.event)
        known = find(tx, row.name)
        if known is not None and known.terms() == row.terms():
            continue
        if known is not None and row.bulk == 1:
            release(tx, known, engine)
        values = dict(zip(("name", "event", "queue", "priority"), row.terms(), strict=False))
        bulk = {"bulk": row.bulk, "within_ms": row.within_ms, "now": now}
        tx.query(EVENTS.subscribe, {**values, **bulk})
        if known is None and each.since_ms is not None:
            _catch_up(tx, row, now - each.since_ms, engine)


def _lock_topics(tx: Tx, name: str, *events: str) -> None:
    """Wait for those who publish to a subscriber, as it is or is to be: they count on its terms."""
    for event in sorted({*events, *(row[0] for row in tx.query(EVENTS.event_of, {"name": name}))}):
        while not tx.query(EVENTS.lock_topic, {"name": event}):
            tx.query(EVENTS.new_topic, {"name": event})


def _catch_up(tx: Tx, row: Subscriber, since: int, engine: Engine) -> None:
    values = {"event": row.event, "name": row.name, "since": since}
    events = [Event(*found) for found in tx.query(EVENTS.history, values)]
    for each in events:
        tx.query(EVENTS.count_job, {"id": each.id})
    give(tx, row, events, engine)


def unsubscribe(tx: Tx, name: str, engine: Engine) -> bool:
    """Give it no more events; what it was given stays, and runs. Whether there was one."""
    _lock_topics(tx, name)
    known = find(tx, name)
    if known is None:
        return False
    release(tx, known, engine)
    return bool(tx.query(EVENTS.unsubscribe, {"name": name}))


def find(tx: Tx, name: str) -> Subscriber | None:
    """Under lock where the database has such locks."""
    rows = tx.query(EVENTS.subscriber, {"name": name})
    return Subscriber(*rows[0]) if rows else None


# --- bulks


def run_next(tx: Tx, name: str, engine: Engine, ended: int | None = None) -> None:
    """See that a job runs the next bulk: at once if it is full, else a while after its first event.

    The row of the subscriber is locked first: who publishes meanwhile sees the job that is there, or that
    there is none any more.
    """
    row = find(tx, name)
    if row is None:
        return
    job = None if row.job == ended else row.job
    waiting = tx.query(EVENTS.parked, {"name": name, "wanted": row.bulk})
    full, now = len(waiting) >= row.bulk, engine.clock.now()
    if job is None and waiting:
        at = now if full else waiting[0][1] + row.within_ms
        lane = LaneName(row.queue, bulk_task(name), row.priority)
        new = NewJob(lane, encode({"subscriber": name}), at, owner=f"{BULKS}{name}")
        job = engine.enqueue(tx, [new])[0].id
    elif job is not None and full:
        hasten(tx, job, now=now)
        engine.ring_after(tx)
    if job != row.job:
        tx.query(EVENTS.set_job, {"name": name, "job": job})


def run_alone(tx: Tx, name: str, jobs: Sequence[int], engine: Engine) -> None:
    """Parked jobs are due now, each for itself."""
    if jobs:
        now = engine.clock.now()
        tx.query(EVENTS.unpark, {"name": name, "jobs": sorted(jobs)})
        move(tx, [(job, now) for job in jobs])
        engine.ring_after(tx)


def release(tx: Tx, row: Subscriber, engine: Engine) -> None:
    """It takes no bulks any more."""
    jobs = [found[0] for found in tx.query(EVENTS.all_parked, {"name": row.name})]
    run_alone(tx, row.name, jobs, engine)
    if row.job is not None:
        tx.query(EVENTS.set_job, {"name": row.name, "job": None})
        if not still_held(tx, [row.job]):
            forget(tx, [row.job])
