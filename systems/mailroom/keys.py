"""API keys of tenants: a random text that is shown once; the table has its hash."""

from __future__ import annotations

import hashlib
import secrets

from duework import App
from systems.mailroom.tenant import check_tenant

PREFIX = "mr_"


def new_key(app: App, tenant: str, name: str = "default") -> str:
    """A new key of a tenant; the others stay."""
    check_tenant(tenant)
    key = PREFIX + secrets.token_urlsafe(24)
    with app.transaction() as tx:
        tx.write(
            "insert into mailroom_key (hash, tenant, name, created)"
            " values (:hash, :tenant, :name, :now)",
            hash=hashed(key),
            tenant=tenant,
            name=name,
            now=app.now(),
        )
    return key


def tenant_of(app: App, key: str) -> str | None:
    """Whose key it is, if it is one."""
    if not key.startswith(PREFIX):
        return None
    rows = app.read("select tenant from mailroom_key where hash = :hash", hash=hashed(key))
    return str(rows[0].tenant) if rows else None


def revoke(app: App, tenant: str, name: str) -> int:
    """Take away a tenant's keys of this name; how many there were."""
    with app.transaction() as tx:
        gone = tx.write(
            "delete from mailroom_key where tenant = :tenant and name = :name",
            tenant=tenant,
            name=name,
        )
    return gone.changed


def hashed(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
