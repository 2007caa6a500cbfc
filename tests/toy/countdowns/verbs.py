"""Verbs on countdowns: (tx, list) -> list. Each runs inside a transaction of the caller's."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from duework.clock import FOREVER
from duework.codec import encode
from duework.db.queries import load
from duework.errors import Conflict
from duework.kernel.facts import ShapeFact
from duework.kernel.job import KEEP, LaneName, NewJob

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duework.db.database import Tx
    from duework.kernel.engine import Engine

COUNTDOWNS = load(__package__ or "", "countdowns")
TASK = "countdowns.tick"


@dataclass(frozen=True, slots=True)
class Landed(ShapeFact):
    """A countdown has reached zero."""

    name: str


class NewCountdown(msgspec.Struct, frozen=True):
    name: str
    seconds: int


def start(tx: Tx, new: Sequence[NewCountdown], engine: Engine) -> list[int]:
    """Write countdowns, each with its first job; `Conflict` if a name is taken."""
    answers = []
    # By name: every transaction takes keys in one order.
    for each in sorted(new, key=lambda one: one.name):
        row = engine.ids.draw()
        values = {"id": row, "name": each.name, "remaining": each.seconds, "due": FOREVER}
        if not tx.query(COUNTDOWNS.insert, {**values, "job": _next(tx, row, engine)}):
            raise Conflict(f"there is a countdown {each.name!r} already")
        answers.append(row)
    return answers


def tick(tx: Tx, row: int, job: int, engine: Engine) -> None:
    """Count one down, in the settle of its job; the next job, or the end, is part of it."""
    for name, remaining in tx.query(COUNTDOWNS.tick, {"id": row, "job": job}):
        if remaining > 0:
            tx.query(COUNTDOWNS.go_on, {"id": row, "job": _next(tx, row, engine)})
        else:
            end(tx, row, "landed", engine)
            tx.after_commit.append(partial(engine.emit, Landed(name)))


def end(tx: Tx, row: int, state: str, engine: Engine) -> None:
    due = engine.clock.now() + KEEP
    tx.query(COUNTDOWNS.ended, {"id": row, "state": state, "due": due})


def _next(tx: Tx, row: int, engine: Engine) -> int:
    at = engine.clock.now() + 1000
    new = NewJob(LaneName("default", TASK), encode({"row": row}), at, owner=f"countdown:{row}")
    return engine.enqueue(tx, [new])[0].id


def listed(tx: Tx, wanted: int = 100) -> list[tuple[Any, ...]]:
    """Name, state and what is left."""
    return tx.query(COUNTDOWNS.listed, {"wanted": wanted})
