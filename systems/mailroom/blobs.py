"""Where attachments lie: in a table of this system, behind `keep`, `load` and `look`.

The id is made from the bytes, so that the same file of a tenant is stored once and a request that is
repeated stores nothing new. What no message has asked for in a while goes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from functools import lru_cache

import msgspec

from duework import NotFound, UsageError
from systems.mailroom.part import part

LARGEST = 10_000_000
LARGEST_MAIL = 15_000_000


class Blob(msgspec.Struct, frozen=True):
    """A stored file, without its bytes."""

    id: str
    type: str
    size: int


def keep(tenant: str, content: bytes, type_: str) -> Blob:
    """Store bytes; the same ones are the same blob."""
    if not content or len(content) > LARGEST:
        raise UsageError(f"a file has 1 to {LARGEST} bytes, not {len(content)}")
    blob = Blob(identity(tenant, content), type_, len(content))
    with part.app.transaction() as tx:
        now = part.app.now()
        if tx.write(USED, id=blob.id, now=now).changed:
            return blob
        text = base64.b64encode(content).decode()
        tx.write(
            INSERT, id=blob.id, tenant=tenant, type=type_, size=blob.size, content=text, now=now
        )
    return blob


def identity(tenant: str, content: bytes) -> str:
    return f"blob_{hashlib.sha256(tenant.encode() + b':' + content).hexdigest()[:40]}"


def decoded(text: str) -> bytes:
    """Base64 as a caller sends it."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise UsageError("the content of an attachment is base64") from None


def look(tenant: str, id_: str) -> Blob:
    """One of the tenant's, which is kept from now on; `UsageError` if there is none: a request named it."""
    with part.app.transaction() as tx:
        rows = tx.read(
            "select id, type, size from mailroom_blob where id = :id and tenant = :tenant",
            id=id_,
            tenant=tenant,
        )
        if not rows:
            raise UsageError(f"there is no blob {id_!r:.80}: POST it to /attachments first")
        tx.write(USED, id=id_, now=part.app.now())
    return Blob(rows[0].id, rows[0].type, rows[0].size)


@lru_cache(maxsize=32)
def load(id_: str) -> str:
    """The bytes in base64, as two of three providers take them."""
    rows = part.app.read("select content from mailroom_blob where id = :id", id=id_)
    if not rows:
        raise NotFound(f"the attachment {id_} is no longer stored")
    return str(rows[0].content)


def forget_before(before: int) -> None:
    """Delete what no message that still moves, or waits for somebody, names."""
    needed = {
        each
        for row in part.app.read(WAITING)
        for each in re.findall(r"blob_[0-9a-f]{40}", str(row.payload))
    }
    old = part.app.read("select id from mailroom_blob where used < :before", before=before)
    for row in old:
        if row.id not in needed:
            with part.app.transaction() as tx:
                tx.write(FORGET, id=row.id, before=before)


INSERT = """
insert into mailroom_blob (id, tenant, type, size, content, created, used)
values (:id, :tenant, :type, :size, :content, :now, :now)
on conflict (id) do update set used = excluded.used
"""
USED = "update mailroom_blob set used = :now where id = :id"
WAITING = """
select payload from mailroom_queue
where status in ('queued', 'sending', 'failed', 'unsure') and payload like '%blob%'
"""
FORGET = "delete from mailroom_blob where id = :id and used < :before"
