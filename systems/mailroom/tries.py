"""Which provider was offered which message: written down before it is offered.

A message goes to another provider only if every one before is known not to have it. One that may have taken
it (no answer, an answer that says nothing, a worker that died inside the request) keeps it for good.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from duework import App


@dataclass(frozen=True, slots=True)
class Offer:
    """The provider that a message is offered to now; `sure`: nothing is open with it from before."""

    provider: str
    sure: bool


class Tries:
    """Rows of `mailroom_try`."""

    def __init__(self, app: Callable[[], App]) -> None:
        self._app = app

    def open_with(self, key: str) -> tuple[str | None, set[str]]:
        """The provider that may have it, and those that are known not to."""
        rows = self._app().read("select * from mailroom_try where key = :key", key=key)
        trying = [row.provider for row in rows if row.state == "trying"]
        return (trying[0] if trying else None), {
            row.provider for row in rows if row.state == "refused"
        }

    async def begin(self, key: str, provider: str, ref: str) -> None:
        """It is offered: committed before a byte goes out."""
        app = self._app()
        async with app.transaction() as tx:
            tx.write(BEGIN, key=key, provider=provider, ref=ref, now=app.now())

    async def refused(self, key: str, provider: str, error: str) -> None:
        """It is known not to have it."""
        app = self._app()
        async with app.transaction() as tx:
            tx.write(REFUSED, key=key, provider=provider, error=error[:500], now=app.now())

    async def failed(self, key: str, provider: str, error: str) -> None:
        """Nobody knows whether it has it."""
        app = self._app()
        async with app.transaction() as tx:
            tx.write(FAILED, key=key, provider=provider, error=error[:500], now=app.now())


def of_message(app: App, keys: Sequence[str]) -> Sequence[Any]:
    """The providers that a message was offered to under these keys, first things first."""
    rows = [row for key in keys for row in app.read(OFFERED, key=key)]
    return sorted(rows, key=lambda row: (int(row.first_at), str(row.provider)))


OFFERED = "select * from mailroom_try where key = :key"
BEGIN = """
insert into mailroom_try (key, provider, ref, state, tries, first_at, last_at)
values (:key, :provider, :ref, 'trying', 1, :now, :now)
on conflict (key, provider) do update set state = 'trying', tries = mailroom_try.tries + 1,
    last_at = excluded.last_at
"""
REFUSED = """
update mailroom_try set state = 'refused', error = :error, last_at = :now
where key = :key and provider = :provider
"""
FAILED = """
update mailroom_try set error = :error, last_at = :now where key = :key and provider = :provider
"""
