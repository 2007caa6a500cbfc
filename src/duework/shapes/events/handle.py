"""Events as users see them: `@app.on(…)`, `app.publish(…)`, and what operators do with those that failed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

import msgspec

from duework.averbs import Verbs, averb
from duework.codec import decode
from duework.durations import Duration, milliseconds
from duework.errors import NotFound, UsageError
from duework.kernel.job import NewEvent, new_event
from duework.kernel.tasks import TIRELESS, Writes, check_count, check_name
from duework.shapes.events import SHAPE, verbs
from duework.shapes.events.bulks import Bulks, Handler, single
from duework.shapes.events.verbs import (
    BULKS,
    EVENTS,
    Event,
    Subscriber,
    WantedSubscriber,
    bulk_task,
)
from duework.shapes.shape import CHUNK, Hooks, Shape, in_chunks

if TYPE_CHECKING:
    from duework.db.database import Tx
    from duework.handles import Job
    from duework.kernel.engine import Engine
    from duework.kernel.job import Ending, LockedJob
    from duework.part import Part
    from duework.task import Task
    from duework.typed.options import PolicyOptions
    from duework.wiring import Wiring

# The number of retries of an event before it has failed.
RETRIES = 3
MOST = 1000


class FailedEvent(msgspec.Struct, frozen=True):
    """An event that a subscriber has given up on."""

    event: Event[Any]
    subscriber: str
    # The job to look at: `app.job(job)` has its attempts.
    job: int
    failures: int
    error: str | None
    # When it was given up, in milliseconds.
    settled: int | None
    crashes: int = 0


class Reached(msgspec.Struct, frozen=True):
    """What became of an event at one subscriber."""

    subscriber: str
    job: int
    # None once the job has ended and is not kept any more.
    state: str | None
    failures: int | None
    error: str | None
    crashes: int | None = None


class Subscription(Hooks):
    """A function that gets events, on its App. A plain call stays a plain call."""

    shape: ClassVar[Shape] = SHAPE

    def __init__(self, function: Handler, event: str, since: Duration | None) -> None:
        self._wiring: Wiring | None = None
        self._event = event
        self._since_ms = None if since is None else milliseconds(since)
        self.task: Task[..., Any, Any]
        self.bulk, self.within_ms = 1, 0
        self.__wrapped__ = function
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", "subscription")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<subscription {self.name} to {self._event}>"

    @property
    def name(self) -> str:
        """Under which its jobs are found, after that of its Part if it has one."""
        return self.task.name

    def bind(self, wiring: Wiring) -> None:
        """It belongs to this App from now on."""
        self._wiring = wiring

    @property
    def engine(self) -> Engine:
        return self._verbs.engine

    @property
    def _verbs(self) -> EventVerbs:
        if self._wiring is None:
            raise UsageError(f"{self.name} belongs to a Part that no App has included yet")
        return self._wiring.find(EventVerbs)

    def wanted(self) -> WantedSubscriber:
        """Its row, as code says it."""
        policy = self.task.definition.policy
        place = (policy.queue, policy.priority, self.bulk, self.within_ms)
        return WantedSubscriber(Subscriber(self.name, self._event, *place), self._since_ms)

    def settled_with(self, reaction: Callable[..., None]) -> Callable[..., None]:
        """Register `(tx, job, outcome)` to run inside the settle of each event's job."""
        return self.task.settled(reaction)

    def failed(self, *, before: int = 2**62, limit: int = 50) -> list[FailedEvent]:
        """Events that it has given up on, newest first; go on with `before=` the last job."""
        return self._verbs.failed(self.name, before=before, limit=limit)

    def redrive(self, events: Sequence[int] | None = None) -> int:
        """Run failed events again, these or all; how many."""
        return self._verbs.redrive(self.name, events)

    def purge(self, events: Sequence[int] | None = None) -> int:
        """Forget failed events for good, these or all; how many."""
        return self._verbs.purge(self.name, events)

    afailed = averb(failed)
    aredrive = averb(redrive)
    apurge = averb(purge)


class Events(Hooks):
    """Every App has it: publishes, and writes the subscriptions that code declares."""

    shape: ClassVar[Shape] = SHAPE

    def bind(self, wiring: Wiring) -> None:
        self._wiring = wiring

    def writes(self) -> Mapping[str, Writes]:
        return {"event": Writes(NewEvent, self.publish)}

    def wanted(self) -> list[WantedSubscriber]:
        """What the code of this process subscribes to."""
        shapes = self._wiring.shapes
        return [each.wanted() for each in shapes if isinstance(each, Subscription)]

    def publish(self, tx: Tx, new: list[NewEvent]) -> Sequence[int]:
        """Write events and their jobs; their ids."""
        return verbs.publish(tx, new, self._wiring.engine, self.wanted())

    def arm(self) -> None:
        """Write the subscriptions that are new, or changed."""
        wanted, engine = self.wanted(), self._wiring.engine
        with engine.database.reading() as tx:
            names = sorted({each.row.event for each in wanted})
            found = tx.query(EVENTS.of_topics, {"names": names}) if names else []
        known = {Subscriber(*row).terms() for row in found}
        if new := [each for each in wanted if each.row.terms() not in known]:
            engine.writer.call(self._subscribe, new)

    def _subscribe(self, tx: Tx, wanted: list[WantedSubscriber]) -> Sequence[None]:
        verbs.subscribe(tx, wanted, self._wiring.engine)
        return [None for _ in wanted]

    def settled(self, tx: Tx, job: LockedJob, ending: Ending) -> None:
        """One that waited for a bulk does so no more; one that runs bulks is made again."""
        engine, owner = self._wiring.engine, job.owner or ""
        if not owner.startswith(BULKS):
            event = int(owner.removeprefix("event:"))
            tx.query(EVENTS.unpark_event, {"event": event, "name": job.task})
        elif ending.kind != "done":
            verbs.run_next(tx, owner.removeprefix(BULKS), engine, ended=job.id)

    def prune(self) -> None:
        in_chunks(self._wiring.engine, self._prune)

    def _prune(self, tx: Tx, items: list[None]) -> Sequence[int]:
        now = self._wiring.engine.clock.now()
        gone = [row[0] for row in tx.query(EVENTS.over, {"now": now, "wanted": CHUNK})]
        tx.query(EVENTS.over_jobs, {"ids": gone})
        return [len(gone) for _ in items]


class EventVerbs(Verbs):
    """What an App can do with events, whether or not this process knows the code of their subscribers."""

    def __init__(self, wiring: Wiring) -> None:
        super().__init__(wiring)
        self.hooks = Events()

    def publish(self, name: str, payload: Any = None) -> int:
        """Publish an event, of which every subscriber gets a job; its id. Durable when this returns."""
        return self.engine.writer.call(self.hooks.publish, [new_event(name, payload)])[0]

    # --- looking

    def topics(self, *, after: str = "", limit: int = 100) -> list[tuple[str, int, int | None]]:
        """Names of events, with the number of subscribers and the newest event that is kept."""
        return self._read(EVENTS.all_topics, after=after, wanted=min(limit, MOST))

    def subscribers(self, *, after: str = "", limit: int = 100) -> list[Subscriber]:
        """Who gets what, by name; go on with `after=` the last one."""
        rows = self._read(EVENTS.subscribers, after=after, wanted=min(limit, MOST))
        return [Subscriber(*row) for row in rows]

    def search(
        self, name: str = "", *, since: int = 0, before: int = 2**62, limit: int = 50
    ) -> list[Event[Any]]:
        """Events that are kept, of one name or all, newest first; `since` is in milliseconds."""
        values = {"since": since, "before": before, "wanted": min(limit, MOST)}
        if name:
            return [_event(row) for row in self._read(EVENTS.search, name=name, **values)]
        return [_event(row) for row in self._read(EVENTS.newest, **values)]

    def get(self, identifier: int) -> Event[Any]:
        """One event; `NotFound` if there is none, or it is kept no more."""
        for row in self._read(EVENTS.event, id=int(identifier)):
            return _event(row)
        raise NotFound(f"there is no event {identifier}")

    def reached(self, identifier: int) -> list[Reached]:
        """What became of an event at each subscriber."""
        return [Reached(*row) for row in self._read(EVENTS.jobs_of, event=int(identifier))]

    def failed(self, subscriber: str, *, before: int = 2**62, limit: int = 50) -> list[FailedEvent]:
        """Events that a subscriber has given up on, newest first; go on with `before=` the last job."""
        found = self._given_up(subscriber, before, min(limit, MOST))
        return [each for job in found if (each := _failed(job)) is not None]

    def _given_up(self, subscriber: str, before: int, limit: int) -> list[Job[Any]]:
        return self.wiring.jobs.search(phase="failed", task=subscriber, before=before, limit=limit)

    def _read(self, statement: Any, **values: Any) -> list[Any]:
        with self.engine.database.reading() as tx:
            return tx.query(statement, values)

    # --- moving

    def redrive(self, subscriber: str, events: Sequence[int] | None = None) -> int:
        """Run failed events of a subscriber again, these or all; how many."""
        engine = self.engine
        return sum(
            len(engine.writer.call(engine.revive, part))
            for part in self._chosen(subscriber, events)
        )

    def purge(self, subscriber: str, events: Sequence[int] | None = None) -> int:
        """Forget failed events of a subscriber for good, these or all; how many."""
        return sum(self.wiring.jobs.purge(part) for part in self._chosen(subscriber, events))

    def _chosen(self, subscriber: str, events: Sequence[int] | None) -> Iterator[list[int]]:
        """Jobs of failed events, a chunk at a time; `NotFound` if one of those that are named is none."""
        missing, before = set(events or ()), 2**62
        chosen: list[list[int]] = []
        while found := self._given_up(subscriber, before, CHUNK):
            failed = [each for job in found if (each := _failed(job)) is not None]
            wanted = [each for each in failed if events is None or each.event.id in missing]
            missing -= {each.event.id for each in wanted}
            chosen.append([each.job for each in wanted])
            before = found[-1].id
        if missing:
            raise NotFound(f"{subscriber} has no failed event {min(missing)}")
        yield from filter(None, chosen)

    def unsubscribe(self, subscriber: str) -> None:
        """Give it no more events, until a worker starts that declares it; what it has stays, and runs."""
        engine = self.engine

        def verb(tx: Tx, names: list[str]) -> Sequence[bool]:
            return [verbs.unsubscribe(tx, name, engine) for name in names]

        if not engine.writer.call(verb, [subscriber])[0]:
            raise NotFound(f"there is no subscriber {subscriber!r}")

    atopics = averb(topics)
    asubscribers = averb(subscribers)
    asearch = averb(search)
    aget = averb(get)
    areached = averb(reached)
    afailed = averb(failed)
    aredrive = averb(redrive)
    apurge = averb(purge)
    aunsubscribe = averb(unsubscribe)


def _event(row: Sequence[Any]) -> Event[Any]:
    return Event(row[0], row[1], decode(row[2]), row[4])


def _failed(job: Job[Any]) -> FailedEvent | None:
    """None for a job of a plain task that had the subscriber's name before."""
    if not isinstance(payload := decode(job.payload).get("event"), dict):
        return None
    event = msgspec.convert(payload, Event[Any])
    ended = (job.failures, job.error, job.settled, job.crashes)
    return FailedEvent(event, job.task, job.id, *ended)


def declare_subscriber(
    part: Part,
    event: str,
    *,
    bulk: int | None = None,
    within: Duration = "5s",
    since: Duration | None = None,
    **options: Unpack[PolicyOptions],
) -> Callable[[Handler], Subscription]:
    """Register a function that gets every event of a name: `@app.on("app-enriched", bulk=10, within="5s")`.

    With `bulk` it gets a list of up to so many, `within` that time of the first; events that it returns, and
    all of them if it raises, run again one by one. `since="1d"`: when it is new it also gets what was
    published in that time. Other options are those of a task.
    """
    check_name("event", event)
    size = 1 if bulk is None else check_count("bulk", bulk, 1)

    def decorate(function: Handler) -> Subscription:
        if bulk is not None and options.get("isolation") is not None:
            raise UsageError("a bulk runs in the worker: leave isolation= out, or bulk=")
        made = Subscription(function, event, since)
        chosen: dict[str, Any] = {"retries": RETRIES, **options}
        made.task = part.contents.register(single(function, bulk=bulk is not None), chosen)
        made.bulk, made.within_ms = size, milliseconds(within) if size > 1 else 0
        if size > 1:
            _register_bulks(part, made, function, dict(options))
        part.contents.adopt(made)
        return made

    return decorate


def _register_bulks(
    part: Part, made: Subscription, function: Handler, options: dict[str, Any]
) -> None:
    bulks = Bulks(function, made.bulk, lambda: made.engine)
    bulks.definition = made.task.definition
    taken = ("queue", "priority", "timeout", "pace", "concurrency")
    chosen = {name: options[name] for name in taken if name in options}
    name = bulk_task(options.get("name") or made.__name__)
    runner = bulks.runner()
    runner.__qualname__ = f"{inspect.unwrap(function).__qualname__}.bulk"
    part.contents.register(runner, {**chosen, **TIRELESS, "name": name})
