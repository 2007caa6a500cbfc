"""Paced jobs, with the process lost before each statement in turn: nothing is lost, no limit is broken."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from duework import Adaptive, Quota, Rate, Run, Throttled, Tick
from duework.testing import Harness
from tests.crash.test_crash import EFFECT, MOST, WRITE, forget, nothing_is_held
from tests.support.checks import is_sound


@pytest.fixture
def h(harness: Harness) -> Harness:
    with harness.app.transaction() as tx:
        tx.write(EFFECT)
    return harness


def test_a_lost_process_breaks_no_limit_and_loses_no_job(h: Harness) -> None:
    starts: list[int] = []
    quota = Quota("strava", windows={"1m": 8})

    @h.app.task(pace=[Tick(3, "10s"), quota, Adaptive(name="own")])
    async def page(run: Run, number: int) -> None:
        starts.append(run.now)
        if number == 1 and run.now < start + 5000:
            raise Throttled("20s")
        run.write(WRITE, job=run.job.id, what="page")

    @h.app.task(pace=Rate("2/1s", per="to"))
    async def post(run: Run, to: str) -> None:
        run.write(WRITE, job=run.job.id, what="post")

    start = h.now
    for k in range(1, MOST):
        forget(h)
        with h.app.transaction() as tx:
            tx.write("delete from duework_pace")
        starts.clear()
        start = h.now
        page.enqueue_many([(number,) for number in range(5)])
        post.enqueue_many([("a",), ("a",), ("b",)])
        crashed = h.crash_worker(at=k)
        h.advance("3m")

        nothing_is_held(h)
        check(h, starts)
        if not crashed:
            assert k > 20
            return
    pytest.fail("it never got through")


def test_a_lost_process_gives_back_nothing_that_was_used(h: Harness) -> None:
    calls: list[int] = []
    quota = Quota("strava", windows={"1d": 100})

    @h.app.task(pace=quota.cost(6), retries=1, backoff="0s")
    async def page(run: Run, number: int) -> None:
        run.spent(quota, 5)
        calls.append(number)
        run.write(WRITE, job=run.job.id, what="page")
        if number == 1 and run.attempt == 1:
            raise ValueError("503")

    for k in range(1, MOST):
        forget(h)
        with h.app.transaction() as tx:
            tx.write("delete from duework_pace")
        calls.clear()
        page.enqueue_many([(0,), (1,)])
        crashed = h.crash_worker(at=k)
        h.advance("1m")

        nothing_is_held(h)
        [row] = h.app.read("select used from duework_pace")
        # A claim that was lost keeps what it took: at most two of them, of six each.
        assert 5 * len(calls) <= row.used <= 5 * len(calls) + (12 if crashed else 0)
        assert len(h.app.read("select 1 as one from effect")) == 2
        if not crashed:
            assert k > 20
            return
    pytest.fail("it never got through")


def check(h: Harness, starts: list[int]) -> None:
    done: Any = Counter(row.what for row in h.app.read("select what from effect"))
    assert done == {"page": 5, "post": 3}
    # A tick begins with its first start; what follows within ten seconds is of the same.
    ticks: list[int] = []
    for each in starts:
        if not ticks or each >= ticks[-1] + 10_000:
            ticks.append(each)
    assert max(sum(tick <= s < tick + 10_000 for s in starts) for tick in ticks) <= 3
    is_sound(h)
