"""Sweeps: what a query finds is done in groups, what fails waits by itself, and one sweeper does it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from duework import (
    Adaptive,
    App,
    Fail,
    LeaseLost,
    NotFound,
    Part,
    Run,
    Snooze,
    Sweep,
    Throttled,
    Tick,
    UsageError,
)
from duework.shapes.sweeps.rounds import wrapped
from duework.shapes.sweeps.verbs import EndedItem, SweepGroup, commit
from duework.testing import Harness
from tests.support.checks import sound_at_the_end
from tests.support.harness import HarnessOn

TABLE = "create table track (id bigint primary key, rank bigint not null, done bigint)"
INDEX = "create index track_todo on track (rank desc) where done is null"
TODO = "select id from track where done is null order by rank desc"
DONE = "update track set done = coalesce(done, 0) + 1 where id = :id"


@pytest.fixture
def h(harness: Harness) -> Iterator[Harness]:
    with sound_at_the_end(harness, TABLE, INDEX):
        yield harness


def tracks(h: Harness, count: int) -> None:
    with h.app.transaction() as tx:
        rows = [{"id": each, "rank": count - each} for each in range(count)]
        tx.write("insert into track (id, rank) values (:id, :rank)", rows=rows)


def left(h: Harness) -> list[int]:
    return [row.id for row in h.app.read("select id from track where done is null order by id")]


class Enrich:
    """A sweep that does what a test asks for."""

    def __init__(self, h: Harness, query: Any = TODO, **options: Any) -> None:
        self.calls: list[int] = []
        self.before: Any = lambda run, row: None

        @h.app.sweep(query, **{"name": "enrich", **options})
        async def enrich(run: Run, id: int) -> None:  # noqa: A002 - the column
            self.calls.append(id)
            run.write(DONE, id=id)
            if (outcome := self.before(run, id)) is not None:
                raise outcome

        self.sweep: Sweep = enrich
        h.app.wiring.arm()


def test_everything_that_the_query_finds_is_done_once_in_its_order(h: Harness) -> None:
    tracks(h, 250)
    made = Enrich(h, parallel=8)

    h.advance("1s")

    assert left(h) == []
    assert made.calls == list(range(250))
    status = made.sweep.status()
    assert (status.done, status.failed, status.rounds, status.running) == (250, 0, 3, True)
    assert {row.done for row in h.app.read("select done from track")} == {1}


def test_it_looks_again_after_a_while_if_there_is_nothing_to_do(h: Harness) -> None:
    made = Enrich(h, every="10s")
    h.advance("25s")
    tracks(h, 1)
    h.advance("4s")
    assert made.calls == []

    h.advance("2s")

    assert made.calls == [0]
    assert made.sweep.status().rounds == 1


def test_a_row_that_always_fails_blocks_no_other_and_comes_back_later_and_later(h: Harness) -> None:
    tracks(h, 20)
    made = Enrich(h, parallel=4, pace=Tick(2, "10s"), backoff=("1m", "1h"))
    made.before = lambda run, row: ValueError("bad row") if row in {0, 1} else None

    h.advance("59s")

    # Two at each tick, and the first two ticks are not all the same bad ones.
    assert made.calls[:4] == [0, 1, 2, 3]
    assert left(h) == [0, 1, *range(12, 20)]
    [first, second] = made.sweep.failing()
    assert {first.key, second.key} == {"0", "1"}
    assert (first.failures, "bad row" in str(first.error)) == (1, True)
    h.advance("2h")
    assert left(h) == [0, 1]
    assert made.calls.count(0) == 3
    made.before = lambda run, row: None
    h.advance("2h")
    assert left(h) == []
    assert made.sweep.failing() == []


def test_what_an_item_writes_and_then_fails_is_undone_and_its_group_is_not(h: Harness) -> None:
    tracks(h, 4)
    made = Enrich(h, parallel=4)

    def twice(run: Run, row: int) -> None:
        if row == 2:
            run.write("insert into track (id, rank) values (1, 1)")

    made.before = twice
    h.advance("1s")

    assert left(h) == [2]
    assert made.sweep.status().failed == 1
    assert len(h.app.read("select id from track")) == 4


def test_items_are_given_up_put_off_and_throttled(h: Harness) -> None:
    tracks(h, 4)
    said = {0: Fail("never"), 1: Snooze("1h"), 2: Throttled("30s")}
    made = Enrich(h, pace=Adaptive(name="gate"), retries=0)
    made.before = lambda run, row: said.pop(row, None)

    h.advance("20s")
    assert made.calls == [0, 1, 2]
    items = {each.key: each for each in made.sweep.failing()}
    assert (items["0"].given_up, items["1"].failures) == (True, 0)

    h.advance("50m")
    assert left(h) == [0, 1]
    h.advance("15m")
    assert left(h) == [0]
    made.sweep.reset()
    made.sweep.start()
    h.advance("3m")
    assert left(h) == []
    assert made.sweep.status().done == 1


def test_an_adaptive_pace_says_how_many_and_how_often(h: Harness) -> None:
    tracks(h, 100)
    made = Enrich(h, parallel=5, pace=Adaptive(batch=(2, 50), interval=("10s", "2m")))

    h.advance("1s")
    assert len(made.calls) == 10
    h.advance("22s")
    assert len(made.calls) == 10
    h.advance("2s")
    assert len(made.calls) == 23

    shown = made.sweep.status().pace
    assert shown is not None
    assert (shown["total_completed"], shown["current_batch_size"]) == (23, 17)
    made.before = lambda run, row: ValueError("no")
    h.advance("10m")
    shown = made.sweep.status().pace
    assert shown is not None
    assert shown["current_batch_size"] == 2
    made.sweep.reset()
    shown = made.sweep.status().pace
    assert shown is not None
    assert shown["total_completed"] == 0


def test_it_is_stopped_and_started(h: Harness) -> None:
    made = Enrich(h, start=False)
    tracks(h, 3)
    h.advance("1m")
    assert (made.calls, made.sweep.status().state) == ([], "stopped")

    assert made.sweep.start().running
    h.advance("1s")
    assert made.calls == [0, 1, 2]
    assert made.sweep.stop().job is None
    with h.app.transaction() as tx:
        tx.write("update track set done = null")
    h.advance("1m")
    assert len(made.calls) == 3
    with pytest.raises(NotFound):
        h.app.sweeps.start("nothing")


def test_a_sweep_that_is_stopped_inside_a_round_ends_after_its_group(h: Harness) -> None:
    tracks(h, 10)
    made = Enrich(h, parallel=2)
    stops = [True]

    def stop(run: Run, row: int) -> None:
        if row == 1 and stops:
            made.sweep.stop()

    made.before = stop
    h.advance("5m")
    assert made.calls == [0, 1]
    assert made.sweep.status().job is None

    stops.clear()
    made.sweep.start()
    h.advance("5s")
    assert left(h) == []


def test_there_is_one_sweeper_however_often_it_is_declared(h: Harness) -> None:
    made = Enrich(h)
    for _ in range(3):
        h.app.wiring.arm()

    [job] = h.app.jobs(task="enrich")
    assert made.sweep.status().job == job.id
    h.app.cancel(job.id)
    assert made.sweep.status().state == "stopped"
    h.app.wiring.arm()
    assert h.app.jobs(task="enrich", phase="ready") == []
    assert made.sweep.start().running


def test_a_sweeper_that_lost_its_lease_commits_nothing(h: Harness) -> None:
    tracks(h, 1)
    made = Enrich(h, start=False)
    job = made.sweep.start().job
    assert job is not None
    ended = [EndedItem("0", effects=(lambda tx: tx.write(DONE, id=0),))]
    group = SweepGroup("enrich", job, 1, ended, lambda _: 0, first=True)

    with pytest.raises(LeaseLost), h.app.wiring.engine.database.transaction() as tx:
        commit(tx, group, h.app.wiring.engine)

    assert left(h) == [0]
    assert made.sweep.status().done == 0


def test_a_function_finds_rows_and_bad_ones_do_not_block_it(h: Harness) -> None:
    tracks(h, 10)

    def some(read: Any, count: int, random: Any) -> Any:
        assert 0 <= random() < 1
        return read(f"{TODO} limit :count", count=count)

    made = Enrich(h, query=some, pace=Tick(2, "10s"), backoff="1h")
    made.before = lambda run, row: ValueError("bad") if row < 2 else None
    h.advance("1m")

    assert left(h) == [0, 1]


def test_an_item_that_takes_too_long_has_failed(h: Harness) -> None:
    tracks(h, 2)
    calls: list[int] = []

    @h.app.sweep(TODO, timeout="50ms", parallel=2)
    async def slow(run: Run, id: int) -> None:  # noqa: A002 - the column
        calls.append(id)
        if id == 0:
            await asyncio.sleep(30)
        run.write(DONE, id=id)

    h.app.wiring.arm()
    h.advance("1s")

    assert left(h) == [0]
    assert [each.key for each in slow.failing()] == ["0"]


def test_the_key_of_an_item_is_the_same_whenever_it_is_tried(h: Harness) -> None:
    tracks(h, 1)
    keys: list[str] = []
    part = Part("shop")

    @part.sweep(TODO, backoff="1m")
    def pull(run: Run, id: int) -> None:  # noqa: A002 - the column
        keys.append(run.key)
        raise ValueError

    h.app.include(part)
    h.app.wiring.arm()
    h.advance("2m")

    assert len(keys) >= 2
    assert set(keys) == {"shop.pull:0"}
    assert h.app.sweeps.search()[0].name == "shop.pull"


def test_an_item_has_no_steps_since_all_share_one_job(h: Harness) -> None:
    tracks(h, 2)

    @h.app.sweep(TODO)
    async def enrich(run: Run, id: int) -> None:  # noqa: A002 - the column
        run.write(DONE, id=await run.step("look", lambda: id))

    h.app.wiring.arm()
    h.advance("1s")

    assert left(h) == [0, 1]
    assert ["has no steps" in (each.error or "") for each in enrich.failing()] == [True, True]


def test_mistakes_are_found_where_they_are_made(h: Harness) -> None:
    with pytest.raises(UsageError, match="query"):
        h.app.sweep("delete from track")
    with pytest.raises(UsageError, match="takes what its query selects"):

        @h.app.sweep(TODO)
        async def nothing(run: Run) -> None: ...

    with pytest.raises(UsageError, match="parallel"):
        h.app.sweep(TODO, parallel=0)


@pytest.mark.slow
def test_over_a_million_rows_the_users_index_is_used_and_nothing_is_sorted(h: Harness) -> None:
    with h.app.transaction() as tx:
        tx.write(
            """insert into track (id, rank, done)
               with recursive c (i) as (select 1 union all select i + 1 from c where i < 1000000)
               select i, i, case when i % 2 = 0 then 1 end from c"""
        )
        tx.write(
            """insert into duework_sweep_item (sweep, key, failures, next_try, changed)
               with recursive c (i) as (select 999001 union all select i + 1 from c where i < 1000000)
               select 'enrich', cast(i as text), 1, 9000000000000000, 0 from c"""
        )
    with h.app.transaction() as tx:
        tx.write("analyze track")
    values = {"sweep": "enrich", "now": 1, "wanted": 10}
    found = h.app.read(wrapped(TODO + ";", "id"), **values)
    assert [row.id for row in found] == list(range(998999, 998979, -2))

    sqlite = h.app.wiring.engine.database.kind == "sqlite"
    explain = "explain query plan " if sqlite else "explain "
    plan = "\n".join(str(tuple(row)) for row in h.app.read(explain + wrapped(TODO, "id"), **values))
    assert "track_todo" in plan
    assert "sort" not in plan.lower()
    assert "temp b-tree" not in plan.lower()


def test_a_row_that_the_query_gives_twice_is_done_once(h: Harness) -> None:
    tracks(h, 3)
    twice = (
        "select t.id from track t join track o on o.rank >= 0 where t.done is null order by t.id"
    )
    made = Enrich(h, twice, parallel=8)

    h.advance("1s")

    assert made.calls == [0, 1, 2]
    assert {row.done for row in h.app.read("select done from track")} == {1}


def test_a_query_may_end_in_a_comment(h: Harness) -> None:
    tracks(h, 1)
    made = Enrich(h, f"{TODO} -- the best first")

    h.advance("1s")

    assert made.calls == [0]


def test_rows_that_stay_in_the_query_although_they_are_done_are_not_done_without_a_pause(
    h: Harness,
) -> None:
    tracks(h, 2)
    made = Enrich(h, "select id from track order by id", every="10s")

    h.advance("35s")

    assert made.calls == [0, 1] * 4


def test_a_throttled_sweep_without_a_pace_leaves_the_other_rows_alone_for_as_long(
    h: Harness,
) -> None:
    tracks(h, 3)
    made = Enrich(h)
    made.before = lambda run, row: Throttled("1m") if h.now < start + 30_000 else None
    start = h.now

    h.advance("59s")
    assert made.calls == [0]
    h.advance("2m")

    assert left(h) == []
    assert made.calls.count(0) == 2


def test_a_sweeper_goes_to_the_queue_that_the_code_says_now(h: Harness, emptied: str) -> None:
    made = Enrich(h, every="10s")
    h.advance("25s")
    assert [each.queue for each in h.app.jobs(task="enrich")] == ["default"]
    later = App("sqlite:///never-opened.db")

    with HarnessOn(later, emptied, now=h.now) as next_version:
        again = Enrich(next_version, every="10s", queue="slow", priority=3)

        assert [(each.queue, each.priority) for each in later.jobs(task="enrich")] == [("slow", 3)]
        tracks(h, 1)
        next_version.advance("1s")
        assert again.calls == [0]
    assert made.sweep.status().running


def test_an_item_is_blamed_for_no_deploy_and_no_failed_commit(h: Harness) -> None:
    tracks(h, 2)
    made = Enrich(h, retries=0)
    seen: list[int] = []

    def stopped(run: Run, row: int) -> Any:
        seen.append(row)
        if len(seen) == 1:
            h.app.wiring.engine.writer.call(_began_alone, [row])
            raise asyncio.CancelledError
        return None

    made.before = stopped
    h.advance("1m")

    assert left(h) == []
    assert made.sweep.status().failed == 0


def _began_alone(tx: Any, rows: list[int]) -> list[None]:
    tx.write("update duework_sweep set current = :current", current=f"={rows[0]}")
    return [None for _ in rows]


def test_a_round_that_failed_is_forgotten_after_one_that_went_well(h: Harness) -> None:
    broken = [True]

    def find(read: Any, n: int, random: Any) -> list[Any]:
        if broken:
            raise ValueError("no such view")
        return []

    made = Enrich(h, find, every="10s")
    h.advance("5m")
    assert "no such view" in str(made.sweep.status().error)
    assert h.app.jobs(task="enrich")[0].failures > 3
    broken.clear()
    h.advance("2m")

    assert made.sweep.status().error is None
    assert h.app.jobs(task="enrich")[0].failures == 0
