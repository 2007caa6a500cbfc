"""Reports of providers: delivered, bounced, complained. Each is taken once, by its own id.

An address that bounces for good, or complains, is suppressed for its tenant by the same commit that
takes the report, through a job.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from typing import Any

import msgspec
from starlette.requests import Request

from duework import BadSignature, Person, Reply, webhooks
from systems.mailroom.part import part
from systems.mailroom.tenant import Tenant

MOST_BYTES = 1_000_000
# What the report of a provider is called here, and whether the address is written to no more.
RESEND = {
    "email.delivered": ("delivered", False),
    "email.delivery_delayed": ("delayed", False),
    "email.bounced": ("bounced", True),
    "email.complained": ("complained", True),
    "email.failed": ("failed", False),
}
ACS = {
    "Delivered": ("delivered", False),
    "Bounced": ("bounced", True),
    "Suppressed": ("bounced", True),
    "Quarantined": ("quarantined", False),
    "FilteredSpam": ("filtered", False),
    "Failed": ("failed", False),
}
REPORT = "Microsoft.Communication.EmailDeliveryReportReceived"
HANDSHAKE = "Microsoft.EventGrid.SubscriptionValidationEvent"


class Report(msgspec.Struct, frozen=True):
    """One thing that a provider says about one address of one message."""

    id: str
    ref: str
    what: str
    address: str
    suppresses: bool
    detail: str | None = None


@part.route("/reports/resend", methods=["POST"], auth="public", max_body=MOST_BYTES)
def from_resend(body: bytes, request: Request) -> Reply:
    """Signed by Resend's secret, as Standard Webhooks; 401 for anything else."""
    secret = part.settings.resend_reports
    if secret is None:
        return _refused("no secret for reports of Resend is set")
    try:
        id_ = webhooks.verify(secret.reveal(), request.headers, body, now=part.app.now())
    except BadSignature as error:
        return _refused(str(error))
    taken = take(_resend(id_, body))
    return Reply(200, {"taken": taken})


def _resend(id_: str, body: bytes) -> Iterable[Report]:
    found = _json(body)
    data = found.get("data") if isinstance(found, dict) else None
    if not isinstance(data, dict) or found.get("type") not in RESEND:
        return
    what, suppresses = RESEND[found["type"]]
    said = data.get("bounce")
    bounce: dict[str, Any] = said if isinstance(said, dict) else {}
    if what == "bounced" and bounce.get("type") not in (None, "Permanent"):
        suppresses = False
    tags = data.get("tags")
    ref = tags.get("ref") if isinstance(tags, dict) else None
    to = data.get("to")
    for address in to if isinstance(to, list) else [to]:
        # A mail to many is reported as a whole: which address bounced is not said.
        alone = not isinstance(to, list) or len(to) == 1
        detail = str(bounce.get("message", ""))[:500] or None
        yield Report(
            f"resend:{id_}:{address}", str(ref), what, str(address), suppresses and alone, detail
        )


def event_grid(request: Request) -> Person | None:
    """Azure Event Grid comes with the secret that its subscription was made with: `?code=`."""
    secret, given = part.settings.acs_reports, request.query_params.get("code", "")
    if secret is None or not hmac.compare_digest(secret.reveal().encode(), given.encode()):
        return None
    return Person(0, part.name, "event-grid")


@part.route("/reports/acs", methods=["POST"], auth=event_grid, max_body=MOST_BYTES)
def from_acs(body: bytes, person: Person) -> Reply:  # noqa: ARG001 - who it is was checked
    """Delivery reports of ACS by Event Grid, whose handshake is answered."""
    found = _json(body)
    events = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    for each in events:
        data = each.get("data")
        if each.get("eventType") == HANDSHAKE and isinstance(data, dict):
            return Reply(200, {"validationResponse": str(data.get("validationCode", ""))[:200]})
    return Reply(200, {"taken": take(each for event in events for each in _acs(event))})


def _acs(event: dict[str, Any]) -> Iterable[Report]:
    data = event.get("data")
    if event.get("eventType") != REPORT or not isinstance(data, dict):
        return
    what, suppresses = ACS.get(str(data.get("status")), ("", False))
    details = data.get("deliveryStatusDetails")
    said = details.get("statusMessage") if isinstance(details, dict) else None
    if what:
        yield Report(
            f"acs:{event.get('id')}",
            str(data.get("messageId", "")).lower(),
            what,
            str(data.get("recipient", "")),
            suppresses,
            None if said is None else str(said)[:500],
        )


def take(reports: Iterable[Report]) -> int:
    """Write down what is new and about a message of ours; how many those were."""
    with part.app.transaction() as tx:
        count = 0
        for each in reports:
            rows = tx.read("select key from mailroom_try where ref = :ref limit 1", ref=each.ref)
            if not rows:
                continue
            tenant, now = rows[0].key.partition(":")[0], part.app.now()
            facts: dict[str, Any] = {
                "what": each.what,
                "address": each.address[:254],
                "detail": each.detail,
            }
            done = tx.write(TAKE, id=each.id[:400], key=rows[0].key, tenant=tenant, at=now, **facts)
            if not done.changed and not done.inserted:
                continue
            count += 1
            if each.suppresses:
                tx.enqueue(suppress, tenant, each.address[:254], each.what)
        if count:
            tx.touch("outboxes")
    return count


@part.task(retries=10, backoff=("1s", "1m", "10m"), keep="1d")
def suppress(tenant: str, address: str, why: str) -> None:
    """From now on nothing of this tenant goes there; said again, it changes nothing."""
    part.app.object(Tenant, tenant).suppress(address, why, part.app.now()).result()


def _json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _refused(why: str) -> Reply:
    body = {"type": "about:blank", "title": "Unauthorized", "status": 401, "detail": why}
    return Reply(401, msgspec.json.encode(body), {"content-type": "application/problem+json"})


TAKE = """
insert into mailroom_event (id, key, tenant, at, what, address, detail)
values (:id, :key, :tenant, :at, :what, :address, :detail)
on conflict (id) do nothing
"""
