"""Budgets, with the process lost before each statement in turn: the ledger adds up, no limit is broken."""

from __future__ import annotations

from decimal import Decimal

import pytest

from duework import Run
from duework.testing import Harness
from tests.crash.test_crash import (
    EFFECT,
    MOST,
    WRITE,
    effects,
    forget,
    in_every_call,
    nothing_is_held,
)
from tests.support.checks import is_sound


@pytest.fixture
def h(harness: Harness) -> Harness:
    with harness.app.transaction() as tx:
        tx.write(EFFECT)
    return harness


def forget_budgets(h: Harness) -> None:
    with h.app.transaction() as tx:
        for table in ("budget", "spend", "budget_waiter"):
            tx.write(f"delete from duework_{table}")


def test_a_lost_process_spends_what_it_had_reserved_and_never_more_than_there_is(
    h: Harness,
) -> None:
    llm = h.app.budget("llm", limit=1, per="hour")

    @h.app.task
    async def ask(run: Run, number: int) -> None:
        async with llm.reserve("0.4", hold="10m") as spend:
            spend.settle("0.3")
        run.write(WRITE, job=run.job.id, what=str(number))

    for k in range(1, MOST):
        forget(h)
        forget_budgets(h)
        for number in range(3):
            ask.enqueue(number)
        crashed = h.crash_worker(at=k)
        h.drain()
        nothing_is_held(h)
        is_sound(h)
        assert llm.status().spent + llm.status().reserved <= 1
        h.advance("15m")
        llm.prune()
        assert llm.status().reserved == 0
        states = {entry.state: entry.amount for entry in llm.status().ledger()}
        assert states.get("assumed", Decimal("0.4")) == Decimal("0.4")
        h.advance("3h")
        assert sorted(effects(h)) == ["0", "1", "2"]
        is_sound(h)
        if not crashed:
            assert k > 20
            return
    pytest.fail("it never got through")


def test_raising_happens_whole_or_not_at_all(h: Harness) -> None:
    llm = h.app.budget("llm", limit=1, per="month")

    @h.app.task
    async def ask() -> None:
        async with llm.reserve(1):
            pass

    def begin() -> list[str]:
        forget_budgets(h)
        ask.enqueue()
        ask.enqueue()
        h.drain()
        return []

    def act(answered: list[str]) -> None:
        h.app.get_budget("llm").raise_to(2)
        answered.append("raised")

    def check(answered: list[str]) -> None:
        is_sound(h)
        h.drain()
        done = [job for job in h.app.jobs(task="ask") if job.state == "done"]
        raised = llm.status().limit == 2
        assert raised or not answered
        assert len(done) == (2 if raised else 1)
        is_sound(h)

    in_every_call(h, begin, act, check, floor=4)
