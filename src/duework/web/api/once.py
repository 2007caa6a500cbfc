"""The Idempotency-Key: a request that is sent again makes nothing new, and another one is refused.

The key is the engine's own, of a job or a batch. Beside it the number of the body is remembered, in the
table of keys that are used once and in the same commit: under a name that no task can have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from duework.db.database import Tx
from duework.kernel.lanes import JOBS
from duework.web.api.operation import Ask, KeyReused

if TYPE_CHECKING:
    from duework.kernel.engine import Engine

T = TypeVar("T")


def once(ask: Ask, kind: str, until: int, make: Callable[[Tx, bool], T]) -> T:
    """What `make` makes, in one commit with the key; it is told whether the key is a new one."""
    engine = ask.app.wiring.engine

    def verb(tx: Tx, asked: list[Ask]) -> list[T]:
        return [make(tx, _is_first(tx, engine, each, kind, until)) for each in asked]

    return engine.writer.call(verb, [ask])[0]


def made_once(ask: Ask, kind: str, until: int, make: Callable[[Tx], int]) -> tuple[int, bool]:
    """The same for what has no key of its own: its id is remembered, too; and whether it was there."""
    now = ask.app.wiring.engine.clock.now()
    name: dict[str, Any] = {"task": f"http {kind} id", "key": ask.key}

    def both(tx: Tx, is_first: bool) -> tuple[int, bool]:  # noqa: FBT001 - as `once` says
        if not is_first:
            return int(tx.query(JOBS.once_job, name)[0][0]), True
        made = make(tx)
        tx.query(JOBS.once, {**name, "job": made, "until": until, "now": now})
        return made, False

    return once(ask, kind, until, both)


def _is_first(tx: Tx, engine: Engine, ask: Ask, kind: str, until: int) -> bool:
    name: dict[str, Any] = {"task": f"http {kind}", "key": ask.key}
    values = {"job": ask.digest, "until": until, "now": engine.clock.now()}
    if tx.query(JOBS.once, {**name, **values}):
        return True
    if tx.query(JOBS.once_job, name)[0][0] != ask.digest:
        raise KeyReused(f"the Idempotency-Key {ask.key!r} was used for another body")
    return False
