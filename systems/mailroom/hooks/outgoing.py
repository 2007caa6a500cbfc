"""What became of a message, told to its tenant: one signed webhook for each end of each message.

Messages are found by when they ended, a minute of overlap included; that one is told is written down by the
commit that enqueues the telling. So what a crash leaves out is found again, and nothing is told twice by us.
A receiver knows a repeated webhook by its id.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

import msgspec

from duework import Channel, Fail, NotFound, Retry, Run, Send, UsageError, http, webhooks
from systems.mailroom.outbox import own_key
from systems.mailroom.part import part

OVERLAP_MS = 60_000
PAGE = 500
EVERY = "10s"
KEY = "mailroom:announce"
GONE = 410


class Hook(msgspec.Struct, frozen=True, kw_only=True):
    """Where a tenant is told; the secret only when it is made."""

    tenant: str
    url: str
    secret: str | None = None


def set_hook(tenant: str, url: str) -> Hook:
    """Tell this tenant from now on; a new secret, which is shown once."""
    try:
        http.Guard(part.settings.allowed).check(url)
    except http.Refused as refused:
        raise UsageError(f"this URL is not let through: {refused}") from refused
    secret, now = webhooks.new_secret(), part.app.now()
    with part.app.transaction() as tx:
        tx.write(SET, tenant=tenant, url=url, now=now)
        tx.seal(_secret(tenant), secret)
        # Only where somebody wants to be told is anything looked for.
        tx.schedule(announce, every=EVERY, key=KEY, why="tenants want to know what became of mail")
    return Hook(tenant=tenant, url=url, secret=secret)


def hook_of(tenant: str) -> Hook | None:
    rows = part.app.read("select * from mailroom_hook where tenant = :tenant", tenant=tenant)
    return Hook(tenant=tenant, url=rows[0].url) if rows else None


def drop_hook(tenant: str) -> None:
    with part.app.transaction() as tx:
        gone = tx.write("delete from mailroom_hook where tenant = :tenant", tenant=tenant)
        if not gone.changed:
            raise NotFound(f"{tenant} has no webhook")
        tx.forget(_secret(tenant))
        left = tx.read("select tenant from mailroom_hook limit 1")
        if not left:
            tx.enqueue(rest)


@part.task(retries=10, backoff=("1s", "1m"), keep=0)
def rest() -> None:
    """Nobody wants to be told any more: look for nothing."""
    if not part.app.read("select tenant from mailroom_hook limit 1"):
        try:
            part.app.get_schedule(KEY).delete()
        except NotFound:
            return


@part.task(keep=0, retries=3, backoff=("1s", "10s"))
def announce(run: Run) -> None:
    """Find what ended since the last look, and tell it."""
    for hook in run.read("select * from mailroom_hook order by tenant"):
        ended = run.read(ENDED, tenant=hook.tenant, since=hook.seen - OVERLAP_MS, wanted=PAGE)
        for each in ended:
            id_ = f"{each.id}:{each.settled}"
            run.enqueue(tell.using(key=f"mail-status:{id_}"), hook.tenant, _body(each))
            facts = {"key": each.key, "tenant": hook.tenant, "at": run.now, "detail": None}
            run.write(TOLD, id=f"told:{id_}", what=f"told: {each.status}", **facts)
        if ended:
            run.write(SEEN, tenant=hook.tenant, seen=ended[-1].settled)


def _body(row: Any) -> str:
    facts = {"id": str(row.id), "key": own_key(row.key), "state": row.status, "error": row.error}
    return json.dumps({"type": f"message.{row.status}", "timestamp": row.settled, "data": facts})


async def _send(to: Send, tenant: str, body: str, key: str) -> None:
    rows = part.app.read("select url from mailroom_hook where tenant = :tenant", tenant=tenant)
    if not rows:
        raise Fail("the tenant wants to be told no more")
    signed = webhooks.sign([to.secret(_secret(tenant))], key.replace(".", "-"), body, now=to.now)
    headers = {"content-type": "application/json", **signed}
    try:
        reply = await _client().post(rows[0].url, content=body, headers=headers)
    except http.Refused as refused:
        raise Fail(str(refused)) from refused
    except http.TooMany as slow:
        raise Retry(None, f"{slow.response.status} from the receiver") from None
    if reply.status == GONE:
        raise Fail("410: the receiver is gone")
    if not reply.ok:
        raise Retry(None, f"{reply.status} from {urlsplit(rows[0].url).hostname}")


_clients: dict[tuple[str, ...], http.Client] = {}


def _client() -> http.Client:
    allowed = part.settings.allowed
    if allowed not in _clients:
        _clients[allowed] = http.Client(guard=http.Guard(allowed), timeout="10s", limit=100_000)
    return _clients[allowed]


@part.delivery(
    channels={"webhook": Channel(_send, timeout="15s")},
    retries=8,
    backoff=("1m", "5m", "30m", "2h"),
)
def tell(tenant: str, body: str) -> dict[str, dict[str, str]]:
    """One webhook to one tenant."""
    return {"webhook": {"tenant": tenant, "body": body}}


def _secret(tenant: str) -> str:
    return f"mailroom:hook:{tenant}"


SET = """
insert into mailroom_hook (tenant, url, seen, created) values (:tenant, :url, :now, :now)
on conflict (tenant) do update set url = excluded.url
"""
ENDED = """
select q.id, q.key, q.status, q.error, q.settled from mailroom_queue q
where q.tenant = :tenant and q.settled > :since
    and not exists (select 1 from mailroom_event e where e.id = 'told:' || q.id || ':' || q.settled)
order by q.settled, q.id limit :wanted
"""
TOLD = """
insert into mailroom_event (id, key, tenant, at, what, address, detail)
values (:id, :key, :tenant, :at, :what, '', :detail) on conflict (id) do nothing
"""
SEEN = "update mailroom_hook set seen = :seen where tenant = :tenant and seen < :seen"
