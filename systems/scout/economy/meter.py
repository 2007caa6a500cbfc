"""How many rows a stage reads and writes, added up in the commit that does it.

Counted is what a statement gives back and what it changes, not what a database looks at on the way: no
statement of scout looks at more than it gives back without an index, and the tests of plans see to that.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from systems.scout.economy import ledger
from systems.scout.part import part

P = ParamSpec("P")
R = TypeVar("R")


class Meter:
    """A transaction, or a running attempt, whose rows are counted."""

    def __init__(self, to: Any) -> None:
        self._to = to
        self.read_rows = self.written_rows = 0

    def read(self, sql: str, /, **values: Any) -> list[Any]:
        rows: list[Any] = self._to.read(sql, **values)
        self.read_rows += len(rows)
        return rows

    def write(self, sql: str, /, rows: Any = None, **values: Any) -> Any:
        changes = self._to.write(sql, rows=rows, **values)
        # An attempt writes later: what it gives is what is known.
        given = 1 if rows is None else len(rows)
        self.written_rows += given if changes is None else changes.inserted + changes.changed
        return changes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._to, name)


def metered(
    stage: str,
) -> Callable[[Callable[Concatenate[Any, P], R]], Callable[Concatenate[Any, P], R]]:
    """For a function whose first argument reads and writes: its rows go to the ledger with them."""

    def around(function: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
        @functools.wraps(function)
        def measured(to: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
            meter = Meter(to)
            answer = function(meter, *args, **kwargs)
            used = {"units_in": meter.read_rows, "units_out": meter.written_rows}
            ledger.add(to, part.app.now(), "rows", stage, calls=1, **used)
            return answer

        return measured

    return around
