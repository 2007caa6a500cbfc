"""A transaction that notes which statements it was given."""

from __future__ import annotations

from typing import Any


class Spied:
    """Passes everything on to a real transaction."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.names: list[str] = []

    def query(self, statement: Any, values: Any) -> Any:
        self.names.append(statement.name)
        return self._real.query(statement, values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)
