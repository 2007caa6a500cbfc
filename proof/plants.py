"""Bugs to plant: each breaks one thing that the engine promises, for a section to find.

They patch the source in memory only. `simulation` enters them; `program.py`, the program of the storms,
enters the one that the variable PROOF_PLANT names.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from duework.db.database import Retryable, Tx
from duework.db.postgres.database import PostgresDatabase
from duework.db.queries import Statement
from duework.db.sqlite.database import SqliteDatabase
from duework.kernel import settle
from duework.kernel.lanes import JOBS
from duework.kernel.tasks import Registry
from duework.worker.lease_keeper import LeaseKeeper
from duework.worker.rounds import Round, RoundResult, Rounds

Plant = Callable[[], contextlib.AbstractContextManager[Any]]


def _changed(statement: Statement, old: str, new: str) -> Statement:
    assert old in statement.sqlite, f"the statement has changed: {statement.name}"
    texts = (statement.sqlite.replace(old, new), statement.postgres.replace(old, new))
    return Statement(statement.name, *texts, statement.names)


def _no_fence() -> Any:
    """Whoever settles is believed."""
    return mock.patch.object(settle, "_still_ours", return_value=True)


@contextlib.contextmanager
def _effects_apart() -> Iterator[None]:
    """Effects are committed, and then the ending is."""
    ask = Rounds.ask

    async def apart(self: Rounds, turn: Round) -> RoundResult:
        def effects(tx: Tx, endings: list[Any]) -> list[None]:
            for ending in endings:
                for effect in ending.effects:
                    effect(tx)
            return [None for _ in endings]

        await self._engine.writer.acall(effects, list(turn.endings), patience=None)
        bare = [ending.but(effects=()) for ending in turn.endings]
        rest = Round(bare, turn.want, turn.dead, turn.uncharged, turn.progress)
        return await ask(self, rest)

    with mock.patch.object(Rounds, "ask", apart):
        yield


def _endless_leases() -> Any:
    """Nobody writes off what has ended."""
    return mock.patch("duework.worker.rounds.recover", return_value=[])


def _same_fence() -> Any:
    """A claim leaves the fence as it is."""
    text = _changed(JOBS.claim, "fence = max(fence, +:floor) + 1", "fence = max(fence, 1 + :floor)")
    return mock.patch.object(JOBS, "claim", text)


def _never_happened() -> Any:
    """A commit whose answer was lost counts as one that did not happen."""

    def refuse(_: Any, __: Any, error: Exception) -> None:
        raise Retryable(f"the commit failed ({error})")

    def after(self: SqliteDatabase, connection: Any, error: Exception) -> None:
        self._drop_connections()
        refuse(self, connection, error)

    return mock.patch.object(SqliteDatabase, "_after_failed_commit", after)


def _server_never_happened() -> Any:
    """The same where a server has the database."""

    def decide(_: Any, error: Exception) -> None:
        raise Retryable(f"the connection was lost before the commit ({error})")

    return mock.patch.object(PostgresDatabase, "_decide", decide)


def _no_extension() -> Any:
    """Leases are not kept."""
    return mock.patch.object(LeaseKeeper, "_try_extend", return_value=True)


def _no_limit() -> Any:
    """Everybody counts only what they take themselves."""
    empty = _changed(JOBS.running, "where worker is not null", "where false")
    return mock.patch.object(JOBS, "running", empty)


def _too_early() -> Any:
    """What is put off may be claimed at once."""
    text = _changed(JOBS.claim, "due <= +:now", "due <= +:now + 600")
    return mock.patch.object(JOBS, "claim", text)


def _disorder() -> Any:
    """The last come is served first."""
    text = _changed(JOBS.claim, "order by due, id", "order by due desc, id desc")
    return mock.patch.object(JOBS, "claim", text)


def _greedy() -> Any:
    """Whatever its task is called, it is claimed."""

    class Anything(dict[str, str]):
        def __contains__(self, _: object) -> bool:
            return True

        def __missing__(self, _: str) -> str:
            return "async"

    pools = Registry.pools
    return mock.patch.object(Registry, "pools", lambda self: Anything(pools(self)))


PLANTS: dict[str, Plant] = {
    "a settle does not look at the fence": _no_fence,
    "effects are committed apart from the ending": _effects_apart,
    "a lease never ends": _endless_leases,
    "a claim does not raise the fence": _same_fence,
    "a lost answer is taken for a failed commit": _never_happened,
    "a lost answer of the server is taken for a failed commit": _server_never_happened,
    "leases are not extended": _no_extension,
    "a limit counts only this process": _no_limit,
    "a delay is not waited for": _too_early,
    "a lane is claimed from its end": _disorder,
    "a worker takes what it does not know": _greedy,
}
