"""Members with keys, which are made once, and members that are added while a batch is open."""

from __future__ import annotations

import asyncio
from datetime import date
from typing import Any

import pytest

from duework import App, Conflict, InvalidArguments, NotFound, Part, Progress, Run, UsageError
from duework.testing import Harness
from tests.support.checks import is_sound

DAY = date(2026, 3, 29)


@pytest.fixture
def seen() -> list[Any]:
    return []


@pytest.fixture
def check(harness: Harness, seen: list[Any]) -> Any:
    @harness.app.task
    async def check(user: int, day: date = DAY) -> None:
        seen.append(user)
        if user < 0:
            raise ValueError("negative")

    return check


@pytest.fixture
def report(harness: Harness, seen: list[Any]) -> Any:
    @harness.app.task
    async def report(batch: int) -> None:
        seen.append(f"report of {harness.app.get_batch(batch).total}")

    return report


def test_members_have_keys_made_from_their_arguments(harness: Harness, check: Any) -> None:
    batch = harness.app.batch(check, [1, (2, date(2026, 3, 30))], member_key="{user}:{day}")

    keys = sorted(str(job.key) for job in batch.jobs())
    assert keys == ["1:2026-03-29", "2:2026-03-30"]


def test_an_item_of_which_there_is_an_open_job_is_no_member(
    harness: Harness, check: Any, report: Any, seen: list[Any]
) -> None:
    lone = check.using(key="1").enqueue(1)
    first = harness.app.batch(check, [1, 2, 2], member_key="{user}", then=report)
    second = harness.app.batch(check, [2, 3], member_key="{user}", then=report)

    assert [first.total, second.total] == [1, 1]
    assert lone.refresh().batch is None
    harness.drain()
    assert sorted(map(str, seen)) == ["1", "2", "3", "report of 1", "report of 1"]
    # Without once= a key is free when its job has ended.
    assert harness.app.batch(check, [1, 2, 3], member_key="{user}").total == 3
    is_sound(harness)


def test_a_key_is_remembered_for_as_long_as_once_says(
    harness: Harness, check: Any, report: Any, seen: list[Any]
) -> None:
    def nightly(users: list[int]) -> int:
        made = harness.app.batch(check, users, member_key="{user}", once="2d", then=report)
        harness.drain()
        is_sound(harness)
        return made.total

    totals = [nightly([1, 2]), nightly([1, 2, 3]), nightly([3])]
    harness.advance("2d")
    totals.append(nightly([1, 4]))

    assert totals == [2, 1, 0, 2]
    assert [each for each in seen if isinstance(each, int)] == [1, 2, 3, 1, 4]
    # A batch with no new member has its follow-up at once, as one without items.
    assert [each for each in seen if isinstance(each, str)] == [
        f"report of {total}" for total in totals
    ]


def test_a_transaction_and_a_run_take_the_same_options(
    harness: Harness, check: Any, seen: list[Any]
) -> None:
    @harness.app.task
    async def nightly(run: Run) -> None:
        run.batch(check, [1, 2], member_key="{user}", once="forever")

    with harness.app.transaction() as tx:
        made = tx.batch(check, [2, 3], member_key="{user}", once="forever")
    nightly.enqueue()
    harness.drain()

    assert harness.app.get_batch(made.id).total == 2
    assert sorted(seen) == [1, 2, 3]
    is_sound(harness)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"member_key": "{nobody}"}, "'nobody', which is no argument; there are: user, day"),
        ({"member_key": "{user"}, "cannot be read"),
        ({"member_key": "{}"}, "no argument"),
        ({"member_key": "{user.name}"}, "does not fit the arguments"),
        ({"member_key": "x" * 501}, "1 to 500 characters"),
        ({"once": "2d"}, "needs a member_key="),
        ({"member_key": "{user}", "once": "soon"}, "soon"),
    ],
)
def test_a_key_that_cannot_be_made_is_refused_and_nothing_is_written(
    harness: Harness, check: Any, options: Any, says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        harness.app.batch(check, [1], **options)

    assert harness.app.batches() == []
    assert harness.app.jobs(task="check") == []


def test_a_failed_member_whose_key_another_job_has_taken_over_is_not_retried(
    harness: Harness, check: Any
) -> None:
    batch = harness.app.batch(check, [-1, -2], member_key="{user}")
    harness.drain()
    check.using(key="-1", delay="1h").enqueue(-1)

    assert batch.retry() == 1

    progress = batch.progress()
    assert (progress.waiting, progress.failed) == (1, 1)
    is_sound(harness)


# --- adding


def test_members_are_added_by_the_options_of_their_batch_and_counted(
    harness: Harness, check: Any, report: Any, seen: list[Any]
) -> None:
    using = check.using(queue="night", priority=3, delay="1m", expires="1h")
    batch = harness.app.batch(using, [1, 2], member_key="{user}", once="2d", then=report)
    harness.advance("10s")

    again = harness.app.get_batch(batch.id)
    assert again.add([2, (3, DAY), 4]) == 2

    assert batch.progress() == Progress(4, 0, 0, 0, 0, 4, 0)
    newest = batch.jobs()[0]
    assert (newest.queue, newest.priority, newest.at) == ("night", 3, harness.now + 60_000)
    assert newest.expires == harness.now + 60_000 + 3_600_000
    harness.advance("2m")
    assert seen == [1, 2, 3, 4, "report of 4"]
    is_sound(harness)


def test_a_member_may_add_to_its_own_batch_and_the_follow_up_waits_for_that(
    harness: Harness, report: Any, seen: list[Any]
) -> None:
    @harness.app.task
    async def crawl(run: Run, page: int) -> None:
        seen.append(page)
        assert run.job.batch is not None
        if page < 4:
            found = await harness.app.aget_batch(run.job.batch)
            await found.aadd([page * 2, page * 2 + 1])

    batch = harness.app.batch(crawl, [1], then=report, member_key="{page}", once="forever")
    harness.drain()

    assert seen[-1] == "report of 7"
    assert sorted(seen[:-1]) == [1, 2, 3, 4, 5, 6, 7]
    assert batch.progress().done == 7
    is_sound(harness)


def test_a_batch_that_is_over_takes_no_more_members(
    harness: Harness, check: Any, report: Any, seen: list[Any]
) -> None:
    batch = harness.app.batch(check, [1], then=report)
    harness.drain()

    with pytest.raises(Conflict, match=f"batch {batch.id} is over"):
        batch.add([2])
    with pytest.raises(Conflict):
        batch.add([])
    harness.drain()

    assert seen == [1, "report of 1"]
    assert len(harness.app.jobs(task="check")) == 1
    is_sound(harness)


def test_a_batch_that_ends_between_the_look_and_the_write_takes_no_more_members(
    harness: Harness, check: Any, seen: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = harness.app.batch(check, [1])
    engine = harness.app.wiring.engine
    write = engine.writer.call

    def late(verb: Any, items: Any, **more: Any) -> Any:
        monkeypatch.undo()
        harness.drain()
        return write(verb, items, **more)

    monkeypatch.setattr(engine.writer, "call", late)
    with pytest.raises(Conflict):
        batch.add([2, 3])

    assert seen == [1]
    assert batch.progress().total == 1
    is_sound(harness)


def test_a_batch_that_is_open_again_takes_members_and_is_not_followed_up_twice(
    harness: Harness, check: Any, report: Any, seen: list[Any]
) -> None:
    batch = harness.app.batch(check, [-1], then=report)
    harness.drain()
    batch.retry()

    assert batch.add([5]) == 1
    harness.drain()

    assert seen == [-1, "report of 1", -1, 5]
    assert batch.progress().total == 2
    is_sound(harness)


def test_what_does_not_fit_or_is_not_there_is_refused_and_nothing_is_added(
    harness: Harness, check: Any
) -> None:
    batch = harness.app.batch(check, [1])

    with pytest.raises(InvalidArguments, match="item 1 of the batch"):
        batch.add([2, "three"])
    with pytest.raises(UsageError, match="not a text"):
        batch.add("23")
    assert batch.progress().total == 1
    with harness.app.transaction() as tx:
        tx.write("delete from duework_batch")
    with pytest.raises(NotFound):
        batch.add([2])


def test_a_batch_of_code_that_stored_no_terms_takes_plain_members(
    harness: Harness, check: Any, seen: list[Any]
) -> None:
    batch = harness.app.batch(check, [1])
    with harness.app.transaction() as tx:
        tx.write("update duework_batch set member = null")

    assert batch.add([2]) == 1
    harness.drain()

    assert sorted(seen) == [1, 2]
    is_sound(harness)


def test_members_of_a_part_are_added_by_their_full_name() -> None:
    part = Part("shop")

    @part.task
    async def check(user: int) -> None: ...

    app = App("sqlite:///never-opened.db")
    app.include(part)
    with Harness(app) as h:
        batch = app.batch(check, [1])
        assert asyncio.run(batch.aadd([2])) == 1
        h.drain()
        assert batch.progress().done == 2
