"""A batch, with the process lost before each statement: counted once, followed up once."""

from __future__ import annotations

from typing import Any

import pytest

from duework import Run
from duework.testing import Harness
from tests.crash.test_crash import (
    EFFECT,
    WRITE,
    at_every_point,
    effects,
    in_every_call,
    rows,
    settle_down,
)
from tests.support.checks import is_sound


@pytest.fixture
def h(harness: Harness) -> Harness:
    with harness.app.transaction() as tx:
        tx.write(EFFECT)
    return harness


@pytest.fixture
def check(h: Harness) -> Any:
    @h.app.task(retries=1, backoff=("0s",))
    async def check(run: Run, number: int) -> None:
        if number == 2 and run.attempt == 1:
            raise ValueError("not yet")
        if number == 3:
            raise ValueError("never")
        if number == 4:
            run.write(WRITE, job=run.job.id, what="four")

    return check


@pytest.fixture
def report(h: Harness) -> Any:
    @h.app.task
    async def report(run: Run, batch: int) -> None:
        found = h.app.get_batch(batch)
        run.write(WRITE, job=run.job.id, what=f"{found.done} {found.failed} {found.cancelled}")

    return report


def test_members_are_counted_once_and_the_follow_up_comes_once(
    h: Harness, check: Any, report: Any
) -> None:
    def holds(batch: Any) -> None:
        is_sound(h)
        progress = batch.progress()
        assert (progress.done, progress.failed, progress.total) == (3, 1, 4)
        assert sorted(effects(h)) == ["3 1 0", "four"]
        assert [row.state for row in rows(h).values() if row.task == "report"] == ["done"]

    at_every_point(h, lambda: h.app.batch(check, [1, 2, 3, 4], then=report), holds, floor=25)


def test_a_batch_is_there_whole_or_not_at_all(h: Harness, check: Any, report: Any) -> None:
    def act(answered: list[Any]) -> None:
        answered.append(h.app.batch(check, [1, 4, 4], then=report))
        answered.append(h.app.batch(check, [], then=report))

    def holds(answered: list[Any]) -> None:
        is_sound(h)
        made = h.app.batches()
        assert {batch.id for batch in answered} <= {batch.id for batch in made}
        assert [batch.total for batch in reversed(made)] == [3, 0][: len(made)]
        settle_down(h)
        is_sound(h)
        told = [what for what in effects(h) if what != "four"]
        assert sorted(told) == sorted(["3 0 0", "0 0 0"][: len(made)])

    in_every_call(h, list, act, holds, floor=8)


def test_cancel_and_retry_take_effect_whole_or_not_at_all(
    h: Harness, check: Any, report: Any
) -> None:
    def begin() -> Any:
        batch = h.app.batch(check, [3, 3, 1], then=report)
        h.drain()
        return batch, h.app.batch(check, [1, 1, 1], then=report)

    def act(given: Any) -> None:
        failed, waiting = given
        failed.retry(then=True)
        waiting.cancel()

    def holds(given: Any) -> None:
        failed, waiting = given
        is_sound(h)
        assert failed.progress().failed in {0, 2}
        assert waiting.progress().cancelled in {0, 3}
        retried = failed.progress().failed == 0
        settle_down(h)
        is_sound(h)
        assert failed.progress().failed == 2
        # Each was followed up once, and once more if its retry was to be.
        assert effects(h).count("1 2 0") == 1 + retried
        assert len(effects(h)) == 2 + retried

    in_every_call(h, begin, act, holds, floor=10)


def test_members_with_keys_are_there_whole_or_not_at_all_and_added_ones_as_well(
    h: Harness, check: Any, report: Any
) -> None:
    def begin() -> Any:
        return h.app.batch(check.using(delay="1h"), [1, 4], member_key="{number}", then=report)

    def act(batch: Any) -> None:
        batch.add([4, 5, 6])
        h.app.batch(check, [6, 7], member_key="{number}", once="1d", name="second")

    def holds(batch: Any) -> None:
        is_sound(h)
        total, second = batch.progress().total, h.app.batches(name="second")
        assert total in {2, 4}
        # Number 6 belongs to the first that asked for it.
        assert [each.total for each in second] in ([], [1])
        assert total == 4 or not second
        h.advance("1h")
        is_sound(h)
        assert f"{total} 0 0" in effects(h)

    in_every_call(h, begin, act, holds, floor=15)


def test_a_batch_that_its_members_add_to_is_counted_and_followed_up_once(
    h: Harness, report: Any
) -> None:
    @h.app.task
    async def crawl(run: Run, page: int) -> None:
        run.write(WRITE, job=run.job.id, what=f"page {page}")
        if page == 1 and run.job.batch is not None:
            await h.app.get_batch(run.job.batch).aadd([2, 3])

    def begin() -> Any:
        return h.app.batch(crawl, [1], member_key="{page}", once="1d", then=report)

    def holds(batch: Any) -> None:
        is_sound(h)
        assert batch.progress().done == 3
        assert sorted(effects(h)) == ["3 0 0", "page 1", "page 2", "page 3"]

    at_every_point(h, begin, holds, floor=30)
