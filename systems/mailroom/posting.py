"""Post mail: the tenant decides once for each key, and queues the message with the same commit.

What a template makes, and where attachments lie, is settled before; the tenant's decision and the message
are there together or not at all.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from duework import App, Conflict, NotFound, OutboxMessage, UsageError
from duework.durations import moment
from systems.mailroom import blobs, templates
from systems.mailroom.mail import Attachment, Mail, NewMessage, in_words
from systems.mailroom.outbox import box, plain, row_key
from systems.mailroom.part import part
from systems.mailroom.tenant import (
    Tenant,
    Verdict,
    Wanted,
    cancelled,
    check_key,
    check_tenant,
    rules,
)

Keyed = tuple[str, NewMessage]


class InFlight(Conflict):
    """Another request with this key is being handled: its answer will be that of this one, too."""

    code = "in_flight"


_under_way: set[tuple[str, str]] = set()
_lock = threading.Lock()


@contextmanager
def flight(tenant: str, keys: Sequence[str]) -> Iterator[None]:
    """One request at a time for each key of a tenant; `InFlight` for the second."""
    mine = {(tenant, key) for key in keys}
    with _lock:
        if taken := mine & _under_way:
            name = min(taken)[1]
            raise InFlight(f"a request with the key {name!r} is being handled: ask again")
        _under_way.update(mine)
    try:
        yield
    finally:
        with _lock:
            _under_way.difference_update(mine)


def post(app: App, tenant: str, key: str, new: NewMessage) -> OutboxMessage:
    """The message of this key; `existed` if it was there already."""
    return post_many(app, tenant, [(key, new)])[0]


def post_many(app: App, tenant: str, wanted: Sequence[Keyed]) -> list[OutboxMessage]:
    """Post all or none, in one commit."""
    check_tenant(tenant)
    for key, _ in wanted:
        check_key(key)
    if len({key for key, _ in wanted}) < len(wanted):
        raise UsageError("a key is there twice: each message has its own")
    handle, now = app.object(Tenant, tenant), app.now()
    try:
        made = [Wanted(key, new.digest, _mail(tenant, new), _at(new, now)) for key, new in wanted]
    except (NotFound, UsageError):
        # Its template or its file may be gone since: what was taken stays taken.
        seen = handle.known([(key, new.digest) for key, new in wanted]).result()
        if None in seen:
            raise
        return [_found(app, tenant, each) for each in seen]
    verdicts: list[Verdict] = handle.accept(made, rules(), now).result()
    return [_found(app, tenant, each) for each in verdicts]


def _found(app: App, tenant: str, verdict: Verdict) -> OutboxMessage:
    rows = app.read(
        "select id from mailroom_queue where key = :key", key=row_key(tenant, verdict.key)
    )
    if not rows:
        raise Conflict(f"the message of the key {verdict.key!r} is no longer kept")
    return msgspec.structs.replace(box.get_message(rows[0].id), existed=verdict.known)


def _at(new: NewMessage, now: int) -> int | None:
    """Not before this; what is over says nothing."""
    found = None if new.at is None else moment(new.at)
    return found if found is not None and found > now else None


def _mail(tenant: str, new: NewMessage) -> Mail:
    """What will be sent, whole: a template may change later, this does not."""
    subject, text, html = new.subject or "", new.text, new.html
    if new.template is not None:
        made = templates.render(templates.find(tenant, new.template), new.values or {})
        subject, text, html = made.subject, made.text, made.html
    return Mail(
        tenant=tenant,
        sender=new.sender or part.settings.sender,
        to=new.recipients,
        subject=subject,
        text=text,
        html=html,
        reply_to=new.reply_to,
        attachments=_attachments(tenant, new),
    )


def _attachments(tenant: str, new: NewMessage) -> tuple[Attachment, ...]:
    found: list[Attachment] = []
    for each in new.attachments or ():
        if each.content is not None:
            blob = blobs.keep(tenant, blobs.decoded(each.content), each.type)
        else:
            blob = blobs.look(tenant, each.blob or "")
        kind = each.type if each.content is not None else blob.type
        found.append(Attachment(blob=blob.id, name=each.name, type=kind, size=blob.size))
    if sum(each.size for each in found) > blobs.LARGEST_MAIL:
        raise UsageError(f"the attachments of a mail have at most {blobs.LARGEST_MAIL} bytes")
    return tuple(found)


class MessageChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may be changed of a message that waits: what is left out stays."""

    at: Any = msgspec.UNSET
    to: Any = msgspec.UNSET
    subject: Any = msgspec.UNSET
    text: Any = msgspec.UNSET
    html: Any = msgspec.UNSET


def change(app: App, message: OutboxMessage, asked: MessageChange) -> OutboxMessage:
    """Put another message in the place of one that is queued; `Conflict` once the provider has it.

    First the change is written down, then the old message is cancelled, then the new one queued: a crash
    in between is brought to its end by the tenant's alarm, and at no time can both be sent.
    """
    if message.state != "queued":
        raise Conflict(f"message {message.id} is {message.state}: only what is queued is changed")
    tenant, key = message.lane, message.key.partition(":")[2]
    mail, at = _changed(message, asked)
    handle = app.object(Tenant, tenant)
    new: str = handle.plan_change(message.id, key, mail, at).result()
    if cancelled(message.id, f"changed: it is {new} now") != "cancelled":
        handle.drop_change(message.id).result()
        raise Conflict(f"message {message.id} is no longer queued")
    handle.apply_change(message.id).result()
    return _found(app, tenant, Verdict(new, None, known=False))


def _changed(message: OutboxMessage, asked: MessageChange) -> tuple[Mail, int | None]:
    """The mail with what was asked for, checked as a new one is."""
    stored: Mail = msgspec.convert(plain(message), Mail)
    given = {
        name: getattr(asked, name)
        for name in ("to", "subject", "text", "html")
        if getattr(asked, name) is not msgspec.UNSET
    }
    said = {"to": list(stored.to), "subject": stored.subject, "text": stored.text}
    said |= {"html": stored.html, **given}
    if asked.at is not msgspec.UNSET and asked.at is not None:
        said["at"] = asked.at
    try:
        new = msgspec.convert(said, NewMessage)
    except msgspec.ValidationError as error:
        raise UsageError(in_words(str(error))) from None
    mail = msgspec.structs.replace(
        stored, to=new.recipients, subject=new.subject or "", text=new.text, html=new.html
    )
    if asked.at is msgspec.UNSET:
        return mail, _due(message)
    return mail, _at(new, part.app.now())


def _due(message: OutboxMessage) -> int | None:
    """When the message was to be sent, if that is still to come."""
    job = part.app.job(message.job)
    return job.at if job.at > part.app.now() else None
