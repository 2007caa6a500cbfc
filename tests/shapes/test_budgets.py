"""Budgets: nothing beyond the limit is reserved, the ledger adds up, and who waits goes on when it may."""

from __future__ import annotations

import asyncio
import threading
from decimal import Decimal
from typing import Any

import pytest

from duework import App, BudgetSpent, NotFound, Run, UsageError
from duework.shapes.budgets.periods import millionths, period, shown
from duework.shapes.budgets.verbs import WOKEN
from duework.testing import Harness
from tests.support.checks import is_sound
from tests.support.harness import HarnessOn
from tests.support.working import eventually


def ms(text: str) -> int:
    from datetime import datetime

    return round(datetime.fromisoformat(text).timestamp() * 1000)


def test_what_was_reserved_is_settled_or_released_and_the_ledger_says_so(harness: Harness) -> None:
    llm = harness.app.budget("llm", limit=1, per="day")
    with llm.reserve("0.4", note="summary") as spend:
        assert llm.status().reserved == Decimal("0.4")
        spend.settle(0.25)
    with llm.reserve(0.5) as spend:
        spend.release()
    with llm.reserve(0.1):
        pass

    found = llm.status()
    assert (found.spent, found.reserved, found.left) == (Decimal("0.35"), 0, Decimal("0.65"))
    ledger = [(each.state, each.amount, each.note) for each in found.ledger()]
    assert ledger == [
        ("settled", Decimal("0.1"), ""),
        ("released", 0, ""),
        ("settled", Decimal("0.25"), "summary"),
    ]
    is_sound(harness)


def test_a_block_that_raises_has_spent_what_it_reserved(harness: Harness) -> None:
    llm = harness.app.budget("llm", limit=1)
    with pytest.raises(ValueError, match="lost"), llm.reserve(0.5):
        raise ValueError("lost")
    assert llm.status().spent == Decimal("0.5")
    with pytest.raises(BudgetSpent, match=r"has 0.50 left this day, and 0.60 is wanted"):
        llm.reserve(0.6).__enter__()
    assert llm.status().spent == Decimal("0.5")
    is_sound(harness)


def test_async_code_reserves_with_async_with(harness: Harness) -> None:
    llm = harness.app.budget("llm", limit=1)

    async def work() -> None:
        async with llm.reserve(0.5) as spend:
            spend.settle(0.2)

    asyncio.run(work())
    assert llm.status().spent == Decimal("0.2")


def test_what_was_reserved_for_a_task_that_is_cancelled_meanwhile_is_given_back(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    llm = harness.app.budget("llm", limit=1)
    asked, go_on, take = threading.Event(), threading.Event(), llm.take

    def slowly(new: Any) -> int:
        asked.set()
        go_on.wait(10)
        return take(new)

    async def spend() -> None:
        async with llm.reserve(0.5):
            raise AssertionError("it was cancelled before")

    def released() -> bool:
        return [each.state for each in llm.status().ledger()] == ["released"]

    async def program() -> None:
        task = asyncio.create_task(spend())
        await asyncio.to_thread(asked.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()
        await asyncio.to_thread(eventually, released)

    monkeypatch.setattr(llm, "take", slowly)
    asyncio.run(program())
    assert llm.status().left == 1
    is_sound(harness)


def test_a_task_that_finds_nothing_left_waits_for_the_turn_and_counts_no_failure(
    harness: Harness,
) -> None:
    h = harness
    llm = h.app.budget("llm", limit=1, per="day")
    times: list[int] = []

    @h.app.task
    async def ask(run: Run) -> int:
        async with llm.reserve(0.6):
            times.append(run.now)
        return run.attempt

    jobs = [ask.enqueue() for _ in range(3)]
    begun = h.now
    h.advance("3d")

    assert [h.app.job(job.id).result for job in jobs] == [1, 1, 1]
    turns = [period(at, "day", "UTC")[0] for at in times]
    assert len(set(turns)) == 3
    assert times[1] == period(begun, "day", "UTC")[1]
    is_sound(h)


def test_raising_it_lets_those_go_on_who_wait(harness: Harness) -> None:
    h = harness
    llm = h.app.budget("llm", limit=1, per="month")

    @h.app.task
    async def ask() -> str:
        async with llm.reserve(0.6):
            return "asked"

    jobs = [ask.enqueue() for _ in range(3)]
    h.drain()
    assert sorted(h.app.job(job.id).phase for job in jobs) == ["done", "waiting", "waiting"]
    h.app.get_budget("llm").raise_to(2)
    h.drain()

    assert [h.app.job(job.id).phase for job in jobs] == ["done", "done", "done"]
    assert llm.status().limit == 2
    is_sound(h)


def test_what_the_code_says_anew_replaces_what_was_raised(harness: Harness, emptied: str) -> None:
    llm = harness.app.budget("llm", limit=1)
    llm.raise_to(3)
    assert llm.status().limit == 3
    other = App(emptied, clock=harness.app.wiring.bound.clock)
    assert other.budget("llm", limit=2).status().limit == 2
    other.close()


def test_a_reservation_whose_process_died_is_settled_as_it_is(harness: Harness) -> None:
    h = harness
    llm = h.app.budget("llm", limit=1)
    spend = llm.reserve(0.5, hold="10m")
    spend.__enter__()
    h.advance("5m")
    llm.prune()
    assert llm.status().reserved == Decimal("0.5")
    h.advance("6m")
    llm.prune()
    found = llm.status()
    assert (found.reserved, found.spent) == (0, Decimal("0.5"))
    assert found.ledger()[0].state == "assumed"
    is_sound(h)
    # It was only slow.
    spend.settle(0.1)
    spend.__exit__(None, None, None)
    assert llm.status().spent == Decimal("0.1")
    is_sound(h)


def test_what_is_settled_after_the_turn_counts_in_its_own_period(harness: Harness) -> None:
    h = harness
    llm = h.app.budget("llm", limit=1, per="minute")
    with llm.reserve(1) as spend:
        h.advance("1m")
        with llm.reserve(0.3):
            pass
        spend.settle(0.9)
    assert llm.status().spent == Decimal("0.3")
    is_sound(h)
    h.advance("1m")
    assert llm.status().spent == 0
    assert h.app.get_budget("llm").left == 1


def test_a_clock_that_is_behind_begins_no_period_again(harness: Harness, emptied: str) -> None:
    from duework.clock import VirtualClock

    h = harness
    llm = h.app.budget("llm", limit=1, per="minute")
    with llm.reserve(1):
        pass
    behind = App(emptied, clock=VirtualClock(h.now - 60_000))
    with pytest.raises(BudgetSpent):
        behind.budget("llm", limit=1, per="minute").reserve(1).__enter__()
    behind.close()
    is_sound(h)


def test_verify_finds_a_budget_that_is_not_its_ledger(harness: Harness) -> None:
    llm = harness.app.budget("llm", limit=1)
    with llm.reserve(1):
        pass
    with harness.app.transaction() as tx:
        tx.write("update duework_budget set spent = spent - 1")
    found = [each.name for each in harness.app.admin.verify() if each.violations]
    assert found == ["budget_equals_ledger"]


def test_periods_are_those_of_the_time_zone() -> None:
    at = ms("2026-03-29T12:30:15+01:00")
    assert period(at, "day", "Europe/London") == (
        ms("2026-03-29T00:00:00+00:00"),
        ms("2026-03-30T00:00:00+01:00"),
    )
    assert period(at, "month", "UTC") == (
        ms("2026-03-01T00:00:00+00:00"),
        ms("2026-04-01T00:00:00+00:00"),
    )
    assert period(at, "minute", "UTC")[1] - period(at, "minute", "UTC")[0] == 60_000
    assert period(at, "hour", "Asia/Kolkata")[0] == ms("2026-03-29T16:30:00+05:00")


def test_amounts_are_whole_millionths() -> None:
    assert [millionths(each) for each in (0.1, "0.000001", Decimal("2.5"), 3)] == [
        100_000,
        1,
        2_500_000,
        3_000_000,
    ]
    assert [shown(each) for each in (1, 100_000, 2_500_000)] == ["0.000001", "0.10", "2.50"]
    for bad in (-1, "much", float("nan"), True):
        with pytest.raises(UsageError):
            millionths(bad)


def test_what_is_mistaken_is_said(harness: Harness) -> None:
    app = harness.app
    with pytest.raises(UsageError, match="per="):
        app.budget("llm", limit=1, per="week")
    with pytest.raises(UsageError, match="time zone"):
        app.budget("llm", limit=1, tz="Mars")
    app.budget("llm", limit=1)
    app.budget("llm", limit=1)
    with pytest.raises(UsageError, match="two budgets"):
        app.budget("llm", limit=2)
    with pytest.raises(NotFound):
        app.get_budget("none")


def test_another_period_counts_what_the_ledger_says_of_it(harness: Harness, emptied: str) -> None:
    daily = harness.app.budget("llm", limit=5, per="day")
    spend(daily, 2)
    harness.advance("1d")
    spend(daily, 3)
    later = App("sqlite:///never-opened.db")
    monthly = later.budget("llm", limit=10, per="month")

    with HarnessOn(later, emptied, now=harness.now) as h:
        later.wiring.engine.ids.draw_many(1000)  # those of the first version are there
        assert (monthly.status().spent, monthly.status().per) == (5, "month")
        h.advance("3d")
        spend(monthly, 4)
        assert monthly.status().spent == 9
        assert monthly.status().turns_at > h.now
        calls: list[int] = []

        @later.task
        async def think(run: Run) -> None:
            calls.append(1)
            async with monthly.reserve(2):
                pass

        think.enqueue()
        h.advance("1h")
        assert len(calls) == 1
        assert [each for each in later.admin.verify() if each.violations] == []


def test_what_is_given_back_lets_one_go_on_who_waits_for_it(harness: Harness) -> None:
    llm = harness.app.budget("llm", limit=5, per="month")
    spent: list[int] = []

    @harness.app.task
    async def think(run: Run) -> None:
        async with llm.reserve(1) as spend:
            spend.settle("0.1")
        spent.append(1)

    with llm.reserve(5) as first:
        think.enqueue()
        think.enqueue()
        harness.advance("1h")
        assert spent == []
        first.settle(1)
    harness.drain()

    assert len(spent) == 2


def test_what_is_given_back_lets_go_on_as_many_as_it_is_enough_for(harness: Harness) -> None:
    h = harness
    llm = h.app.budget("llm", limit=1, per="day")
    ran: list[int] = []

    @h.app.task
    async def ask(number: int) -> None:
        async with llm.reserve("0.01"):
            ran.append(number)

    with llm.reserve(1) as spend:
        for number in range(3 * WOKEN):
            ask.enqueue(number)
        h.drain()
        spend.settle("0.8")
    h.advance("1m")

    assert sorted(ran) == list(range(2 * WOKEN))
    is_sound(h)


def test_a_limit_that_the_code_raises_lets_those_go_on_who_wait(
    harness: Harness, emptied: str
) -> None:
    llm = harness.app.budget("llm", limit=1, per="month")

    @harness.app.task(name="think")
    async def think(run: Run) -> None:
        async with llm.reserve(2):
            pass

    job = think.enqueue()
    harness.drain()
    later = App("sqlite:///never-opened.db")
    raised = later.budget("llm", limit=3, per="month")

    @later.task(name="think")
    async def think_again(run: Run) -> None:
        async with raised.reserve(2):
            pass

    with HarnessOn(later, emptied, now=harness.now) as h:
        h.drain()
        assert later.job(job.id).state == "done"


def test_those_who_waited_for_a_turn_leave_nothing_behind(harness: Harness) -> None:
    llm = harness.app.budget("llm", limit=1, per="day")

    @harness.app.task
    async def think(run: Run) -> None:
        async with llm.reserve(1):
            pass

    for _ in range(3):
        think.enqueue()
    harness.advance("5d")
    llm.prune()

    assert harness.app.read("select job from duework_budget_waiter") == []


def test_a_budget_that_rests_for_years_is_still_its_ledger(harness: Harness) -> None:
    llm = harness.app.budget("llm", limit=1, per="month")
    spend(llm, 1)
    harness.advance("1h")
    harness.clock.move_to(harness.now + 500 * 86_400_000)
    llm.prune()

    is_sound(harness)


@pytest.mark.parametrize("amount", [10**13, "1e40", 2.0**70], ids=["large", "text", "float"])
def test_amounts_that_no_database_can_add_up_are_refused(harness: Harness, amount: Any) -> None:
    llm = harness.app.budget("llm", limit=1)

    with pytest.raises(UsageError, match="an amount"):
        llm.reserve(amount)
    with pytest.raises(UsageError, match="an amount"):
        llm.raise_to(amount)
    with pytest.raises(UsageError, match="an amount"):
        harness.app.budget("other", limit=amount)


def test_a_note_may_hold_whatever_a_program_puts_there(harness: Harness) -> None:
    llm = harness.app.budget("llm", limit=1)

    with llm.reserve(1, note="a\x00b\ud800"):
        pass

    assert llm.status().ledger()[0].note.startswith("a")


def spend(budget: Any, amount: int) -> None:
    with budget.reserve(amount) as reserved:
        reserved.settle(amount)


def test_budgets_are_listed_page_by_page_and_by_how_they_begin(harness: Harness) -> None:
    for name in ("llm", "a.mail", "B", "llm.eu"):
        with harness.app.budget(name, limit=1).reserve(1):
            pass

    seen: list[str] = []
    while page := harness.app.budgets(after=seen[-1] if seen else "", limit=1):
        seen += [each.name for each in page]

    assert sorted(seen) == ["B", "a.mail", "llm", "llm.eu"]
    assert [each.name for each in harness.app.budgets("llm")] == ["llm", "llm.eu"]
    assert harness.app.get_budget("llm").name == "llm"
