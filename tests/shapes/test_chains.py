"""Chains: pages one after the other, with no gap and no duplicate, cancelled, resumed and retried."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from duework import (
    App,
    Chain,
    Conflict,
    End,
    InvalidArguments,
    Next,
    NotFound,
    Page,
    Part,
    Run,
    Snooze,
    UsageError,
    WaitTimeout,
)
from duework.kernel.job import Ending
from duework.kernel.pruning import PRUNE_TASK
from duework.kernel.settle import lock_jobs
from duework.shapes.chains.handle import Expected
from duework.testing import Harness
from tests.support.checks import sound_at_the_end

TABLE = "create table activity (id bigint primary key, page bigint, athlete bigint)"
WRITE = "insert into activity (id, page, athlete) values (:id, :page, :athlete)"


@pytest.fixture
def h(harness: Harness) -> Iterator[Harness]:
    with sound_at_the_end(harness, TABLE):
        yield harness


class Source:
    """So many items; a page reads the next ones after its cursor, and does what a test asks for."""

    def __init__(self, app: App | Part, total: int = 25, **options: Any) -> None:
        self.total = total
        self.seen: list[tuple[int, Any]] = []
        # Called with the page before it does anything.
        self.before: Any = lambda page: None
        source = self

        @app.chain(**{"page_size": 10, "key": "athlete:{athlete}", **options})
        async def activities(page: Page, athlete: int) -> Next | End:
            source.seen.append((page.number, page.cursor))
            if (other := source.before(page)) is not None:
                return await other if asyncio.iscoroutine(other) else other
            return source.read(page, athlete)

        self.chain = activities

    def read(self, page: Page, athlete: int = 7) -> Next | End:
        start = page.cursor or 0
        ids = range(start + 1, min(start + page.size, self.total) + 1)
        rows = [{"id": n, "page": page.number, "athlete": athlete} for n in ids]
        page.run.write(WRITE, rows=rows)
        counts = {"fetched": len(ids), "even": sum(n % 2 == 0 for n in ids)}
        if start + len(ids) >= self.total:
            return End(counts=counts, quota={"15m": page.number})
        return Next(cursor=start + len(ids), counts=counts, quota={"15m": page.number})


def items(h: Harness) -> list[int]:
    return [row.id for row in h.app.read("select id from activity order by id")]


def everything(source: Source) -> list[int]:
    return list(range(1, source.total + 1))


# --- from the first page to the last


def test_pages_follow_each_other_from_cursor_to_cursor(h: Harness) -> None:
    source = Source(h.app)

    sync = source.chain.start(athlete=7)
    h.drain()

    assert source.seen == [(1, None), (2, 10), (3, 20)]
    assert items(h) == everything(source)
    progress = sync.progress()
    assert (progress.state, progress.pages, progress.percent) == ("done", 3, 100.0)
    assert progress.counts == {"fetched": 25, "even": 12}


def test_a_plain_function_runs_in_a_thread(h: Harness) -> None:
    @h.app.chain(page_size=2)
    def count(page: Page, last: int = 6) -> Next | End:
        here = (page.cursor or 0) + page.size
        return End({"n": 2}) if here >= last else Next(here, {"n": 2})

    chain = count.start()
    h.drain()

    assert chain.progress().counts == {"n": 6}


def test_a_plain_call_stays_a_plain_call(h: Harness) -> None:
    @h.app.chain()
    def count(page: Page, last: int) -> Next | End:
        return End({"n": last})

    assert count(None, 3) == End({"n": 3})  # type: ignore[arg-type]


def test_a_page_knows_its_number_size_cursor_and_the_totals_so_far(h: Harness) -> None:
    source = Source(h.app)
    told: list[Any] = []
    source.before = lambda page: told.append(
        (page.number, page.size, page.cursor, page.totals, page.key)
    )

    source.chain.start(7)
    h.drain()

    assert told == [
        (1, 10, None, {}, "athlete:7"),
        (2, 10, 10, {"fetched": 10, "even": 5}, "athlete:7"),
        (3, 10, 20, {"fetched": 20, "even": 10}, "athlete:7"),
    ]


def test_a_short_page_is_legal_and_an_empty_last_one_too(h: Harness) -> None:
    @h.app.chain()
    async def ragged(page: Page) -> Next | End:
        step = [3, 0, 5][page.number - 1] if page.number <= 3 else None
        if step is None:
            return End()
        return Next(cursor=(page.cursor or 0) + step + 1, counts={"n": step})

    chain = ragged.start()
    h.drain()

    assert chain.progress().counts == {"n": 8}
    assert [page.counts for page in chain.pages()] == [{"n": 3}, {"n": 0}, {"n": 5}, {}]


def test_a_page_may_ask_for_another_size_and_a_start_too(h: Harness) -> None:
    sizes: list[int] = []

    @h.app.chain(page_size=1000)
    async def dynamic(page: Page) -> Next | End:
        sizes.append(page.size)
        if page.number == 4:
            return End()
        # The limit comes first, however many there are.
        return Next(cursor=page.number, size={1: 1500, 2: 500}.get(page.number))

    dynamic.start()
    h.drain()
    first, sizes = sizes, []
    dynamic.using(page_size=600).start()
    h.drain()

    assert first == [1000, 1500, 500, 500]
    assert sizes == [600, 1500, 500, 500]


def test_a_page_may_put_off_the_next_one(h: Harness) -> None:
    source = Source(h.app, total=15)
    source.before = lambda page: Next(cursor=10, delay="15m") if page.number == 1 else None

    chain = source.chain.start(7)
    h.drain()
    waiting = chain.pages()[1].phase
    h.advance("14m")
    before = len(source.seen)
    h.advance("1m")

    assert (waiting, before, len(source.seen)) == ("waiting", 1, 2)
    assert chain.progress().state == "done"


def test_a_start_may_be_put_off_and_have_a_queue_and_a_priority_for_all_pages(h: Harness) -> None:
    source = Source(h.app)

    chain = source.chain.using(delay="1h", queue="slow", priority=7).start(7)
    h.drain()
    assert source.seen == []
    h.advance("1h")

    assert chain.progress().state == "done"
    assert {(job.queue, job.priority) for job in h.app.jobs(task="activities")} == {("slow", 7)}


def test_a_cursor_may_be_any_json(h: Harness) -> None:
    seen: list[Any] = []
    cursors = [{"before": 1700000000, "seen": ["a", "b"]}, "opaque==", [3, 4.5], False]

    @h.app.chain()
    async def walk(page: Page) -> Next | End:
        seen.append(page.cursor)
        return Next(cursors[page.number - 1]) if page.number <= len(cursors) else End()

    walk.start()
    h.drain()

    assert seen == [None, *cursors]


def test_a_snooze_of_a_page_is_no_end_of_it(h: Harness) -> None:
    source = Source(h.app)
    times: list[int] = []

    def before(page: Page) -> Any:
        times.append(page.run.now)
        return Snooze("5m") if len(times) == 2 else None

    source.before = before
    chain = source.chain.start(7)
    h.advance("10m")

    assert [number for number, _ in source.seen] == [1, 2, 2, 3]
    assert chain.progress().state == "done"
    assert items(h) == everything(source)


# --- what a page writes, and the end


def test_what_a_page_writes_and_its_completion_are_one(h: Harness) -> None:
    source = Source(h.app, retries=0)

    def before(page: Page) -> Any:
        if page.number == 2:
            # Its own rows come first; the second write breaks the primary key.
            page.run.write(WRITE, id=11, page=2, athlete=7)

    source.before = before
    chain = source.chain.start(7)
    h.drain()

    progress = chain.progress()
    assert (progress.state, progress.pages, progress.counts["fetched"]) == ("failed", 1, 10)
    assert items(h) == list(range(1, 11))
    assert chain.refresh().cursor == 10


def test_a_function_given_to_commit_may_return_what_it_likes(h: Harness) -> None:
    source = Source(h.app)
    source.before = lambda page: page.run.commit(
        lambda tx: tx.write(WRITE, id=100 + page.number, page=0, athlete=0)
    )

    chain = source.chain.start(7)
    h.drain()

    assert chain.progress().state == "done"
    assert items(h) == [*everything(source), 101, 102, 103]


def test_the_final_step_runs_in_the_transaction_of_the_end_and_may_add_counts(h: Harness) -> None:
    source = Source(h.app)
    told: list[Chain] = []

    @source.chain.finished
    def reconcile(tx: Any, chain: Chain) -> dict[str, int]:
        told.append(chain)
        gone = tx.write("delete from activity where id > 20")
        return {"removed": gone.changed}

    sync = source.chain.start(7)
    h.drain()

    assert [(c.id, c.state, c.completed, c.counts["fetched"]) for c in told] == [
        (sync.id, "done", 3, 25)
    ]
    assert told[0].arguments == {"athlete": 7}
    assert sync.progress().counts == {"fetched": 25, "even": 12, "removed": 5}
    assert items(h) == list(range(1, 21))


def test_a_final_step_that_fails_leaves_nothing_of_the_last_page(h: Harness) -> None:
    source = Source(h.app, retries=1, backoff="1m")
    broken = [True]

    @source.chain.finished
    def reconcile(tx: Any, chain: Chain) -> None:
        tx.write("delete from activity where id = 1")
        if broken[0]:
            raise ValueError("not yet")

    sync = source.chain.start(7)
    h.drain()
    assert items(h) == list(range(1, 21))
    assert sync.progress().state == "active"
    h.advance("1m")
    failed = sync.progress()
    broken[0] = False
    sync.retry()
    h.drain()

    assert (failed.state, failed.pages) == ("failed", 2)
    assert "not yet" in (failed.error or "")
    assert sync.progress().state == "done"
    assert items(h) == list(range(2, 26))


def test_reactions_hear_of_every_end_of_a_chain(h: Harness) -> None:
    source = Source(h.app, retries=0)
    told: list[tuple[str, int]] = []
    failing = [False]

    @source.chain.settled
    def reaction(tx: Any, chain: Chain, outcome: str) -> None:
        told.append((outcome, chain.arguments["athlete"]))
        tx.write(WRITE, id=-len(told), page=0, athlete=0)

    source.before = lambda page: 1 / 0 if failing[0] else None
    source.chain.start(1)
    h.drain()
    source.chain.start(2).cancel()
    failing[0] = True
    source.chain.start(3)
    h.drain()

    assert told == [("done", 1), ("cancelled", 2), ("failed", 3)]
    assert [each for each in items(h) if each < 0] == [-3, -2, -1]


def test_a_reaction_that_fails_does_not_keep_a_chain_from_ending(h: Harness) -> None:
    source = Source(h.app, retries=0)

    @source.chain.settled
    def reaction(tx: Any, chain: Chain, outcome: str) -> None:
        tx.write(WRITE, id=-1, page=0, athlete=0)
        raise ValueError("a bad reaction")

    source.before = lambda page: 1 / 0
    failed = source.chain.start(1)
    h.drain()
    cancelled = source.chain.start(2)
    cancelled.cancel()

    assert failed.refresh().state == "failed"
    assert "a bad reaction" in (failed.refresh().error or "")
    assert cancelled.refresh().state == "cancelled"
    assert items(h) == []


# --- one active chain per key


def test_a_key_has_one_active_chain(h: Harness) -> None:
    source = Source(h.app)

    first = source.chain.start(7)
    second = source.chain.start(athlete=7)
    other = source.chain.start(8)

    assert (second.id, first.existed, second.existed) == (first.id, False, True)
    assert other.id != first.id
    h.drain()
    third = source.chain.start(7)
    assert (third.existed, third.id != first.id) == (False, True)
    third.cancel()


def test_a_key_frees_with_every_end(h: Harness) -> None:
    source = Source(h.app, retries=0)
    source.before = lambda page: 1 / 0
    failed = source.chain.start(7)
    h.drain()
    cancelled = source.chain.start(7)
    cancelled.cancel()
    active = source.chain.start(7)

    assert not active.existed
    for old in (failed, cancelled):
        with pytest.raises(Conflict, match=f"held by chain {active.id}"):
            old.resume()
    with pytest.raises(Conflict):
        failed.retry()
    assert [failed.refresh().state, cancelled.refresh().state] == ["failed", "cancelled"]
    active.cancel()
    assert failed.resume().state == "active"


def test_a_key_may_be_given_at_the_start_and_without_one_all_run(h: Harness) -> None:
    source = Source(h.app, key=None)

    free = {source.chain.start(7).id for _ in range(2)}
    one = {source.chain.using(key="mine").start(7).id for _ in range(2)}

    assert (len(free), len(one)) == (2, 1)
    assert [chain.id for chain in h.app.chains(key="mine")] == list(one)


def test_the_key_is_made_of_arguments_and_their_defaults(h: Harness) -> None:
    @h.app.chain(key="{kind}:{user}")
    async def pull(page: Page, user: int, kind: str = "all") -> Next | End:
        return End()

    assert pull.start(3).key == "all:3"
    assert pull.start(3, kind="new").key == "new:3"


# --- failing, retrying


def test_a_page_is_retried_with_backoff_before_it_counts_as_failed(h: Harness) -> None:
    source = Source(h.app, retries=2, backoff=("1m", "5m"))

    def before(page: Page) -> None:
        if page.number == 2 and page.run.attempt < 3:
            page.run.write(WRITE, id=999, page=2, athlete=7)
            raise ConnectionError("upstream")

    source.before = before
    sync = source.chain.start(7)
    h.drain()
    waiting = sync.pages()[1]
    h.advance("6m")

    assert (waiting.phase, waiting.failures) == ("waiting", 1)
    assert "upstream" in (waiting.error or "")
    assert [number for number, _ in source.seen] == [1, 2, 2, 2, 3]
    assert sync.progress().state == "done"
    assert items(h) == everything(source)
    second = sync.pages()[1]
    assert (second.phase, second.failures) == ("done", 2)
    assert "upstream" in (second.error or "")


def test_by_default_a_page_is_retried_three_times(h: Harness) -> None:
    source = Source(h.app)
    source.before = lambda page: 1 / 0

    sync = source.chain.start(7)
    h.advance("1d")

    assert len(source.seen) == 4
    assert sync.progress().state == "failed"


def test_a_failed_page_is_retried_by_hand_under_its_old_number_and_key(h: Harness) -> None:
    source = Source(h.app, retries=0)
    broken, keys = [True], []

    def before(page: Page) -> None:
        keys.append((page.number, page.run.key))
        if page.number == 2 and broken[0]:
            raise ConnectionError("upstream")

    source.before = before
    sync = source.chain.start(7)
    h.drain()
    failed = sync.pages()
    broken[0] = False
    again = sync.retry()
    h.drain()

    assert [page.phase for page in failed] == ["done", "failed"]
    assert "upstream" in (failed[1].error or "")
    assert (again.state, again.error) == ("active", None)
    assert source.seen == [(1, None), (2, 10), (2, 10), (3, 20)]
    assert len(set(keys)) == 3
    assert items(h) == everything(source)
    assert sync.progress().state == "done"


def test_only_a_failed_page_can_be_retried(h: Harness) -> None:
    source = Source(h.app)
    sync = source.chain.start(7)

    with pytest.raises(Conflict):
        sync.retry()
    h.drain()
    with pytest.raises(Conflict, match="done"):
        sync.retry()
    with pytest.raises(Conflict, match="start a new one"):
        sync.resume()


def test_a_failed_page_whose_job_was_purged_can_be_retried(h: Harness) -> None:
    source = Source(h.app, retries=0)
    broken = [True]
    source.before = lambda page: 1 / 0 if broken[0] and page.number == 2 else None
    sync = source.chain.start(7)
    h.drain()

    h.app.purge([sync.pages()[1].job])
    broken[0] = False
    sync.resume()
    h.drain()

    assert sync.progress().state == "done"
    assert items(h) == everything(source)


def test_reviving_the_job_of_a_failed_page_goes_on_with_the_chain(h: Harness) -> None:
    source = Source(h.app, retries=0)
    broken = [True]
    source.before = lambda page: 1 / 0 if broken[0] and page.number == 2 else None
    sync = source.chain.start(7)
    h.drain()

    broken[0] = False
    h.app.revive(sync.pages()[1].job)
    h.drain()

    assert sync.progress().state == "done"
    assert items(h) == everything(source)


def test_reviving_the_job_of_a_page_that_is_done_does_it_no_second_time(h: Harness) -> None:
    source = Source(h.app)
    sync = source.chain.start(7)
    h.drain()
    before = sync.refresh()

    for page in sync.pages():
        h.app.revive(page.job)
    h.drain()

    assert len(source.seen) == 3
    assert sync.refresh() == before
    assert items(h) == everything(source)


def test_reviving_the_job_of_an_earlier_page_does_not_disturb_the_one_that_waits(
    h: Harness,
) -> None:
    source = Source(h.app)
    source.before = lambda page: (
        msgspec.structs.replace(source.read(page), delay="1m") if page.number < 3 else None
    )
    sync = source.chain.start(7)
    h.drain()

    assert h.app.revive(sync.pages()[0].job) == "revived"
    h.drain()
    assert [page.phase for page in sync.pages()] == ["done", "waiting"]
    h.advance("2m")

    assert [number for number, _ in source.seen] == [1, 2, 3]
    assert sync.progress().state == "done"
    assert items(h) == everything(source)


# --- cancelling, resuming


def test_a_chain_that_waits_is_cancelled_at_once(h: Harness) -> None:
    source = Source(h.app)
    sync = source.chain.start(7)

    answer = sync.cancel("enough")
    h.drain()

    assert answer == "cancelled"
    assert source.seen == []
    assert (sync.refresh().state, sync.refresh().error) == ("cancelled", "enough")
    assert [page.phase for page in sync.pages()] == ["cancelled"]
    assert sync.cancel() == "cancelled"


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_running_page_is_counted_and_does_not_undo_a_cancel(h: Harness, number: int) -> None:
    source = Source(h.app)
    answers: list[str] = []

    async def cancel(page: Page) -> Next | End:
        if not answers:
            answers.append(await sync.acancel("by the user"))
        return source.read(page)

    source.before = lambda page: cancel(page) if page.number == number else None
    sync = source.chain.start(7)
    h.drain()

    stopped = sync.progress()
    assert answers == ["cancelling"]
    assert (stopped.state, stopped.error, stopped.pages) == ("cancelled", "by the user", number)
    assert stopped.percent is None
    assert len(items(h)) == min(10 * number, 25)
    resumed = sync.resume()
    h.drain()

    assert resumed.state == "active"
    assert [each for each, _ in source.seen] == [1, 2, 3]
    assert sync.progress().state == "done"
    assert items(h) == everything(source)
    assert [page.number for page in sync.pages()] == [1, 2, 3]


def test_the_final_step_of_a_chain_cancelled_in_its_last_page_runs_after_the_resume(
    h: Harness,
) -> None:
    source = Source(h.app, total=5, retries=1, backoff="1m")
    ends: list[str] = []

    @source.chain.finished
    def reconcile(tx: Any, chain: Chain) -> None:
        ends.append(chain.state)
        if len(ends) <= 2:
            raise ValueError("not yet")

    async def cancel(page: Page) -> Next | End:
        await sync.acancel()
        return source.read(page)

    source.before = cancel
    sync = source.chain.start(7)
    h.drain()
    before = list(ends)
    sync.resume()
    h.advance("1m")
    failed = sync.refresh()
    sync.retry().cancel()
    h.drain()
    cancelled = sync.refresh()
    sync.resume()
    h.drain()

    assert (before, ends) == ([], ["done"] * 3)
    assert (failed.state, cancelled.state) == ("failed", "cancelled")
    assert "not yet" in (failed.error or "")
    assert len(source.seen) == 1
    assert (sync.progress().state, sync.progress().counts["fetched"]) == ("done", 5)
    assert [page.phase for page in sync.pages()] == ["done"]


def test_a_page_that_fails_after_a_cancel_is_not_tried_again(h: Harness) -> None:
    source = Source(h.app, retries=5, backoff="1m")

    async def fail(page: Page) -> Next | End:
        await sync.acancel("stop")
        raise ConnectionError("upstream")

    source.before = fail
    sync = source.chain.start(7)
    h.advance("1h")

    assert len(source.seen) == 1
    assert (sync.progress().state, sync.progress().error) == ("cancelled", "stop")
    assert [page.phase for page in sync.pages()] == ["cancelled"]
    source.before = lambda page: None
    sync.resume()
    h.drain()
    assert items(h) == everything(source)


def test_a_chain_resumed_while_its_page_still_runs_goes_on(h: Harness) -> None:
    source = Source(h.app)

    async def waver(page: Page) -> Next | End:
        await sync.acancel()
        await sync.aresume()
        return source.read(page)

    source.before = lambda page: waver(page) if page.number == 2 else None
    sync = source.chain.start(7)
    h.drain()

    assert sync.progress().state == "done"
    assert [number for number, _ in source.seen] == [1, 2, 3]
    assert items(h) == everything(source)


def test_a_chain_resumed_as_its_page_notices_the_cancel_goes_on(h: Harness) -> None:
    source = Source(h.app, retries=1, backoff="1m")
    ran: list[str] = []

    async def fail(page: Page) -> Next | End:
        await sync.acancel()
        raise ConnectionError("upstream")

    source.before = lambda page: fail(page) if page.run.attempt == 1 and not ran else None
    sync = source.chain.start(7)
    h.drain()
    ran.append("failed once")
    definition = source.chain.definition
    called = definition.function

    async def late(run: Run, athlete: int) -> Any:
        found = await called(run, athlete)
        if len(ran) == 1:
            ran.append("noticed")
            await sync.aresume()
        return found

    definition.function = late
    h.advance("1m")

    assert ran == ["failed once", "noticed"]
    assert sync.progress().state == "done"
    assert items(h) == everything(source)


def test_cancelling_the_job_of_a_page_cancels_its_chain(h: Harness) -> None:
    source = Source(h.app)
    sync = source.chain.start(7)

    h.app.cancel(sync.pages()[0].job, "by an operator")

    assert (sync.refresh().state, sync.refresh().error) == ("cancelled", "by an operator")
    sync.resume()
    h.drain()
    assert items(h) == everything(source)


def test_a_process_that_does_not_know_the_task_can_cancel_and_resume(
    h: Harness, emptied: str
) -> None:
    source = Source(h.app)
    sync = source.chain.start(7)
    other = App(emptied)
    other.wiring.bound.clock = h.clock

    there = other.get_chain(sync.id)
    there.cancel("from outside")
    assert sync.refresh().error == "from outside"
    there.resume()
    other.cancel(there.pages()[0].job)
    assert sync.refresh().state == "cancelled"
    there.resume()
    other.close()
    h.drain()

    assert items(h) == everything(source)


def test_a_cancel_that_waited_for_a_page_to_settle_stops_the_next_one(h: Harness) -> None:
    source = Source(h.app)
    sync = source.chain.start(7)
    first = sync.pages()[0].job
    answers: list[str] = []
    cancelling = threading.Thread(target=lambda: answers.append(sync.cancel("late")))

    with h.app.transaction() as tx:
        inside = tx._tx  # noqa: SLF001 - as a settle is inside it
        row = lock_jobs(inside, [first])[first]
        cancelling.start()
        # It has seen the first page, and waits for its job, or for the whole database.
        time.sleep(0.3)
        said = '{"type":"next","cursor":10,"counts":{"fetched":10},"quota":{}}'
        tx.write("update duework_job set state = 'done', settled = 1 where id = :id", id=first)
        h.app.wiring.react(inside, row, Ending(row.id, 0, 0, "done", result=said))
    cancelling.join()
    h.drain()

    # SQLite has one writer: there the cancel began after the settle had ended.
    assert answers in (["cancelling"], ["cancelled"])
    assert source.seen == []
    assert (sync.refresh().state, sync.refresh().error) == ("cancelled", "late")
    assert [page.phase for page in sync.pages()] == ["done", "cancelled"]
    sync.resume()
    h.drain()
    assert source.seen == [(2, 10), (3, 20)]


# --- progress


def test_without_a_guess_there_is_no_percentage(h: Harness) -> None:
    source = Source(h.app)
    seen: list[Any] = []
    source.before = lambda page: seen.append(sync.progress().percent)

    sync = source.chain.start(7)
    h.drain()

    assert seen == [None, None, None]
    assert sync.progress().percent == 100.0


@pytest.mark.parametrize(
    ("said", "percents"),
    [
        ({"total": 25}, [None, 40.0, 80.0]),
        ({"total": 24, "of": "even"}, [None, 20.8, 41.6]),
        # A guess that was too low is not believed to the end.
        ({"total": 12}, [None, 83.3, 99.0]),
        ({"total": 0}, [None, None, None]),
        ({"span": (0, 40)}, [None, 25.0, 50.0]),
        ({"span": (40, 0)}, [None, 75.0, 50.0]),
        ({"span": (3, 3)}, [None, None, None]),
    ],
)
def test_the_percentage_is_that_of_the_guess_and_never_early(
    h: Harness, said: dict[str, Any], percents: list[Any]
) -> None:
    source = Source(h.app)
    seen: list[Any] = []

    def before(page: Page) -> None:
        seen.append(sync.progress().percent)
        if page.number == 1:
            page.expect(**said)

    source.before = before
    sync = source.chain.start(7)
    h.drain()

    assert seen == percents
    assert sync.progress().percent == 100.0


def test_a_cursor_that_goes_down_counts_from_its_beginning() -> None:
    def chain(cursor: str | None, state: Any = "active") -> Chain:
        wanted = '{"first":2000,"last":1000}'
        given: list[Any] = [1, "t", None, state, "{}", "q", 0, 10, cursor, 1, 0, "{}", wanted]
        return Chain(*given, 0, None, 0, None, 0)

    shown = [chain(c).percent for c in (None, "2000", "1750", "[1500, 7]", "1000", '"x"')]

    assert shown == [0.0, 0.0, 25.0, 50.0, 99.0, None]
    assert chain("1750", "failed").percent == 25.0
    assert Expected(total=1).total == 1


def test_a_later_page_may_guess_again(h: Harness) -> None:
    source = Source(h.app)
    seen: list[Any] = []

    def before(page: Page) -> None:
        seen.append(sync.progress().percent)
        page.expect(20 * page.number)

    source.before = before
    sync = source.chain.start(7)
    h.drain()

    assert seen == [None, 50.0, 50.0]


def test_pages_are_listed_with_times_counts_quota_and_errors(h: Harness) -> None:
    source = Source(h.app, retries=0)
    source.before = lambda page: 1 / 0 if page.number == 3 else None
    sync = source.chain.start(7)
    at = h.now
    h.drain()

    first, second, third = sync.pages()
    assert (first.number, first.phase, first.cursor, first.size) == (1, "done", None, 10)
    assert (first.created, first.started, first.settled) == (at, at, at)
    assert (second.cursor, second.counts) == (10, {"fetched": 10, "even": 5})
    assert (first.quota, second.quota) == ({"15m": 1}, {"15m": 2})
    assert (third.phase, third.failures, third.counts) == ("failed", 1, {})
    assert "ZeroDivisionError" in (third.error or "")
    assert [page.number for page in sync.pages(after=1, limit=1)] == [2]
    assert h.app.job(first.job).result.cursor == 10


def test_chains_are_listed_newest_first(h: Harness) -> None:
    source = Source(h.app)
    done = source.chain.start(1)
    h.drain()
    cancelled = source.chain.start(2)
    cancelled.cancel()
    active = source.chain.start(3)

    def ids(**wanted: Any) -> list[int]:
        return [chain.id for chain in h.app.chains(**wanted)]

    assert ids() == [active.id, cancelled.id, done.id]
    assert ids(state="done") == [done.id]
    assert ids(key="athlete:2") == [cancelled.id]
    assert ids(key="athlete:2", state="active") == []
    assert ids(task="activities", limit=2) == [active.id, cancelled.id]
    assert ids(task="other") == []
    assert ids(before=active.id) == [cancelled.id, done.id]
    with pytest.raises(NotFound):
        h.app.get_chain(999)


def test_finished_chains_are_deleted_after_their_retention_and_failed_ones_kept(
    h: Harness,
) -> None:
    source = Source(h.app, retries=0)
    done = source.chain.start(1)
    h.drain()
    cancelled = source.chain.start(2)
    cancelled.cancel()
    source.before = lambda page: 1 / 0
    failed = source.chain.start(3)
    h.advance("8d")
    active = source.chain.start(4)

    h.app.wiring.registry.find(PRUNE_TASK).function()

    assert [chain.id for chain in h.app.chains()] == [active.id, failed.id]
    assert done.pages() == []


# --- starting from elsewhere


def test_a_chain_starts_with_a_transaction_or_not_at_all(h: Harness) -> None:
    source = Source(h.app)

    with h.app.transaction() as tx:
        tx.write(WRITE, id=100, page=0, athlete=0)
        first = tx.start(source.chain, athlete=7)
        again = tx.start(source.chain.using(page_size=5), 7)
    with suppress(InvalidArguments), h.app.transaction() as tx:
        tx.start(source.chain, 8)
        tx.start(source.chain, "nine")
    h.drain()

    assert (first.existed, again.existed, again.id) == (False, True, first.id)
    assert [chain.id for chain in h.app.chains()] == [first.id]
    assert items(h) == [*everything(source), 100]


def test_a_chain_starts_with_a_jobs_settle_or_not_at_all(h: Harness) -> None:
    source = Source(h.app)

    @h.app.task
    async def begin(run: Run, athlete: int, fail: bool) -> str:
        run.start(source.chain, athlete=athlete)
        if fail:
            raise ValueError("no")
        return "begun"

    begun = begin.enqueue(7, False)
    begin.enqueue(8, True)
    h.drain()

    assert [chain.key for chain in h.app.chains()] == ["athlete:7"]
    assert begun.refresh().result == "begun"
    assert items(h) == everything(source)


def test_async_code_has_the_same_verbs(h: Harness) -> None:
    source = Source(h.app)

    async def work() -> tuple[Any, ...]:
        sync = await source.chain.astart(7)
        await sync.acancel()
        resumed = await sync.aresume()
        listed = await h.app.achains(state="active")
        found = await h.app.aget_chain(sync.id)
        return resumed.state, [each.id for each in listed], found.id, await sync.apages()

    state, listed, found, pages = asyncio.run(work())

    assert (state, listed, len(pages)) == ("active", [found], 1)


def test_a_chain_can_be_waited_for(h: Harness) -> None:
    source = Source(h.app)
    sync = source.chain.start(7)

    with pytest.raises(WaitTimeout):
        sync.wait(timeout="1ms")
    h.drain()

    assert sync.wait(timeout="1s").state == "done"
    assert asyncio.run(sync.await_(timeout="1s")).state == "done"


def test_a_part_brings_chains(h: Harness) -> None:
    part = Part("strides")
    source = Source(part)
    ends: list[int] = []

    @source.chain.finished
    def reconcile(tx: Any, chain: Chain) -> None:
        ends.append(chain.id)

    with pytest.raises(UsageError):
        source.chain.start(7)
    h.app.include(part)
    sync = source.chain.start(7)
    h.drain()

    assert sync.task == "strides.activities"
    assert sync.progress().state == "done"
    assert ends == [sync.id]


# --- mistakes


def test_mistakes_in_the_declaration_are_refused(h: Harness) -> None:
    async def good(page: Page, athlete: int) -> Next | End:
        return End()

    async def no_page(athlete: int) -> Next | End:
        return End()

    chain = h.app.chain
    for wrong, text in (
        ({"page_size": 0}, "size"),
        ({"key": "{user}"}, "no argument"),
        ({"key": "{athlete"}, "cannot be read"),
        ({"colour": "red"}, "unknown option"),
    ):
        with pytest.raises(UsageError, match=text):
            chain(**wrong)(good)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="`Page`"):
        chain()(no_page)  # type: ignore[arg-type]
    assert "good" not in h.app.wiring.registry.names()


def test_mistakes_in_a_start_are_refused_and_write_nothing(h: Harness) -> None:
    source = Source(h.app)

    with pytest.raises(InvalidArguments):
        source.chain.start("seven")  # type: ignore[arg-type]
    with pytest.raises(InvalidArguments):
        source.chain.start()
    for wrong in ({"page_size": 0}, {"colour": 1}, {"delay": 1, "at": 1}, {"key": ""}):
        with pytest.raises(UsageError):
            source.chain.using(**wrong)

    assert h.app.chains() == []
    assert h.app.jobs() == []


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (lambda page: "next", "Next(cursor=…) or End()"),
        (lambda page: Next(cursor=None), "needs a cursor"),
        (lambda page: Next(cursor=page.cursor or 10), "did not move"),
        (lambda page: Next(cursor=1, size=0), "size"),
        (lambda page: Next(cursor=1, counts={"n": "many"}), "counts"),
        (lambda page: Next(cursor="x" * 70_000), "cursor takes"),
        (lambda page: page.expect(), "a total, or span"),
        (lambda page: page.expect(float("nan")), "a number"),
    ],
)
def test_what_a_page_should_not_say_fails_it_and_changes_nothing(
    h: Harness, said: Any, text: str
) -> None:
    source = Source(h.app, retries=0)
    source.before = lambda page: said(page) if page.number == 2 else None

    sync = source.chain.start(7)
    h.drain()

    assert (sync.progress().state, sync.progress().pages) == ("failed", 1)
    assert text in (sync.progress().error or "")
    assert (sync.refresh().cursor, items(h)) == (10, list(range(1, 11)))


def test_a_hundred_thousand_items_take_no_more_memory_than_ten_thousand(h: Harness) -> None:
    blocks: dict[int, int] = {}

    @h.app.chain(page_size=1000)
    async def pull(page: Page) -> Next | End:
        if page.number % 10 == 0:
            gc.collect()
            blocks[page.number] = sys.getallocatedblocks()
        start = page.cursor or 0
        items = [{"id": start + n, "name": f"activity {start + n}"} for n in range(page.size)]
        page.run.commit(lambda tx: keep(tx, items))
        counts = {"fetched": len(items)}
        return End(counts) if page.number == 100 else Next(start + len(items), counts)

    def keep(tx: Any, items: list[Any]) -> None:
        tx.write(WRITE, id=items[0]["id"], page=len(items), athlete=0)

    sync = pull.start()
    h.drain()

    assert sync.progress().counts == {"fetched": 100_000}
    assert [row[0] for row in h.app.read("select sum(page) from activity")] == [100_000]
    # The items of one page take some 4,000 blocks.
    assert blocks[100] - blocks[20] < 4000
