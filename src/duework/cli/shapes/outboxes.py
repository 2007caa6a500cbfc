"""`duework outboxes`: messages on their way to somebody else's system."""

from __future__ import annotations

import click
import msgspec

from duework import App, OutboxMessage, UsageError
from duework.cli.base import OK, Group, examples, on_database
from duework.cli.jobs import MOST, each_of
from duework.cli.out import Out, ago, at_least, first_line
from duework.observe.log import escaped

_STATES = ["queued", "sending", "sent", "failed", "unsure", "cancelled"]


@click.group(cls=Group)
def outboxes() -> None:
    """Messages of outboxes: list, show, retry, cancel, and decide on what is unsure."""


@outboxes.command(
    "list",
    epilog=examples("duework outboxes list", "duework outboxes list email --state failed --json"),
)
@click.argument("name", required=False)
@click.option("--state", type=click.Choice(_STATES), default="failed", show_default=True)
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, MOST))
@click.option("--before", type=int, default=2**62, show_default="none", help="Older than this id.")
@on_database()
def list_(app: App, out: Out, name: str | None, state: str, limit: int, before: int) -> None:
    """List outboxes, or with NAME its messages in one state. With --json: one object per line."""
    operator = app.outboxes
    if name is None:
        rows = [{"outbox": each, **operator.counts(each)} for each in operator.names()]
        if out.as_json:
            for row in rows:
                out.json(row)
        elif rows:
            table = [
                (row["outbox"], *(at_least(int(str(row[key]))) for key in _STATES)) for row in rows
            ]
            out.table(["outbox", *(f">{key}" for key in _STATES)], table)
        else:
            out.say("no outbox has messages")
        return
    found = operator.messages(name, state=state, before=before, limit=limit)  # type: ignore[arg-type]
    if out.as_json:
        for message in found:
            out.json(as_dict(message))
    elif found:
        now = app.now()
        out.table(
            ["!id", ">submits", ">polls", "!when", "key or error"],
            [
                (
                    *(each.id, each.submits, each.polls, ago(each.settled or each.created, now)),
                    first_line(each.error) or each.key,
                )
                for each in found
            ],
        )
        if len(found) == limit:
            out.say(f"more: --before {found[-1].id}", "dim")
    else:
        out.say(f"no {state} messages in {name}")


def as_dict(message: OutboxMessage) -> dict[str, object]:
    fields = msgspec.structs.asdict(message)
    fields.pop("existed")
    fields["message"] = message.message
    fields.pop("stored")
    return {**fields, "id": str(message.id), "job": str(message.job)}


@outboxes.command(epilog=examples("duework outboxes show 251234567890123456"))
@click.argument("message_id", metavar="ID", type=int)
@on_database()
def show(app: App, out: Out, message_id: int) -> None:
    """Show one message: its state, its key, its handle, and the last error."""
    message = app.outboxes.get_message(message_id)
    if out.as_json:
        out.json(as_dict(message))
        return
    now = app.now()
    times = {"created", "accepted", "polled", "settled", "unsure_since"}
    fields = {name: value for name, value in as_dict(message).items() if value not in (None, "")}
    body = fields.pop("message", None)
    rows = [
        (name.replace("_", " "), ago(int(str(value)), now) if name in times else value)
        for name, value in fields.items()
    ]
    out.table(["!", "*"], rows)
    if isinstance(body, dict) and body:
        out.say("")
        out.table(["!body", "*"], list(body.items()))
    elif body is not None:
        out.say("")
        out.say(f"body: {escaped(str(body))}")


@outboxes.command(
    epilog=examples(
        "duework outboxes retry 251234567890123456", "duework outboxes retry --failed email"
    )
)
@click.argument("ids", metavar="[ID...]", type=int, nargs=-1)
@click.option("--failed", metavar="NAME", help="Every failed message of this outbox.")
@on_database()
def retry(app: App, out: Out, ids: tuple[int, ...], failed: str | None) -> int:
    """Queue messages again that failed; one by one also those that are unsure or were cancelled."""
    if bool(ids) == (failed is not None):
        raise UsageError("give ids, or --failed NAME")
    if failed is None:
        return each_of(out, ids, lambda each: app.outboxes.retry(each).state)
    count = sum(app.outboxes.retry_failed(failed))
    if out.as_json:
        out.json({"outbox": failed, "queued": count})
    else:
        out.say(f"{count} queued")
    return OK


@outboxes.command(epilog=examples("duework outboxes cancel 251234567890123456"))
@click.argument("ids", metavar="ID...", type=int, nargs=-1, required=True)
@on_database()
def cancel(app: App, out: Out, ids: tuple[int, ...]) -> int:
    """Cancel queued messages; what the other side has already cannot be cancelled."""
    return each_of(out, ids, app.outboxes.cancel)


@outboxes.command(epilog=examples("duework outboxes sent 251234567890123456"))
@click.argument("ids", metavar="ID...", type=int, nargs=-1, required=True)
@on_database()
def sent(app: App, out: Out, ids: tuple[int, ...]) -> int:
    """Call unsure messages sent: somebody has looked, and they have arrived."""
    return each_of(out, ids, lambda each: app.outboxes.call_sent(each).state)


@outboxes.command("give-up", epilog=examples("duework outboxes give-up 251234567890123456"))
@click.argument("ids", metavar="ID...", type=int, nargs=-1, required=True)
@on_database()
def give_up(app: App, out: Out, ids: tuple[int, ...]) -> int:
    """Call unsure messages failed; `retry` sends an unsure one again."""
    return each_of(out, ids, lambda each: app.outboxes.give_up(each).state)
