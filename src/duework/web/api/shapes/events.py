"""Events by HTTP: publish one, see who gets them and what failed there, run it again, forget it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from duework.db.database import Tx
from duework.errors import UsageError
from duework.kernel.job import new_event
from duework.shapes.events.handle import FailedEvent, Reached
from duework.shapes.events.verbs import Event, Subscriber
from duework.web.api.once import made_once
from duework.web.api.operation import (
    BASE,
    FIRST_ID,
    Answer,
    Ask,
    Operation,
    acts,
    id_of,
    line_of,
    noted,
    page_of,
    place_of,
    reads,
)
from duework.web.api.record_types import (
    ChosenEvents,
    EventDetail,
    EventLine,
    EventQuery,
    FailedEventLine,
    PublishEvent,
    ReachedLine,
    SubscriberLine,
)
from duework.web.api.shape_types import Count
from duework.web.api.types import Acted, Listed, Made, PageQuery

# As long as a job of the same kind of request.
REMEMBERED_MS = 86_400_000


def events(ask: Ask) -> Listed[EventLine]:
    """Events that are kept, of one name or all, newest first."""
    wanted: EventQuery = ask.query
    before = place_of(wanted.cursor, int, FIRST_ID)
    found = ask.app.events.search(wanted.name, before=before, limit=wanted.limit)
    return page_of(found, wanted.limit, lambda each: _line(ask, each), lambda each: each.id)


def event(ask: Ask) -> EventDetail:
    """One event, and what became of it at each subscriber."""
    found = ask.app.events.get(ask.id())
    reached = [_reached(each) for each in ask.app.events.reached(found.id)]
    return line_of(EventDetail, _line(ask, found), subscribers=reached)


def _line(ask: Ask, seen: Event[Any]) -> EventLine:
    return line_of(EventLine, seen, id=str(seen.id), payload=seen.payload if ask.payloads else None)


def _reached(seen: Reached) -> ReachedLine:
    return line_of(ReachedLine, seen, job=str(seen.job))


def publish(ask: Ask) -> Answer:
    """Publish an event; with an Idempotency-Key once, however often the request is sent."""
    new = new_event(ask.body.name, ask.body.payload)
    engine, write = ask.app.wiring.engine, ask.app.events.hooks.publish

    def make(tx: Tx) -> int:
        return write(tx, [new])[0]

    if ask.key is None:
        made, existed = engine.writer.call(write, [new])[0], False
    else:
        until = engine.clock.now() + REMEMBERED_MS
        made, existed = made_once(ask, "event", until, make)
    return Answer(Made(str(made), existed), 200 if existed else 201, f"{BASE}/events/{made}")


# --- who gets them


def subscribers(ask: Ask) -> Listed[SubscriberLine]:
    """Who gets which events, by name."""
    after = place_of(ask.query.cursor, str, "")
    found = ask.app.events.subscribers(after=after, limit=ask.query.limit)
    return page_of(found, ask.query.limit, _subscriber, lambda each: each.name)


def _subscriber(seen: Subscriber) -> SubscriberLine:
    return line_of(SubscriberLine, seen)


def failed(ask: Ask) -> Listed[FailedEventLine]:
    """Events that a subscriber has given up on, newest first."""
    before = place_of(ask.query.cursor, int, FIRST_ID)
    found = ask.app.events.failed(ask.path["name"], before=before, limit=ask.query.limit)
    return page_of(found, ask.query.limit, lambda each: _failed(ask, each), lambda each: each.job)


def _failed(ask: Ask, seen: FailedEvent) -> FailedEventLine:
    return line_of(FailedEventLine, seen, event=_line(ask, seen.event), job=str(seen.job))


def redrive(ask: Ask) -> Count:
    """Run failed events of a subscriber again; how many."""
    return _on(ask, "redrive", ask.app.events.redrive)


def purge(ask: Ask) -> Count:
    """Forget failed events of a subscriber for good; how many."""
    return _on(ask, "purge", ask.app.events.purge)


def _on(ask: Ask, what: str, act: Callable[[str, list[int] | None], int]) -> Count:
    wanted: ChosenEvents = ask.body
    if wanted.all == bool(wanted.events):
        raise UsageError('say which: `"events": [ids]`, or `"all": true`')
    name, chosen = ask.path["name"], [id_of(each) for each in wanted.events]
    target = f"subscriber {name}"
    return Count(noted(ask, what, target, lambda: act(name, None if wanted.all else chosen)))


def unsubscribe(ask: Ask) -> Acted:
    """Give it no more events, until a worker starts whose code declares it."""
    name = ask.path["name"]
    noted(ask, "unsubscribe", f"subscriber {name}", lambda: ask.app.events.unsubscribe(name))
    return Acted(name, "unsubscribed")


_ONE = "/subscribers/{name}"
OPERATIONS = (
    reads("/events", events, Listed[EventLine], EventQuery),
    Operation(
        "POST",
        "/events",
        "operate",
        publish,
        Made,
        body=PublishEvent,
        statuses=(201, 200),
        keyed=True,
    ),
    reads("/events/{id}", event, EventDetail),
    reads("/subscribers", subscribers, Listed[SubscriberLine], PageQuery),
    reads(f"{_ONE}/failed", failed, Listed[FailedEventLine], PageQuery),
    acts(f"{_ONE}/redrive", redrive, Count, ChosenEvents),
    acts(f"{_ONE}/purge", purge, Count, ChosenEvents),
    Operation("DELETE", _ONE, "operate", unsubscribe, Acted),
)
