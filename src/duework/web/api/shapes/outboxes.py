"""Outboxes by HTTP: their messages, and what can be decided about one."""

from __future__ import annotations

from collections.abc import Callable

from duework.byname import args_of, outbox_by_name
from duework.errors import UsageError
from duework.shapes.outboxes.messages import OutboxMessage
from duework.web.api.operation import (
    BASE,
    FIRST_ID,
    Answer,
    Ask,
    Operation,
    acts,
    line_of,
    noted,
    page_of,
    place_of,
    reads,
)
from duework.web.api.shape_types import MessageLine, MessageQuery, NewOutboxMessage, OutboxLine
from duework.web.api.types import Acted, Because, Listed, Made, Nothing


def outboxes(ask: Ask) -> Listed[OutboxLine]:
    """Every outbox that has messages, and how many in which state."""
    operator = ask.app.outboxes
    return Listed([OutboxLine(name, operator.counts(name)) for name in operator.names()], None)


def messages(ask: Ask) -> Listed[MessageLine]:
    """The messages of an outbox, newest first."""
    wanted: MessageQuery = ask.query
    found = ask.app.outboxes.messages(
        ask.path["outbox"],
        state=wanted.state or None,
        lane=wanted.lane or None,
        before=place_of(wanted.cursor, int, FIRST_ID),
        limit=wanted.limit,
    )
    return page_of(found, wanted.limit, _line, lambda each: each.id)


def submit(ask: Ask) -> Answer:
    """Queue a message; a key that is known is answered with its message, and another body is a conflict."""
    wanted: NewOutboxMessage = ask.body
    box = outbox_by_name(ask.app, ask.path["outbox"])
    if ask.key is not None and wanted.key not in {None, ask.key}:
        raise UsageError("the header Idempotency-Key and `key` are the same thing: give one")
    [given] = args_of(box.codec, [wanted.message])
    using = box.using(key=ask.key or wanted.key, lane=wanted.lane, priority=wanted.priority)
    made = using.using(delay=wanted.delay).enqueue(given)
    status = 200 if made.existed else 201
    return Answer(Made(str(made.id), made.existed), status, f"{BASE}/messages/{made.id}")


def message(ask: Ask) -> MessageLine:
    """One message as it is now."""
    return _line(ask.app.outboxes.get_message(ask.id()))


def _line(seen: OutboxMessage) -> MessageLine:
    return line_of(MessageLine, seen, id=str(seen.id), job=str(seen.job))


def retry(ask: Ask) -> MessageLine:
    """Queue a message again that failed, is unsure or was cancelled."""
    return _on(ask, "retry", ask.app.outboxes.retry)


def call_sent(ask: Ask) -> MessageLine:
    """Somebody has looked, and an unsure message has arrived."""
    return _on(ask, "call sent", ask.app.outboxes.call_sent)


def give_up(ask: Ask) -> MessageLine:
    """An unsure message has failed."""
    words = ask.body.why or f"given up by {ask.who.name}"
    return _on(ask, "give up", lambda each: ask.app.outboxes.give_up(each, words))


def cancel(ask: Ask) -> Acted:
    """End a queued message; a conflict if the other side has it already."""
    identifier = ask.id()
    words = ask.body.why or f"cancelled by {ask.who.name}"

    def act() -> str:
        return ask.app.outboxes.cancel(identifier, words)

    return Acted(str(identifier), noted(ask, "cancel", f"message {identifier}", act))


def _on(ask: Ask, what: str, act: Callable[[int], OutboxMessage]) -> MessageLine:
    identifier = ask.id()
    return _line(noted(ask, what, f"message {identifier}", lambda: act(identifier)))


OPERATIONS = (
    reads("/outboxes", outboxes, Listed[OutboxLine]),
    reads("/outboxes/{outbox}/messages", messages, Listed[MessageLine], MessageQuery),
    Operation(
        "POST",
        "/outboxes/{outbox}/messages",
        "operate",
        submit,
        Made,
        body=NewOutboxMessage,
        statuses=(201, 200),
        keyed=True,
    ),
    reads("/messages/{id}", message, MessageLine),
    acts("/messages/{id}/retry", retry, MessageLine, Nothing),
    acts("/messages/{id}/sent", call_sent, MessageLine, Nothing),
    acts("/messages/{id}/give-up", give_up, MessageLine, Because),
    acts("/messages/{id}/cancel", cancel, Acted, Because),
)
