"""Post mail: the tenant decides once for each key, then the message waits in the outbox.

These are two commits. A crash between them leaves a decision without a message, and a caller without an
answer; the same request again finds the decision and queues the message. The outbox knows the key too,
so nothing is queued twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duework import App, OutboxMessage
from systems.mailroom.mail import Mail, NewMessage
from systems.mailroom.outbox import box, row_key
from systems.mailroom.tenant import Tenant, Verdict, Wanted, check_key, check_tenant, rules


def post(app: App, tenant: str, key: str, new: NewMessage) -> OutboxMessage:
    """The message of this key; `existed` if it was there already."""
    [verdict] = decide(app, tenant, [Wanted(key, new)])
    found: OutboxMessage = _using(tenant, key, new).enqueue(_mail(tenant, new, verdict))
    return found


def post_many(app: App, tenant: str, wanted: Sequence[Wanted]) -> int:
    """Post all or none, in two commits; how many of them are new."""
    verdicts = decide(app, tenant, wanted)
    with app.transaction() as tx:
        for each, verdict in zip(wanted, verdicts, strict=True):
            tx.submit(_using(tenant, each.key, each.new), _mail(tenant, each.new, verdict))
    return sum(not verdict.known for verdict in verdicts)


def decide(app: App, tenant: str, wanted: Sequence[Wanted]) -> list[Verdict]:
    """What the tenant says about each; `Conflict` or `LimitReached` for all of them."""
    check_tenant(tenant)
    for each in wanted:
        check_key(each.key)
    handle = app.object(Tenant, tenant)
    found: list[Verdict] = handle.accept(list(wanted), rules(), app.now()).result()
    return found


def _using(tenant: str, key: str, new: NewMessage) -> Any:
    return box.using(key=row_key(tenant, key), lane=tenant, at=new.at)


def _mail(tenant: str, new: NewMessage, verdict: Verdict) -> Mail:
    return Mail(
        tenant=tenant,
        sender=verdict.sender,
        to=new.recipients,
        subject=new.subject,
        text=new.text,
        html=new.html,
        reply_to=new.reply_to,
        blocked=verdict.blocked,
    )
