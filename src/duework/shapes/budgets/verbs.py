"""Verbs on budgets: (tx, list) -> list. A reservation is one conditional update, so none is ever over."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from duework.db.queries import load
from duework.errors import NotFound
from duework.kernel import moves
from duework.kernel.job import DAY
from duework.shapes.budgets.periods import period
from duework.shapes.shape import CHUNK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duework.db.database import Tx
    from duework.kernel.engine import Engine

BUDGETS = load(__package__ or "", "budgets")
# How long the ledger is kept.
LEDGER_KEPT = 400 * DAY
# So many of those who wait look again when something is given back; each that went through wakes one more.
WOKEN = 10


class BudgetTerms(msgspec.Struct, frozen=True):
    """What a budget was declared as."""

    name: str
    limit: int
    per: str
    tz: str


class NewSpend(msgspec.Struct, frozen=True):
    """A reservation that is asked for."""

    terms: BudgetTerms
    amount: int
    note: str
    # For how long it may stay open, in milliseconds.
    hold: int


class Reserved(msgspec.Struct, frozen=True):
    """What came of it: the number of the ledger row, or 0 and what is left until when."""

    id: int
    left: int = 0
    turn: int = 0


class SpendEnd(msgspec.Struct, frozen=True):
    """How a reservation ends."""

    id: int
    # None: as much as was reserved.
    amount: int | None = None
    state: str = "settled"


def bring_up(tx: Tx, terms: BudgetTerms, engine: Engine) -> tuple[int, int, int, int, int]:
    """The row of a budget in the present period: its begin and end, most, spent and reserved."""
    start, turn = period(engine.clock.now(), terms.per, terms.tz)
    values = {"name": terms.name, "limit": terms.limit, "per": terms.per, "tz": terms.tz}
    values |= {"period": start, "turn": turn}
    [row] = tx.query(BUDGETS.bring_up, values)
    if tuple(row[5:]) != (terms.limit, terms.per, terms.tz):
        _change(tx, row[5:], values, engine)
        [row] = tx.query(BUDGETS.bring_up, values)
    return row[0], row[1], row[2], row[3], row[4]


def _change(tx: Tx, known: Sequence[Any], values: dict[str, Any], engine: Engine) -> None:
    """The code has other terms than the row: those who wait look whether they may go on."""
    if known[0] != values["limit"]:
        tx.query(BUDGETS.new_limit, values)
    if tuple(known[1:]) != (values["per"], values["tz"]):
        tx.query(BUDGETS.into_period, values)
        tx.query(BUDGETS.new_period, values)
    jobs = [job for job, _ in tx.query(BUDGETS.waiters, {"name": values["name"]})]
    _wake(tx, jobs, engine)


def _wake(tx: Tx, jobs: Sequence[int], engine: Engine) -> None:
    for job in sorted(jobs):
        moves.wake(tx, job, now=engine.clock.now())
    if jobs:
        engine.ring_after(tx)


def reserve(tx: Tx, new: Sequence[NewSpend], engine: Engine) -> list[Reserved]:
    """Take amounts, as far as they are left."""
    now, answers = engine.clock.now(), dict[int, Reserved]()
    for place, each in sorted(enumerate(new), key=lambda one: one[1].terms.name):
        start, turn, most, spent, held = bring_up(tx, each.terms, engine)
        values = {"name": each.terms.name, "amount": each.amount}
        if not tx.query(BUDGETS.take, values):
            answers[place] = Reserved(0, most - spent - held, turn)
            continue
        answers[place] = Reserved(engine.ids.draw())
        entry = {"id": answers[place].id, "budget": each.terms.name, "period": start}
        times = {"at": now, "until": now + each.hold}
        tx.query(BUDGETS.enter, {**entry, **times, "amount": each.amount, "note": each.note})
    return [answers[place] for place in range(len(new))]


def settle(tx: Tx, ends: Sequence[SpendEnd], engine: Engine) -> list[None]:
    """End reservations; one that was assumed meanwhile is put right, one that has ended stays.

    What is given back lets some of those go on who wait for it.
    """
    now = engine.clock.now()
    rows = {row[0]: row for row in tx.query(BUDGETS.entries, {"ids": sorted({e.id for e in ends})})}
    spent: Counter[tuple[str, int]] = Counter()
    reserved: Counter[tuple[str, int]] = Counter()
    for end in ends:
        _, budget, start, amount, state = rows.pop(end.id, (0, "", 0, 0, "gone"))
        if state not in {"reserved", "assumed"}:
            continue
        used = amount if end.amount is None else end.amount
        (reserved if state == "reserved" else spent)[budget, start] -= amount
        spent[budget, start] += used
        values = {"id": end.id, "amount": used, "state": end.state, "now": now}
        tx.query(BUDGETS.end_entry, values)
    for name, start in sorted({*spent, *reserved}):
        sums = {"spent": spent[name, start], "reserved": reserved[name, start]}
        left = tx.query(BUDGETS.add_up, {"name": name, "period": start, **sums})
        if left and left[0][0] > 0:
            wanted = WOKEN if sum(sums.values()) < 0 else 1
            waiting = {"name": name, "period": start, "wanted": wanted}
            _wake(tx, [row[0] for row in tx.query(BUDGETS.some_waiters, waiting)], engine)
    return [None for _ in ends]


def wait(tx: Tx, terms: BudgetTerms, amount: int, job: int, now: int) -> None:
    """In the settle of a job that found nothing left: it is woken when somebody raises the limit."""
    for start, turn, most, spent, held in tx.query(BUDGETS.lock, {"name": terms.name}):
        if turn <= now or spent + held + amount <= most:
            # Raised, or given back, since it asked.
            moves.wake(tx, job, now=now)
        else:
            tx.query(BUDGETS.wait, {"name": terms.name, "job": job, "period": start})


def raise_to(tx: Tx, wanted: Sequence[tuple[str, int]], engine: Engine) -> list[None]:
    """Change limits, and let the jobs go on that wait for that."""
    for name, limit in sorted(wanted):
        found = tx.query(BUDGETS.raise_to, {"name": name, "limit": limit})
        if not found:
            raise NotFound(f"there is no budget {name}, or nothing was ever reserved of it")
        waiting = tx.query(BUDGETS.waiters, {"name": name})
        _wake(tx, [job for job, start in waiting if start == found[0][0]], engine)
    return [None for _ in wanted]


def prune(tx: Tx, engine: Engine) -> int:
    """Settle what was left open at its reserved amount; forget what is too old. How many."""
    now = engine.clock.now()
    left = [row[0] for row in tx.query(BUDGETS.left_open, {"now": now, "wanted": CHUNK})]
    settle(tx, [SpendEnd(each, None, "assumed") for each in left], engine)
    tx.query(BUDGETS.drop_waiters, {})
    values = {"until": now - LEDGER_KEPT, "wanted": CHUNK}
    return max(len(left), len(tx.query(BUDGETS.drop_entries, values)))
