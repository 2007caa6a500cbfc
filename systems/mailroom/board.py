"""What pages, routes and the command line show of messages: read, never written."""

from __future__ import annotations

from typing import Any

import msgspec

from duework import App, Conflict, NotFound, OutboxMessage
from systems.mailroom import tries
from systems.mailroom.outbox import box, own_key, plain
from systems.mailroom.part import part
from systems.mailroom.tenant import Tenant

STATES = ("queued", "sending", "sent", "failed", "unsure", "cancelled")
# Counting stops here: a page needs no more.
BOUND = 10_000
MOST = 200

_COUNT = (
    "select count(*) as n from (select 1 from mailroom_queue"
    " where (:tenant = '' or tenant = :tenant) and status = :status limit :bound) as bounded"
)
_LINES = "select * from mailroom_queue where (:tenant = '' or tenant = :tenant) and id < :before"
_NEWEST = " order by id desc limit :wanted"
_OLDEST = (
    "select created from mailroom_queue"
    " where (:tenant = '' or tenant = :tenant) and status = :status order by id limit 1"
)
_REPORTS = "select * from mailroom_event where key = :key order by at, id limit 200"


def listed(
    app: App,
    *,
    tenant: str | None = None,
    state: str | None = None,
    before: int = 0,
    limit: int = 50,
) -> list[dict[str, Any]]:
    """Messages, newest first; go on with `before=` the last id."""
    values = {"tenant": tenant or "", "before": before or 2**62}
    values["wanted"] = max(1, min(limit, MOST))
    if state is None:
        return [_line(row) for row in app.read(_LINES + _NEWEST, **values)]
    text = f"{_LINES} and status = :status{_NEWEST}"
    return [_line(row) for row in app.read(text, status=state, **values)]


def _line(row: Any) -> dict[str, Any]:
    mail = msgspec.json.decode(row.payload)["message"]
    return {
        "id": row.id,
        "tenant": row.tenant,
        "key": own_key(row.key),
        "state": row.status,
        "to": mail["to"],
        "subject": mail["subject"],
        "retries": row.retries,
        "error": row.error,
        "created": row.created,
        "settled": row.settled,
        "due": row.due,
        "job": row.job,
    }


def counts(app: App, tenant: str | None = None) -> dict[str, int]:
    """Messages by state, counted up to a bound."""
    found = {}
    for state in STATES:
        rows = app.read(_COUNT, tenant=tenant or "", status=state, bound=BOUND)
        found[state] = int(rows[0].n)
    return found


def success(counts: dict[str, int]) -> int | None:
    """Percent of the messages that were sent, of all that have ended one way or the other."""
    ended = counts["sent"] + counts["failed"] + counts["unsure"]
    return None if not ended else 100 * counts["sent"] // ended


def oldest(app: App, tenant: str | None = None) -> int | None:
    """When the oldest message was posted that is still on its way."""
    rows = [
        row.created
        for state in ("queued", "sending")
        for row in app.read(_OLDEST, tenant=tenant or "", status=state)
    ]
    return min(rows, default=None)


def found(identifier: int, tenant: str | None = None) -> OutboxMessage:
    """One message; `NotFound` if there is none, or it is somebody else's."""
    message = box.get_message(identifier)
    if message.outbox != box.name or (tenant is not None and message.lane != tenant):
        raise NotFound(f"there is no message {identifier}")
    return message


def shown(message: OutboxMessage) -> dict[str, Any]:
    """A message as the API answers; an id has more digits than a number of JavaScript keeps."""
    mail = plain(message)
    return {
        "id": str(message.id),
        "tenant": message.lane,
        "key": own_key(message.key),
        "state": message.state,
        "to": mail["to"],
        "subject": mail["subject"],
        "error": message.error,
        "submits": message.submits,
        "polls": message.polls,
        "created": message.created,
        "accepted": message.accepted,
        "polled": message.polled,
        "settled": message.settled,
        "attachments": mail.get("attachments") or [],
    }


def story(message: OutboxMessage) -> list[dict[str, Any]]:
    """The delivery log of a message: whom it was offered to, and what was reported afterwards."""
    keys = message.sent_keys
    lines = [_tried(row) for row in tries.of_message(part.app, keys)]
    # What the tenant was told stands under the message's own key.
    for key in dict.fromkeys([message.key, *keys]):
        lines += [_reported(row) for row in part.app.read(_REPORTS, key=key)]
    return sorted(lines, key=lambda each: int(each["at"]))


def _reported(row: Any) -> dict[str, Any]:
    return {"at": row.at, "what": row.what, "who": row.address, "detail": row.detail}


def _tried(row: Any) -> dict[str, Any]:
    words = "refused it" if row.state == "refused" else "was asked"
    times = "" if row.tries == 1 else f", {row.tries} times"
    return {"at": row.first_at, "what": f"{words}{times}", "who": row.provider, "detail": row.error}


def retry(identifier: int, tenant: str | None = None) -> OutboxMessage:
    """Queue a message again that failed or was cancelled; not one that another stands in the place of."""
    message = found(identifier, tenant)
    if message.state == "cancelled" and (message.error or "").startswith("changed"):
        raise Conflict(f"message {identifier} was {message.error}: cancel or retry that one")
    return box.retry(message.id)


def retry_failed(app: App, tenant: str | None = None) -> int:
    """Queue every failed message again, of one tenant or of all; how many."""
    if tenant is None:
        return box.retry_failed()
    count, last = 0, 0
    while lines := listed(app, tenant=tenant, state="failed", before=last, limit=MOST):
        for each in lines:
            box.retry(each["id"])
        count, last = count + len(lines), lines[-1]["id"]
    return count


def tenants(app: App) -> list[dict[str, Any]]:
    """Every tenant with its figures."""
    names = [each.key for each in app.objects("mailroom.Tenant")]
    return [{"name": name, **figures(app, name)} for name in names]


def figures(app: App, tenant: str) -> dict[str, int]:
    usual = part.settings.daily_limit
    made: dict[str, int] = app.object(Tenant, tenant).figures(usual, app.now()).result()
    return made
