"""Batches as users write them: items, progress, follow-ups, cancel, retry, lists, retention."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from duework import Batch, Fail, InvalidArguments, NotFound, Progress, Run, UsageError, WaitTimeout
from duework.kernel.pruning import prune_round
from duework.testing import Harness
from tests.support.checks import is_sound


@pytest.fixture
def seen() -> list[Any]:
    return []


@pytest.fixture
def h(harness: Harness, seen: list[Any]) -> Harness:
    """With a task that fails for negative numbers, and one that reports."""

    @harness.app.task
    async def check(number: int, more: str = "") -> None:
        seen.append((number, more))
        if number < 0:
            raise ValueError("negative")

    @harness.app.task
    async def report(batch: int) -> None:
        seen.append(f"report {harness.app.get_batch(batch).name}")

    harness.check, harness.report = check, report  # type: ignore[attr-defined]
    return harness


def make(h: Harness, items: Any, **options: Any) -> Batch:
    return h.app.batch(h.check, items, **options)  # type: ignore[attr-defined]


def test_a_tuple_is_a_list_of_arguments_and_anything_else_is_one(
    h: Harness, seen: list[Any]
) -> None:
    @h.app.task
    async def each(value: Any) -> None:
        seen.append(value)

    make(h, [(1, "one"), (2,), 3])
    h.drain()
    h.app.batch(each, [[4, 5], ([6],), {"seven": 7}, None])
    h.drain()
    make(h, h.app.read("select 8 as number"))
    h.drain()

    assert sorted(seen[:3]) == [(1, "one"), (2, ""), (3, "")]
    assert seen[3:] == [[4, 5], [6], {"seven": 7}, None, (8, "")]


def test_progress_tells_what_became_of_the_members(h: Harness, seen: list[Any]) -> None:
    looked: list[Progress] = []

    @h.app.task
    async def look(run: Run, number: int) -> None:
        assert run.job.batch is not None
        if number == 1:
            looked.append(await h.app.get_batch(run.job.batch).aprogress())

    batch = h.app.batch(look, range(8))
    assert batch.progress() == Progress(8, 0, 0, 0, 0, 8, 0)
    h.drain()

    assert batch.progress() == Progress(0, 0, 8, 0, 0, 8, 100)
    [during] = looked
    assert during.running > 0
    assert during.waiting + during.running + during.done == 8
    assert seen == []


def test_percent_counts_all_that_ended_and_rounds_halves_up(h: Harness) -> None:
    batch = make(h, [1, -2, 3, 4, 5, 6, 7, 8])
    oldest = batch.jobs()[-1]
    assert batch.progress().percent == 0

    oldest.cancel()
    assert batch.progress() == Progress(7, 0, 0, 0, 1, 8, 13)
    assert not batch.progress().settled
    h.drain()

    assert batch.progress() == Progress(0, 0, 6, 1, 1, 8, 100)
    assert batch.progress().settled
    assert make(h, []).progress() == Progress(0, 0, 0, 0, 0, 0, 0)
    is_sound(h)


def test_the_follow_up_runs_once_after_the_last_member(h: Harness, seen: list[Any]) -> None:
    batch = make(h, [1, -2, 3], name="nightly", then=h.report)  # type: ignore[attr-defined]
    assert batch.then_job() is None
    h.drain()

    assert seen[-1] == "report nightly"
    assert seen.count("report nightly") == 1
    follow = batch.then_job()
    assert follow is not None
    assert (follow.task, follow.state, follow.batch) == ("report", "done", None)


def test_a_follow_up_may_take_no_argument_and_have_options(h: Harness, seen: list[Any]) -> None:
    @h.app.task
    def over() -> None:
        seen.append("over")

    batch = h.app.batch(
        h.check.using(priority=3),  # type: ignore[attr-defined]
        [1],
        then=over.using(delay="1h", priority=7, queue="late"),
    )
    h.drain()
    assert seen == [(1, "")]
    follow = batch.then_job()
    assert follow is not None
    assert (follow.priority, follow.queue, follow.phase) == (7, "late", "waiting")
    h.advance("1h")

    assert seen == [(1, ""), "over"]
    assert batch.jobs()[0].priority == 3


def test_an_empty_batch_is_followed_up_at_once(h: Harness, seen: list[Any]) -> None:
    batch = make(h, [], name="nobody", then=h.report)  # type: ignore[attr-defined]
    h.drain()

    assert seen == ["report nobody"]
    assert batch.settled is not None


def test_jobs_that_members_enqueue_are_no_members(h: Harness) -> None:
    @h.app.task
    async def parent(run: Run, number: int) -> None:
        run.enqueue(h.check, number)  # type: ignore[attr-defined]

    batch = h.app.batch(parent, [1, 2])
    h.drain()

    assert batch.progress().total == 2
    assert [job.batch for job in h.app.jobs(task="check")] == [None, None]


@pytest.mark.parametrize("items", [[1, "two"], [1, (2, "x", 3)], ["a"]])
def test_one_item_that_does_not_fit_refuses_all(h: Harness, items: list[Any]) -> None:
    with pytest.raises(InvalidArguments, match=f"item {len(items) - 1} of the batch"):
        make(h, items)

    assert h.app.jobs() == []
    assert h.app.batches() == []


def test_what_a_batch_cannot_be_is_said(h: Harness) -> None:
    check, report = h.check, h.report  # type: ignore[attr-defined]

    @h.app.task
    def odd(batch: str) -> None: ...

    with pytest.raises(UsageError, match="not a text"):
        make(h, "abc")
    with pytest.raises(UsageError, match="a batch cannot have key="):
        h.app.batch(check.using(key="k"), [1])
    with pytest.raises(UsageError, match="follow-up cannot have after="):
        make(h, [1], then=report.using(after=7))
    with pytest.raises(InvalidArguments, match="takes no argument, or the batch's id"):
        make(h, [1], then=odd)
    with pytest.raises(UsageError, match="name"):
        make(h, [1], name="\0")
    with pytest.raises(UsageError, match="key"):
        make(h, [1], key="")
    with pytest.raises(NotFound, match="no batch 7"):
        h.app.get_batch(7)

    assert h.app.batches() == []


def test_cancel_ends_what_waits_and_still_follows_up(h: Harness, seen: list[Any]) -> None:
    batch = make(h, range(5), name="night", then=h.report)  # type: ignore[attr-defined]

    assert batch.cancel("enough") == 5
    assert batch.cancel() == 0
    h.drain()

    assert seen == ["report night"]
    assert batch.progress() == Progress(0, 0, 0, 0, 5, 5, 100)
    assert {job.error for job in batch.jobs()} == {"enough"}
    is_sound(h)


def test_cancelled_members_are_told_to_those_who_react(h: Harness, seen: list[Any]) -> None:
    @h.check.settled  # type: ignore[attr-defined]
    def note(_tx: Any, job: Any, outcome: str) -> None:
        seen.append((job.batch, outcome))

    batch = make(h, [1, 2])
    batch.cancel()

    assert seen == [(batch.id, "cancelled")] * 2


def test_retry_opens_what_failed_and_follows_up_only_if_asked(h: Harness) -> None:
    good: list[int] = []
    reports: list[int] = []

    @h.app.task
    async def flaky(number: int) -> None:
        if number not in good:
            raise Fail("not yet")

    @h.app.task
    async def told(batch: int) -> None:
        reports.append(batch)

    batch = h.app.batch(flaky, [1, 2, 3], then=told)
    h.drain()
    assert batch.progress().failed == 3
    good += [1]
    assert batch.retry() == 3
    assert batch.progress() == Progress(3, 0, 0, 0, 0, 3, 0)
    h.drain()
    assert (batch.progress().done, batch.progress().failed) == (1, 2)
    assert reports == [batch.id]
    good += [2, 3]
    first = batch.then_job()
    assert batch.retry(then=True) == 2
    assert batch.then_job() is None
    h.drain()

    assert reports == [batch.id, batch.id]
    assert first is not None
    second = batch.then_job()
    assert second is not None
    assert second.id != first.id
    assert batch.retry(then=True) == 0
    is_sound(h)


def test_batches_and_their_jobs_are_listed_newest_first(h: Harness) -> None:
    one, two, three = (make(h, [1, -1, 2], name=name) for name in ("a", "b", "a"))
    h.drain()

    assert [batch.id for batch in h.app.batches()] == [three.id, two.id, one.id]
    assert [batch.id for batch in h.app.batches(name="a")] == [three.id, one.id]
    assert [batch.id for batch in h.app.batches(before=three.id, limit=1)] == [two.id]
    assert h.app.batches()[0].done == 2
    members = one.jobs()
    assert members == sorted(members, key=lambda job: -job.id)
    assert {job.batch for job in members} == {one.id}
    assert [job.arguments["number"] for job in one.jobs(phase="failed")] == [-1]
    assert [job.arguments["number"] for job in one.jobs(phase="done", limit=1)] == [2]
    assert one.jobs(before=members[-1].id) == []
    assert str(one) == f"<batch {one.id} a of 3>"


def test_a_batch_with_a_key_is_made_once(h: Harness, seen: list[Any]) -> None:
    first = make(h, [1, 2], key="night 7")
    again = make(h, [1, 2, 3], key="night 7")
    h.drain()
    late = make(h, [4], key="night 7")

    assert (first.existed, again.existed, late.existed) == (False, True, True)
    assert {first.id, again.id, late.id} == {first.id}
    assert len(seen) == 2


def test_a_batch_can_be_made_in_a_transaction_or_not_at_all(h: Harness, seen: list[Any]) -> None:
    check, report = h.check, h.report  # type: ignore[attr-defined]

    def fails() -> None:
        with h.app.transaction() as tx:
            tx.batch(check, [1, 2])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert h.app.batches() == []

    with h.app.transaction() as tx:
        made = tx.batch(check, [1, 2], name="in tx", then=report)
    h.drain()

    assert h.app.get_batch(made.id).done == 2
    assert seen[-1] == "report in tx"


def test_a_run_can_make_a_batch_with_its_settle(h: Harness, seen: list[Any]) -> None:
    @h.app.task
    async def spread(run: Run, good: bool) -> None:
        run.batch(h.check, [1, 2], name=f"spread {good}", then=h.report)  # type: ignore[attr-defined]
        if not good:
            raise ValueError("no")

    spread.enqueue(good=True)
    spread.enqueue(good=False)
    h.drain()

    [batch] = h.app.batches()
    assert (batch.name, batch.done) == ("spread True", 2)
    assert seen[-1] == "report spread True"


def test_a_batch_can_be_made_on_the_callers_own_connection(h: Harness, seen: list[Any]) -> None:
    connection = h.app.connect()
    connection.execute("begin")
    batch = h.app.batch(h.check.using(connection=connection), [1, 2])  # type: ignore[attr-defined]
    assert h.app.batches() == []
    connection.execute("commit")
    connection.close()
    h.drain()

    assert batch.progress().done == 2
    assert len(seen) == 2


def test_async_code_has_the_same_verbs(h: Harness) -> None:
    async def program() -> list[Any]:
        batch = await h.app.abatch(h.check, [1, -1])  # type: ignore[attr-defined]
        before = await batch.aprogress()
        await asyncio.to_thread(h.drain)
        found = [before.waiting, (await batch.arefresh()).failed, await batch.aretry()]
        found += [await batch.acancel(), len(await batch.ajobs()), await batch.athen_job()]
        ended = await batch.await_(timeout="1s")
        listed = await h.app.abatches()
        return [*found, ended.cancelled, listed[0].id == (await h.app.aget_batch(batch.id)).id]

    assert asyncio.run(program()) == [2, 1, 1, 1, 2, None, 1, True]


def test_waiting_for_a_batch_ends_with_it_or_in_time(h: Harness) -> None:
    batch = make(h, [1])
    with pytest.raises(WaitTimeout, match="has not settled"):
        batch.wait(timeout="5ms")
    h.drain()

    assert batch.wait().done == 1


def test_a_batch_is_kept_for_its_time_and_as_long_as_its_members(h: Harness) -> None:
    short = make(h, [1, 2], keep="1h")
    failed = make(h, [-1], keep="1h")
    open_ = h.app.batch(h.check.using(delay="30d"), [1], keep="1h")  # type: ignore[attr-defined]
    for_ever = make(h, [1], keep="forever")
    h.drain()
    h.advance("6d")
    prune_round(h.app.wiring.engine, 10)
    assert short.progress().percent == 100
    h.advance("3d")
    prune_round(h.app.wiring.engine, 10)

    with pytest.raises(NotFound, match="not kept any more"):
        short.progress()
    assert failed.progress().failed == 1
    assert open_.progress().waiting == 1
    assert (for_ever.progress().done, for_ever.jobs()) == (1, [])
    is_sound(h)


def test_a_large_batch_is_one_transaction(h: Harness) -> None:
    batch = make(h, range(2500))
    assert batch.progress().waiting == 2500
    assert batch.cancel() == 2500

    assert batch.progress() == Progress(0, 0, 0, 0, 2500, 2500, 100)
    is_sound(h)
