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
        self._before: dict[tuple[int, str], int] = {}

    def counted(self, event: dict[str, Any]) -> None:
        found = event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]
        self._sum += found - self._counted_before(event, found)

    def _counted_before(self, event: dict[str, Any], found: int) -> int:
        """A statement that begins with a comment goes on counting as long as it is prepared."""
        if not event["sql"].startswith("--"):
            return 0
        key = (id(event["connection"]), event["sql"])
        before, self._before[key] = self._before.get(key, 0), found
        return before if before <= found else 0

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
