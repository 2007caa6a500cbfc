"""How much SQLite did: steps of its machine, in whatever was run on connections that were opened here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import apsw

from duework.db.sqlite.database import SqliteDatabase


class Steps:
    """Counts from zero on each time it is asked."""

    def __init__(self) -> None:
        self._sum = 0
        # A statement that is prepared already goes on counting.
        self._before: dict[tuple[int, str], int] = {}

    def counted(self, event: dict[str, Any]) -> None:
        key, now = (event["id"], event["sql"]), event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]
        before = self._before.get(key, 0)
        self._before[key] = now
        self._sum += now - before if now >= before else now

    def taken(self) -> int:
        """Since it was asked last."""
        found, self._sum = self._sum, 0
        return found


@contextmanager
def steps() -> Iterator[Steps]:
    """Count the steps of every connection of Duework's that is opened meanwhile."""
    counter, configure = Steps(), SqliteDatabase._configure  # noqa: SLF001 - where connections are made

    def counting(database: SqliteDatabase, connection: apsw.Connection) -> None:
        configure(database, connection)
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, counter.counted)

    with patch.object(SqliteDatabase, "_configure", counting):
        yield counter
