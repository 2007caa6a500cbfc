"""What was really delivered, and what was asked: the receiver's own books.

The ledger holds effects alone: a mail that was accepted, a message that was posted. A call that was
refused, or dropped before it took effect, is in the log and not here. So "exactly one e-mail" is
`ledger.counts("key")`, whatever the sender believes.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

KEPT = 20_000


class Ledger:
    """Effects in the order in which they happened; nothing is ever taken out but by a reset."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []

    def add(self, kind: str, at: int, **facts: Any) -> dict[str, Any]:
        entry = {"n": len(self.entries) + 1, "at": at, "kind": kind, **facts}
        self.entries.append(entry)
        return entry

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [entry for entry in self.entries if entry["kind"] == kind]

    def counts(self, by: str, kind: str | None = None) -> dict[Any, int]:
        """How often each value of a fact occurs: {"order-881": 1, …}."""
        found = self.entries if kind is None else self.of(kind)
        return dict(Counter(entry[by] for entry in found if entry.get(by) is not None))

    def clear(self) -> None:
        self.entries = []


@dataclass(slots=True)
class Asked:
    """One call, as the receiver saw it; paths are left out, since they may hold secrets."""

    n: int
    at: int
    route: str
    method: str
    status: int | None = None  # None: there was no answer
    fault: str | None = None
    # "reached": refused by a limit. "ignored": refused again before the time the caller was told.
    limit: str | None = None
    notes: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {
            "n": self.n,
            "at": self.at,
            "route": self.route,
            "method": self.method,
            "status": self.status,
            "fault": self.fault,
            "limit": self.limit,
            **self.notes,
        }


class Log:
    """The calls, the latest of them in full; the counts are of all."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._asked: deque[Asked] = deque(maxlen=KEPT)
        self.calls = 0
        # How many calls are being answered now, and how many were at most.
        self.at_once = self.peak = 0

    @contextmanager
    def under_way(self) -> Iterator[None]:
        self.at_once += 1
        self.peak = max(self.peak, self.at_once)
        try:
            yield
        finally:
            # A reset in between has begun to count anew.
            self.at_once = max(0, self.at_once - 1)

    def open(self, at: int, route: str, method: str) -> Asked:
        self.calls += 1
        asked = Asked(self.calls, at, route, method)
        self._asked.append(asked)
        return asked

    @property
    def entries(self) -> list[Asked]:
        return list(self._asked)

    def of(self, route: str) -> list[Asked]:
        return [asked for asked in self.entries if asked.route == route]

    def over_limit(self) -> list[Asked]:
        """Calls that came although an earlier one had been told to wait."""
        return [asked for asked in self.entries if asked.limit == "ignored"]
