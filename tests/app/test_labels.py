"""What jobs carry beside their arguments: tags, headers, and how long they may be put off."""

from __future__ import annotations

from typing import Any

import pytest

from duework import Run, UsageError
from duework.testing import Harness, doomed


def sound(h: Harness) -> None:
    assert [each for each in h.app.admin.verify() if each.violations] == []


def test_jobs_are_found_by_their_tags_newest_first(harness: Harness) -> None:
    @harness.app.task
    async def page(number: int) -> None: ...

    seven = page.using(tags=("tenant:7", "eu", "eu"))
    first, second = (seven.enqueue(number) for number in (1, 2))
    other = page.using(tags=["tenant:8"]).enqueue(3)
    page.enqueue(4)

    assert [job.id for job in harness.app.tagged("tenant:7")] == [second.id, first.id]
    assert [job.id for job in harness.app.tagged("tenant:7", before=second.id)] == [first.id]
    assert [job.id for job in harness.app.tagged("tenant:8", limit=1)] == [other.id]
    assert first.tags == ["eu", "tenant:7"]
    assert harness.app.tagged("nobody") == []
    sound(harness)


def test_headers_come_to_the_attempt_and_are_no_arguments(harness: Harness) -> None:
    seen: list[Any] = []

    @harness.app.task
    async def page(run: Run) -> None:
        seen.append(dict(run.headers))

    job = page.using(headers={"traceparent": "00-ab"}).enqueue()
    page.enqueue()
    with harness.app.transaction() as tx:
        tx.enqueue(page.using(headers={"by": "tx"}))
    harness.drain()

    assert sorted(seen, key=str) == [{"by": "tx"}, {"traceparent": "00-ab"}, {}]
    assert job.headers == {"traceparent": "00-ab"}
    assert job.arguments == {}


def test_a_debounce_waits_for_quiet_but_not_for_ever(harness: Harness) -> None:
    ran: list[tuple[int, int]] = []
    start = harness.now

    @harness.app.task
    async def index(number: int) -> None:
        ran.append((harness.now - start, number))

    quiet = index.using(key="k", delay="30s", replace=True, latest="2m")
    quiet.enqueue(0)
    for number in range(1, 9):
        harness.advance("20s")
        quiet.enqueue(number)
    harness.advance("5m")

    # Each 20 s another one: after two minutes it runs all the same, as it was last asked for.
    assert ran == [(120_000, 5), (190_000, 8)]
    sound(harness)


def test_a_replacement_brings_its_own_tags_and_headers(harness: Harness) -> None:
    @harness.app.task
    async def index() -> None: ...

    wait = index.using(key="k", delay="1h", replace=True)
    job = wait.using(tags=("a", "b"), headers={"x": "1"}).enqueue()
    again = wait.using(tags=("b", "c"), headers={"x": "2"}).enqueue()

    assert again.id == job.id
    assert job.tags == ["b", "c"]
    assert job.headers == {"x": "2"}
    assert [each.id for each in harness.app.tagged("a")] == []
    sound(harness)


def timed(harness: Harness) -> tuple[Any, list[int]]:
    """A task, and after how long it ran."""
    ran: list[int] = []
    start = harness.now

    @harness.app.task
    async def index() -> None:
        ran.append(harness.now - start)

    return index, ran


def test_a_replacement_that_carries_nothing_takes_all_away_but_the_bound(harness: Harness) -> None:
    index, ran = timed(harness)
    wait = index.using(key="k", delay="1h", replace=True)
    job = wait.using(tags=("a",), headers={"x": "1"}, latest="2m").enqueue()
    wait.enqueue()

    assert (job.tags, job.headers) == ([], {})
    sound(harness)
    harness.advance("2h")
    assert ran == [120_000]


def test_a_bound_holds_from_the_first_that_says_one(harness: Harness) -> None:
    index, ran = timed(harness)
    quiet = index.using(key="k", delay="30s", replace=True)
    quiet.using(tags=("a",)).enqueue()
    for _ in range(8):
        quiet.using(latest="2m").enqueue()
        harness.advance("20s")

    assert ran == [120_000]
    sound(harness)


def test_labels_of_jobs_that_are_gone_are_taken_away(harness: Harness) -> None:
    harness.app.wiring.arm_housekeeping()

    @harness.app.task(keep="1h")
    async def page() -> None: ...

    @harness.app.task(keep=0)
    async def fleeting() -> None: ...

    page.using(tags=("x",), headers={"a": "b"}).enqueue()
    fleeting.using(tags=("x",)).enqueue()
    stays = page.using(tags=("x",), delay="30d").enqueue()
    harness.advance("5h")

    assert [job.id for job in harness.app.tagged("x")] == [stays.id]
    assert len(harness.app.read("select * from duework_label")) == 1
    assert len(harness.app.read("select * from duework_tag")) == 1


def test_a_job_that_carries_nothing_costs_no_statement_more(
    harness: Harness,
) -> None:
    @harness.app.task
    async def page() -> None: ...

    page.enqueue()
    engine = harness.app.wiring.engine
    with doomed(engine, 10_000) as plain:
        page.enqueue()
    with doomed(engine, 10_000) as tagged:
        page.using(tags=("x",)).enqueue()

    # A begin, the row, a commit and the moment after it.
    assert plain.count == 4
    assert tagged.count > 4


def test_what_cannot_be_carried_is_refused(harness: Harness) -> None:
    @harness.app.task
    async def page() -> None: ...

    with pytest.raises(UsageError, match="tags= is a list"):
        page.using(tags="x")
    with pytest.raises(UsageError, match="a tag is a text"):
        page.using(tags=("",))
    with pytest.raises(UsageError, match="dict of texts"):
        page.using(headers={"a": 1})  # type: ignore[dict-item]
    with pytest.raises(UsageError, match="over 4000"):
        page.using(headers={"a": "x" * 4000})
    with pytest.raises(UsageError, match="replace=True"):
        page.using(key="k", latest="1m")
    with pytest.raises(UsageError, match="a batch's follow-up cannot have tags"):
        harness.app.batch(page, [()], then=page.using(tags=("x",)))
    assert harness.app.jobs() == []


def test_members_of_a_batch_carry_what_it_was_made_with_also_those_that_come_later(
    harness: Harness,
) -> None:
    seen: list[dict[str, str]] = []

    @harness.app.task
    async def page(run: Run, number: int) -> None:
        seen.append(dict(run.headers))

    labelled = page.using(tags=("tenant:7", "crawl"), headers={"traceparent": "00-1"})
    batch = harness.app.batch(labelled, [1, 2], member_key="{number}")
    batch.add([2, 3])
    plain = harness.app.batch(labelled, [4])

    found = harness.app.tagged("tenant:7")
    assert {each.id for each in found} == {each.id for each in (*batch.jobs(), *plain.jobs())}
    assert len(found) == 4
    assert found[0].tags == ["crawl", "tenant:7"]
    harness.drain()
    assert seen == [{"traceparent": "00-1"}] * 4
    assert [each for each in harness.app.admin.verify() if each.violations] == []
