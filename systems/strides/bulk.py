"""Many rows in few statements: a hundred in each, on either database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

CHUNK = 100


class Upsert:
    """An insert of rows into a table, with what to do about those that are there already."""

    def __init__(self, table: str, columns: Sequence[str], conflict: str) -> None:
        self._head = f"insert into {table} ({', '.join(columns)}) values "  # noqa: S608 - names of ours
        self.columns = tuple(columns)
        self._tail = f" on conflict {conflict}"
        self._text = lru_cache(maxsize=CHUNK)(self._written)

    def _written(self, count: int) -> str:
        rows = (
            "(" + ", ".join(f":{column}_{number}" for column in self.columns) + ")"
            for number in range(count)
        )
        return self._head + ", ".join(rows) + self._tail

    def write(self, to: Any, rows: Sequence[Mapping[str, Any]]) -> None:
        """By a run or in a transaction. No two of the rows may be the same by their key."""
        for chunk in _chunks(rows):
            values = {
                f"{column}_{number}": row[column]
                for number, row in enumerate(chunk)
                for column in self.columns
            }
            to.write(self._text(len(chunk)), **values)


def _chunks(rows: Sequence[Mapping[str, Any]]) -> list[Sequence[Mapping[str, Any]]]:
    return [rows[start : start + CHUNK] for start in range(0, len(rows), CHUNK)]
