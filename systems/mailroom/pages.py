"""Pages for operators: what is on its way, one message, the tenants; and what they can do there."""

from __future__ import annotations

import secrets
from typing import Any, Literal

import msgspec

from duework import NotFound, OutboxMessage, Template, UsageError
from systems.mailroom import board, templates
from systems.mailroom.hooks import outgoing
from systems.mailroom.mail import NewMessage, in_words, masked
from systems.mailroom.outbox import box, own_key, plain
from systems.mailroom.part import part
from systems.mailroom.posting import post
from systems.mailroom.tenant import LimitReached, Tenant, check_tenant

LANES = ("queued", "sending", "sent", "failed")
CARDS = 5
LONGEST = 70


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """The query: which tenant, which state, where to go on."""

    tenant: str = ""
    state: Literal["", "queued", "sending", "sent", "failed", "unsure", "cancelled"] = ""
    before: int = 0


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """The form for one mail."""

    tenant: str
    to: str
    subject: str
    text: str


class ForTenant(msgspec.Struct, frozen=True, kw_only=True):
    tenant: str = ""


class Suppressed(msgspec.Struct, frozen=True, kw_only=True):
    address: str
    undo: bool = False


# --- what is shown


# The form stays as it is while the rest changes.
@part.page("/", title="Mailroom", live=("outboxes",), regions=("summary", "lanes", "newest"))
def now(query: Chosen) -> Template:
    """Queued, sending, sent, failed: the newest of each."""
    app, tenant = part.app, query.tenant or None
    counts = board.counts(app, tenant)
    lanes = [(state, counts[state], _cards(state, tenant)) for state in LANES]
    newest = board.listed(app, tenant=tenant, limit=1)
    return Template(
        "now.html",
        tenant=query.tenant,
        names=[each.key for each in app.objects("mailroom.Tenant")],
        counts=counts,
        lanes=lanes,
        success=board.success(counts),
        oldest=board.oldest(app, tenant),
        newest=timeline(board.found(newest[0]["id"])) if newest else None,
    )


def _cards(state: str, tenant: str | None) -> list[dict[str, Any]]:
    lines = board.listed(part.app, tenant=tenant, state=state, limit=CARDS)
    return [_card(each) for each in lines]


def _card(line: dict[str, Any]) -> dict[str, Any]:
    """What a card says: for whom, and what happens next or why it failed."""
    to = line["to"]
    whom = masked(to[0]) if len(to) == 1 else f"{len(to)} people"
    card = {"id": line["id"], "subject": line["subject"], "whom": whom, "words": "", "at": None}
    if line["state"] in {"queued", "sending"}:
        card["words"] = "next" if line["state"] == "queued" else "poll"
        card["at"] = _next(line["job"])
    elif line["state"] == "sent":
        card["at"] = line["settled"]
    else:
        card["words"] = (line["error"] or "")[:LONGEST]
    return card


def _next(job: int) -> int | None:
    """When it goes on, if that is known and not now."""
    try:
        found = part.app.job(job)
    except NotFound:
        return None
    until = found.why().until
    return until if until is not None and until > part.app.now() else None


@part.page("/messages", title="All messages", live=("outboxes",))
def all_messages(query: Chosen) -> Template:
    lines = board.listed(
        part.app,
        tenant=query.tenant or None,
        state=query.state or None,
        before=query.before,
    )
    shown = [{**each, "whom": ", ".join(masked(to) for to in each["to"][:3])} for each in lines]
    more = lines[-1]["id"] if len(lines) == 50 else None  # noqa: PLR2004 - a page of the list
    return Template(
        "messages.html",
        lines=shown,
        more=more,
        tenant=query.tenant,
        state=query.state,
        states=board.STATES,
    )


@part.page("/messages/{id}", title="Message", nav=False, live=("outboxes",))
def message(id: int) -> Template:  # noqa: A002 - the path's own word
    found = board.found(id)
    mail = plain(found)
    story = board.story(found)
    return Template("message.html", message=found, mail=mail, life_of=timeline(found), story=story)


@part.page("/tenants", title="Tenants", live=("outboxes", "objects"))
def tenants() -> Template:
    return Template("tenants.html", tenants=board.tenants(part.app))


@part.page(
    "/tenants/{tenant}", title="Tenant", nav=False, live=("objects",), regions=("summary", "list")
)
def tenant_page(tenant: str) -> Template:
    if tenant not in {each.key for each in part.app.objects("mailroom.Tenant", prefix=tenant)}:
        raise NotFound(f"there is no tenant {tenant}")
    suppressed = part.app.object(Tenant, tenant).suppressed().result()
    figures = board.figures(part.app, tenant)
    return Template(
        "tenant.html",
        tenant=tenant,
        figures=figures,
        suppressed=suppressed,
        templates=templates.every(tenant),
        hook=outgoing.hook_of(tenant),
    )


def timeline(message: OutboxMessage) -> dict[str, Any]:
    """The life of a message on one axis: spans and marks in percent."""
    now = part.app.now()
    end = message.settled or max(now, message.created)
    length = max(1, end - message.created)

    def at(ms: int) -> float:
        return round(100 * min(1.0, max(0.0, (ms - message.created) / length)), 2)

    left = message.accepted or end
    rows: list[tuple[Any, ...]] = []
    span = [(0, at(left), "f-line")]
    first = "queued" if message.state == "queued" else "done"
    rows.append((first, "queued", span, [(0, "f-accent")], left - message.created))
    if message.accepted:
        marks = [(at(message.polled), "f-run")] if message.polled else []
        words = f"pending at {message.polls} polls" if message.polls else "with the provider"
        state = "done" if message.settled else "running"
        rows.append((state, words, [(at(left), at(end), "f-run-bg")], marks, end - left))
    if message.settled:
        colour = "f-did" if message.state == "sent" else "f-fail"
        rows.append((message.state, message.state, [], [(100, colour)], length))
    places = [(0, 0), (50, length // 2), (100, length)]
    return {
        "message": message,
        "mail": plain(message),
        "key": own_key(message.key),
        "rows": rows,
        "places": places,
        "settled": message.settled is not None,
    }


# --- what is done


@part.action("/send")
def send(form: Written) -> str:
    """Post one mail by hand."""
    try:
        new = msgspec.convert(
            {"to": form.to.strip(), "subject": form.subject, "text": form.text}, NewMessage
        )
        made = post(part.app, form.tenant, f"page-{secrets.token_hex(8)}", new)
    except (msgspec.ValidationError, LimitReached) as error:
        raise UsageError(in_words(str(error))) from None
    return f"Message {made.id} is queued"


@part.action("/retry-failed")
def retry_failed(form: ForTenant) -> str:
    """Queue every failed message again."""
    count = board.retry_failed(part.app, form.tenant or None)
    return f"{count} queued again"


@part.action("/messages/{id}/retry")
def retry(id: int) -> str:  # noqa: A002
    board.retry(id)
    return f"Message {id} is queued again"


@part.action("/messages/{id}/cancel")
def cancel(id: int) -> str:  # noqa: A002
    return f"Message {id} is {box.cancel(board.found(id).id)}"


@part.action("/messages/{id}/call-sent")
def call_sent(id: int) -> str:  # noqa: A002
    box.call_sent(board.found(id).id)
    return f"Message {id} counts as sent"


@part.action("/messages/{id}/give-up")
def give_up(id: int) -> str:  # noqa: A002
    box.give_up(board.found(id).id)
    return f"Message {id} has failed"


@part.action("/tenants/{tenant}/suppress")
def suppress(tenant: str, form: Suppressed) -> str:
    """Put an address on the list, or take it off."""
    handle, address = part.app.object(Tenant, check_tenant(tenant)), form.address.strip()
    if form.undo:
        handle.allow(address).result()
        return f"{masked(address)} may be written to again"
    if "@" not in address:
        raise UsageError("that is no address")
    handle.suppress(address, "by an operator", part.app.now()).result()
    return f"{masked(address)} is written to no more"
