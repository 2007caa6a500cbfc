"""The receivers' side: what really arrived, and how to disturb them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote
from urllib.request import Request, urlopen

TIMEOUT = 10


class Receivers:
    """The twins, by name; what they hold is asked of them, never of us."""

    def __init__(
        self, urls: Mapping[str, str], earlier: Mapping[str, list[Any]] | None = None
    ) -> None:
        self.urls = dict(urls)
        # What arrived before the twins were started this time.
        self._earlier = {name: list(entries) for name, entries in (earlier or {}).items()}

    def ledger(self, name: str) -> list[dict[str, Any]]:
        """Everything that has arrived there."""
        now: list[dict[str, Any]] = self._ask(name, "ledger")
        return [*self._earlier.get(name, ()), *now]

    def counts(self, name: str, kind: str, *facts: str) -> Counter[tuple[Any, ...]]:
        """How often each combination of facts arrived."""
        return Counter(
            tuple(entry.get(fact) for fact in facts)
            for entry in self.ledger(name)
            if entry["kind"] == kind
        )

    def faults(self, name: str, *rules: dict[str, Any]) -> None:
        """Let the calls that come now go wrong as the rules say; none ends it."""
        self._ask(name, "faults", list(rules))

    def switch(self, twin: str, what: str, **values: Any) -> Any:
        """Turn a switch of a twin."""
        return self._ask(twin, f"switch/{quote(what)}", values)["result"]

    def _ask(self, name: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self.urls[name]}/_twin/{path}", data=data)  # noqa: S310 - loopback
        with urlopen(request, timeout=TIMEOUT) as reply:  # noqa: S310 - as above
            return json.load(reply)
