"""Counts the SQL statements of a process, as SQLite's own trace sees them.

`PRAGMA data_version` is counted apart: it reads one number in shared memory and asks no table.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import apsw


class Statements:
    """Counts from the moment it is made, on every connection that is opened later."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()
        apsw.connection_hooks.append(self._watch)

    def _watch(self, connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_STMT, self._count)

    def _count(self, event: dict[str, Any]) -> None:
        self._seen[event["sql"].strip().lower()] += 1

    def told(self) -> dict[str, int]:
        looks = sum(n for text, n in self._seen.items() if "data_version" in text)
        return {"statements": self._seen.total() - looks, "looks": looks}
