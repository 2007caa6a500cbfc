"""Run: what a running attempt sees and asks for."""

from __future__ import annotations

from typing import Any

import pytest

from duework import Cancel, Fail, Run, Snooze, UsageError
from duework.testing import Harness


def test_the_key_is_the_same_over_retries_and_different_for_other_jobs(harness: Harness) -> None:
    keys: list[str] = []

    @harness.app.task(retries=2, backoff="1m")
    async def send(run: Run) -> None:
        keys.append(run.key)
        if len(keys) % 3:
            raise ValueError("no")

    send.enqueue()
    harness.advance("5m")
    send.enqueue()
    harness.advance("5m")

    assert len(keys) == 6
    assert len(set(keys[:3])) == len(set(keys[3:])) == 1
    assert keys[0] != keys[3]


def test_the_slot_is_the_planned_time_however_late_it_runs(harness: Harness) -> None:
    seen: list[tuple[int, int, int]] = []

    @harness.app.task
    async def tick(run: Run) -> Snooze | None:
        seen.append((run.slot, run.now, run.attempt))
        return Snooze("10m") if len(seen) == 1 else None

    planned = harness.now + 60_000
    tick.using(delay="1m").enqueue()
    harness.advance("1h")

    assert seen == [(planned, planned, 1), (planned, planned + 600_000, 1)]


def test_random_numbers_are_the_same_in_every_attempt_of_a_job(harness: Harness) -> None:
    drawn: list[tuple[float, float]] = []

    @harness.app.task(retries=1, backoff="1m")
    async def draw(run: Run) -> None:
        drawn.append((run.random(), run.random()))
        if run.attempt == 1:
            raise ValueError("no")

    draw.enqueue()
    harness.advance("5m")
    draw.enqueue()
    harness.advance("5m")

    first, again, other, _ = drawn
    assert first == again
    assert first != other
    assert 0 <= first[0] < 1
    assert first[0] != first[1]


def test_reads_do_not_see_the_runs_own_writes(harness: Harness) -> None:
    with harness.app.transaction() as tx:
        tx.write("create table note (text varchar(100))")
        tx.write("insert into note (text) values ('before')")

    @harness.app.task
    async def work(run: Run) -> list[str]:
        run.write("insert into note (text) values (:t)", t="mine")
        run.write("delete from note where text = :t", t="before")
        return [row.text for row in run.read("select text from note where text <> :t", t="x")]

    job = work.enqueue()
    harness.drain()

    assert job.refresh().result == ["before"]
    assert [row.text for row in harness.app.read("select text from note")] == ["mine"]


def test_many_rows_can_be_written_at_once(harness: Harness) -> None:
    with harness.app.transaction() as tx:
        tx.write("create table note (n integer)")

    @harness.app.task
    def work(run: Run) -> None:
        run.write("insert into note (n) values (:n)", rows=[{"n": n} for n in range(5)])

    work.enqueue()
    harness.drain()

    assert harness.app.read("select sum(n) as total from note")[0].total == 10


def test_follow_ups_keep_their_order_and_options(harness: Harness) -> None:
    order: list[str] = []

    @harness.app.task
    async def work(run: Run) -> None:
        for name in ("c", "a", "b"):
            run.enqueue(other.using(serial="s", key=name), name)
        run.enqueue(other.using(delay="1h"), "later")

    @harness.app.task
    async def other(name: str) -> None:
        order.append(name)

    work.enqueue()
    harness.drain()
    assert order == ["c", "a", "b"]
    harness.advance("1h")
    assert order == ["c", "a", "b", "later"]


def test_a_follow_up_with_wrong_arguments_fails_where_it_is_asked_for(harness: Harness) -> None:
    @harness.app.task
    async def work(run: Run) -> None:
        run.enqueue(other, "seven")

    @harness.app.task
    async def other(n: int) -> None: ...

    job = work.enqueue()
    harness.drain()

    assert "InvalidArguments" in str(job.refresh().error)
    assert "`n`" in str(job.refresh().error)


def test_nothing_can_be_added_once_the_attempt_has_ended(harness: Harness) -> None:
    runs: list[Run] = []

    @harness.app.task
    async def work(run: Run) -> None:
        runs.append(run)

    work.enqueue()
    harness.drain()

    with pytest.raises(UsageError, match="ended"):
        runs[0].write("delete from nowhere")


def test_progress_is_seen_while_the_job_runs_and_stays(harness: Harness) -> None:
    seen: list[object] = []

    @harness.app.task
    async def work(run: Run) -> None:
        import asyncio

        run.progress(3, 10, "reading")
        for _ in range(200):
            await asyncio.sleep(0.005)
            if harness.app.job(run.job.id).progress is not None:
                break
        seen.append(harness.app.job(run.job.id).progress)

    job = work.enqueue()
    harness.drain()

    expected = {"done": 3, "total": 10, "note": "reading"}
    assert seen == [expected]
    assert job.refresh().progress == expected


def test_progress_is_written_now_and_then_however_often_it_is_told(harness: Harness) -> None:
    from duework.kernel.lanes import JOBS

    written: list[int] = []
    database = harness.app.wiring.engine.database
    begin = database.begin

    def counting(**how: bool) -> object:
        tx = begin(**how)
        bulk = tx.bulk

        def counted(statement: object, rows: list[object]) -> int:
            if statement is JOBS.progress:
                written.append(len(rows))
            return bulk(statement, rows)  # type: ignore[arg-type]

        tx.bulk = counted  # type: ignore[method-assign,assignment]
        return tx

    database.begin = counting  # type: ignore[method-assign,assignment]

    @harness.app.task
    async def work(run: Run) -> None:
        import asyncio

        for n in range(1000):
            run.progress(n)
            if n % 50 == 0:
                await asyncio.sleep(0.005)

    work.enqueue()
    harness.drain()

    assert 1 <= len(written) <= 3


def test_a_task_that_takes_no_run_gets_none(harness: Harness) -> None:
    @harness.app.task
    async def work(run: str) -> str:
        return run

    job = work.enqueue("a word")
    harness.drain()

    assert job.refresh().result == "a word"


def test_a_plain_enqueue_inside_a_task_commits_by_itself(harness: Harness) -> None:
    @harness.app.task
    async def work() -> None:
        await other.aenqueue()
        raise ValueError("the follow-up is there all the same")

    @harness.app.task
    async def other() -> None: ...

    work.enqueue()
    harness.drain()

    assert harness.assert_enqueued(other).state == "done"


@pytest.mark.parametrize("keep", ["7d", 0])
@pytest.mark.parametrize("ending", [None, Fail("enough"), Cancel("enough")])
def test_a_task_that_enqueues_itself_under_its_own_key_goes_on(
    harness: Harness, keep: Any, ending: Fail | Cancel | None
) -> None:
    ran: list[int] = []

    @harness.app.task(keep=keep, keep_failed=keep)
    async def pump(run: Run) -> Any:
        ran.append(run.now)
        if len(ran) < 5:
            run.enqueue(pump.using(key="pump", delay="10s"))
        return ending

    pump.using(key="pump").enqueue()
    harness.advance("5m")

    assert [when - ran[0] for when in ran] == [0, 10_000, 20_000, 30_000, 40_000]
    assert len(harness.app.jobs(task="pump")) == (5 if keep else 0)


def test_a_task_that_is_asked_to_run_again_keeps_its_key_for_that(harness: Harness) -> None:
    ran: list[str] = []

    @harness.app.task
    async def pump(run: Run, what: str) -> None:
        ran.append(what)
        if what == "first":
            # Somebody else, meanwhile.
            await pump.using(key="pump", when_running="again").aenqueue("again")
            run.enqueue(pump.using(key="pump", delay="10s"), "own")

    job = pump.using(key="pump").enqueue("first")
    harness.advance("5m")

    assert ran == ["first", "again"]
    assert [each.id for each in harness.app.jobs(task="pump")] == [job.id]


def test_the_newest_that_was_asked_for_is_what_runs_again(harness: Harness) -> None:
    ran: list[str] = []

    @harness.app.task
    async def pump(run: Run, what: str) -> None:
        ran.append(what)
        if what == "first":
            await pump.using(key="pump", when_running="again").aenqueue("again")
            run.enqueue(pump.using(key="pump", replace=True), "newest")

    pump.using(key="pump").enqueue("first")
    harness.advance("5m")

    assert ran == ["first", "newest"]


@pytest.mark.parametrize("serial", [None, "s"])
def test_what_a_task_enqueues_after_itself_runs_once_it_is_done(
    harness: Harness, serial: str | None
) -> None:
    ran: list[str] = []

    @harness.app.task
    async def first(run: Run) -> None:
        run.enqueue(second.using(after=run.job.id, serial=serial), "second")

    @harness.app.task
    async def second(what: str) -> None:
        ran.append(what)

    first.using(serial=serial).enqueue()
    harness.drain()

    assert ran == ["second"]
    assert [each.violations for each in harness.app.admin.verify() if each.violations] == []
