"""`duework events`: what was published, who gets it, and what failed there."""

from __future__ import annotations

import click
import msgspec

from duework import App, Event, FailedEvent
from duework.cli.base import Group, examples, on_database, sure
from duework.cli.jobs import MOST
from duework.cli.out import Out, ago, first_line
from duework.codec import encode
from duework.observe.log import escaped
from duework.observe.words import tally


@click.group(cls=Group)
def events() -> None:
    """Events: list, show, subscribers, and failed ones to look at, redrive and purge."""


@events.command(
    "list", epilog=examples("duework events list", "duework events list app-enriched --json")
)
@click.argument("name", required=False, default="")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, MOST))
@click.option("--before", type=int, default=2**62, show_default="none", help="Older than this id.")
@on_database()
def list_(app: App, out: Out, name: str, limit: int, before: int) -> None:
    """List events that are kept, of one NAME or all, newest first. With --json: one object per line."""
    found = app.events.search(name, before=before, limit=limit)
    if out.as_json:
        for event in found:
            out.json(as_dict(event))
        return
    if not found:
        out.say("no events")
        return
    now = app.now()
    rows = [(each.id, each.name, ago(each.at, now), _short(each.payload)) for each in found]
    out.table(["!id", "name", "!when", "payload"], rows)
    if len(found) == limit:
        out.say(f"more: --before {found[-1].id}", "dim")


def as_dict(event: Event[object]) -> dict[str, object]:
    return {**msgspec.structs.asdict(event), "id": str(event.id)}


def _short(payload: object) -> str:
    return escaped(encode(payload))[:100]


@events.command(epilog=examples("duework events show 251234567890123456"))
@click.argument("event_id", metavar="ID", type=int)
@on_database()
def show(app: App, out: Out, event_id: int) -> None:
    """Show one event, and what became of it at each subscriber."""
    event, reached = app.events.get(event_id), app.events.reached(event_id)
    if out.as_json:
        them = [{**msgspec.structs.asdict(each), "job": str(each.job)} for each in reached]
        out.json({**as_dict(event), "subscribers": them})
        return
    out.say(f"{event.name} {event.id}, {ago(event.at, app.now())}: {_short(event.payload)}")
    rows = [
        (
            each.subscriber,
            each.state or "over",
            tally(each.failures or 0, each.crashes or 0),
            each.job,
            first_line(each.error),
        )
        for each in reached
    ]
    out.table(["subscriber", "!state", ">failures", "!job", "error"], rows)


@events.command(epilog=examples("duework events subscribers", "duework events subscribers --json"))
@on_database()
def subscribers(app: App, out: Out) -> None:
    """List who gets which events."""
    found = app.events.subscribers(limit=MOST)
    if out.as_json:
        for each in found:
            out.json(msgspec.structs.asdict(each))
    elif found:
        rows = [(each.name, each.event, each.queue, each.bulk) for each in found]
        out.table(["subscriber", "event", "queue", ">bulk"], rows)
    else:
        out.say("no subscribers")


@events.command(
    epilog=examples("duework events failed score", "duework events failed score --json")
)
@click.argument("subscriber")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, MOST))
@click.option("--before", type=int, default=2**62, show_default="none", help="Older than this job.")
@on_database()
def failed(app: App, out: Out, subscriber: str, limit: int, before: int) -> None:
    """List events that a subscriber has given up on, newest first."""
    found = app.events.failed(subscriber, before=before, limit=limit)
    if out.as_json:
        for each in found:
            out.json(_failed(each))
        return
    if not found:
        out.say(f"no failed events of {subscriber}")
        return
    now = app.now()
    rows = [
        (
            *(each.event.id, each.job, tally(each.failures, each.crashes)),
            *(ago(each.settled, now), first_line(each.error)),
        )
        for each in found
    ]
    out.table(["!event", "!job", ">failures", "!when", "error"], rows)
    if len(found) == limit:
        out.say(f"more: --before {found[-1].job}", "dim")


def _failed(failed: FailedEvent) -> dict[str, object]:
    fields = msgspec.structs.asdict(failed)
    return {**fields, "event": as_dict(failed.event), "job": str(failed.job)}


@events.command(
    epilog=examples(
        "duework events redrive score", "duework events redrive score 251234567890123456"
    )
)
@click.argument("subscriber")
@click.argument("ids", metavar="[EVENT...]", type=int, nargs=-1)
@on_database()
def redrive(app: App, out: Out, subscriber: str, ids: tuple[int, ...]) -> None:
    """Run failed events of a subscriber again: these, or all of them."""
    _told(out, subscriber, "redriven", app.events.redrive(subscriber, ids or None))


@events.command(
    epilog=examples(
        "duework events purge score 251234567890123456", "duework events purge score --yes"
    )
)
@click.argument("subscriber")
@click.argument("ids", metavar="[EVENT...]", type=int, nargs=-1)
@click.option("--yes", is_flag=True, help="Do not ask.")
@on_database()
def purge(app: App, out: Out, subscriber: str, *, ids: tuple[int, ...], yes: bool) -> None:
    """Forget failed events of a subscriber for good: these, or all of them."""
    some = "1 failed event" if len(ids) == 1 else f"{len(ids)} failed events"
    which = some if ids else "every failed event"
    sure(f"Forget {which} of {subscriber} for good?", yes=yes, as_json=out.as_json)
    _told(out, subscriber, "purged", app.events.purge(subscriber, ids or None))


def _told(out: Out, subscriber: str, word: str, count: int) -> None:
    if out.as_json:
        out.json({"subscriber": subscriber, word: count})
    else:
        out.say(f"{word}: {count}")


@events.command(epilog=examples("duework events unsubscribe score"))
@click.argument("subscriber")
@on_database()
def unsubscribe(app: App, out: Out, subscriber: str) -> None:
    """Give a subscriber no more events, until a worker starts whose code declares it."""
    app.events.unsubscribe(subscriber)
    _told(out, subscriber, "unsubscribed", 1)
