"""Reports: an opportunity as it is now, behind a link that nobody can guess, for some days.

Of the link only a hash is kept. What is shown is a copy: it does not change when scout learns more. The page
has no script and sets no cookie.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from typing import Any

from duework import NotFound, UsageError
from systems.scout.crawl.tiers import DAY
from systems.scout.part import part

MOST_DAYS, MOST = 365, 200


def hashed(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def make(tx: Any, body: dict[str, Any], now: int, days: int = 30) -> str:
    """Keep a copy of an opportunity; the end of its link, which is shown once."""
    if not 1 <= days <= MOST_DAYS:
        raise UsageError(f"a report is kept for 1 to {MOST_DAYS} days")
    token = secrets.token_urlsafe(24)
    tx.write("delete from scout_report where expires_at <= :now", now=now)
    tx.write(
        "insert into scout_report (id, hash, cluster, name, body, made_at, expires_at)"
        " values (:id, :hash, :cluster, :name, :body, :now, :until)",
        id=secrets.token_hex(6),
        hash=hashed(token),
        cluster=body["it"]["cluster"],
        name=body["it"]["name"],
        body=json.dumps(body),
        now=now,
        until=now + days * DAY,
    )
    return token


def shown(token: str, now: int) -> dict[str, Any]:
    """What is behind a link; one that is wrong, old or revoked looks the same."""
    rows = part.app.read(
        "select * from scout_report where hash = :hash and expires_at > :now",
        hash=hashed(token),
        now=now,
    )
    if not rows:
        raise NotFound("there is no such report, or no longer")
    return {**json.loads(rows[0].body), "made_at": rows[0].made_at, "until": rows[0].expires_at}


def listed(now: int) -> list[Any]:
    """Those that still open, the newest first."""
    return part.app.read(
        "select id, cluster, name, made_at, expires_at from scout_report where expires_at > :now"
        " order by made_at desc limit :most",
        now=now,
        most=MOST,
    )


def revoke(tx: Any, id_: str) -> None:
    """From now on its link opens nothing."""
    if not tx.write("delete from scout_report where id = :id", id=id_).changed:
        raise NotFound(f"there is no report {id_}")
