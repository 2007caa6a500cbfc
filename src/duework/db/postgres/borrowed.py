"""A synchronous face of the caller's own `psycopg.AsyncConnection`, inside an async SQLAlchemy too.

The statements of an enqueue are few: they run in the thread of the event loop, as those of an async
`app.transaction()` do, and wait for the server's answer there. The transaction, and the connection,
stay the caller's.
"""

from __future__ import annotations

from typing import Any

import psycopg

from duework.db.postgres.tx import OPEN
from duework.errors import UsageError


class Borrowed(psycopg.Connection[tuple[Any, ...]]):
    """The same session on the server, for as long as its owner does nothing with it."""

    def __init__(self, owner: psycopg.AsyncConnection[Any]) -> None:
        # Notices and notifications go on to the owner.
        notices, notifies = owner.pgconn.notice_handler, owner.pgconn.notify_handler
        super().__init__(owner.pgconn)
        owner.pgconn.notice_handler, owner.pgconn.notify_handler = notices, notifies
        # Names of prepared statements are the owner's.
        self.prepare_threshold = None

    def __del__(self, _warn: Any = None, /) -> None:
        """Nothing: the owner closes it, and psycopg would warn that it is open."""


def borrowed(owner: psycopg.AsyncConnection[Any]) -> Borrowed:
    """What an enqueue runs on; a transaction that has not begun begins as the owner would begin it."""
    if owner.lock.locked():
        raise UsageError("this connection is busy in another asyncio task: give each one its own")
    made = Borrowed(owner)
    if owner.info.transaction_status not in OPEN:
        made.set_isolation_level(owner.isolation_level)
        made.set_read_only(owner.read_only)
        made.set_deferrable(owner.deferrable)
        made.set_autocommit(owner.autocommit)
    return made
