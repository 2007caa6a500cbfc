"""How large the pages of a sync are, and what their rows say."""

from __future__ import annotations

from itertools import pairwise

import pytest

from duework import Error, UsageError
from systems.strides import reading, sync
from systems.strides.settings import Settings
from systems.strides.sizes import next_size
from systems.strides.tests.conftest import NOON, World
from tests.support.plans import by_index

STATES = ("pending", "processing", "completed", "failed", "cancelled")


def sizes(world: World, athlete: int) -> list[int]:
    return [page.size for page in world.chain(athlete).pages()]


@pytest.mark.rows("004-12", "004-T18")
def test_a_first_page_is_small_for_a_new_athlete_and_of_a_thousand_else(world: World) -> None:
    world.plenty()
    world.strava.add_athlete(6001, 3_000)
    world.connect(6001)
    world.finish()
    initial = sizes(world, 6001)

    sync.start(6001, full=True)
    world.finish()
    full = sizes(world, 6001)
    sync.start(6001)
    world.finish()

    assert initial == [600, 1000, 1000, 1000]
    assert full == [1000, 1000, 1000, 1000]
    assert sizes(world, 6001) == [1000]
    assert all(size % 200 == 0 for size in (*initial, *full))


@pytest.mark.rows("004-57", "004-T18")
@pytest.mark.parametrize(("count", "size"), [(700, 600), (1_500, 1000), (10_400, 1600)])
def test_the_pages_after_it_fit_how_much_there_is(world: World, count: int, size: int) -> None:
    world.plenty()
    world.strava.add_athlete(6001, count)
    world.connect(6001)

    world.finish()

    first, *others = world.chain(6001).pages()
    assert first.size == 600
    assert {page.size for page in others} == {size}
    assert all(page.counts["activities"] <= page.size for page in others)
    # Full but for the borders that each call brings once more.
    assert others[0].counts["activities"] > min(size, count - 600) - 20
    assert world.stored(6001) == world.at_strava(6001)


def test_where_nothing_is_known_of_how_much_there_is_the_usual_size_stays() -> None:
    assert [next_size(kind, 0) for kind in ("initial", "full", "incremental")] == [600, 1000, 1000]


@pytest.mark.rows("004-T9", "004-57")
def test_the_limit_comes_first_also_for_those_who_have_much(world: World) -> None:
    world.strava.set_limits(read=(200, 10_000), overall=(10_000, 100_000))
    world.strava.add_athlete(6001, 12_000)
    world.connect(6001)
    # Two pages and no more: one of four calls, and one that learns what others have used.
    world.others_use(6001, 150)

    world.h.drain()

    calls = [page.quota["15m"] for page in world.chain(6001).pages() if page.quota]
    made = [after - before for before, after in pairwise(calls)]
    # 154 are used after the first page, and 160 are four fifths: one large page, then small ones.
    assert (calls[0], made[0]) == (154, 8)
    assert set(made[1:]) == {3}
    assert calls[-1] <= 190
    assert {page.size for page in world.chain(6001).pages()[1:]} == {1600}


def test_a_page_takes_every_call_from_the_quota_before_it_makes_it(world: World) -> None:
    world.strava.set_limits(read=(8, 1000))
    world.strava.add_athlete(6001, 12_000)
    world.connect(6001)

    world.h.advance("31m")

    # Seven of eight are usable: four of a first page and three of a small one.
    assert world.app.get_pace("strava").used == 7
    assert world.strava.log.over_limit() == []
    assert {asked.status for asked in world.asked()} == {200}


@pytest.mark.parametrize("wrong", [-1, 21])
def test_a_number_of_calls_that_makes_no_sense_is_refused(wrong: int) -> None:
    with pytest.raises(UsageError, match="page_calls is 0 to 20"):
        Settings(page_calls=wrong)


# --- what the rows of pages say


@pytest.mark.rows("004-13")
def test_a_page_s_row_has_what_the_article_s_table_has(world: World) -> None:
    world.strava.set_limits(read=(5, 1000))
    [session] = world.connect(5001)
    world.h.drain()

    chain = world.chain(5001)
    done, waiting = chain.pages()

    given = chain.arguments
    assert (given["athlete"], given["session"], given["after"]) == (5001, session, 0)
    assert (done.number, waiting.number) == (1, 2)
    assert waiting.cursor["before"] < given["before"]
    assert done.counts.keys() == {"activities", "races", "added"}
    assert done.quota == {"15m": 4, "1d": 4}
    assert (done.created, done.started, done.settled) == (NOON, NOON, NOON)
    assert (waiting.started, waiting.settled, waiting.error) == (None, None, None)
    # Removed races are known at the end of all pages alone.
    world.plenty()
    world.h.advance("20m")
    assert world.chain(5001).counts["removed"] == 0


@pytest.mark.rows("004-16")
def test_a_page_has_one_of_five_states_and_the_database_knows_no_other(world: World) -> None:
    world.connect(5004)
    world.finish()
    phases = ("waiting", "ready", "running", "expired", "done", "failed", "cancelled")
    assert {reading.status_of(phase) for phase in phases} == set(STATES)

    for statement in (
        "update duework_page set state = 'strange'",
        "update strides_athlete set sync_status = 'strange'",
    ):
        with pytest.raises(Error), world.app.transaction() as tx:
            tx.write(statement)

    assert {page.phase for page in world.chain(5004).pages()} == {"done"}


@pytest.mark.rows("004-14")
@pytest.mark.parametrize(
    "sql",
    [
        # Batches of a session by number; the active session of an athlete; what is pending.
        "select number from duework_page where chain = 1 and number > 0 order by number",
        "select id from duework_chain where task = 'a' and key = 'b' and state = 'active'",
        "select id from duework_job where lane = 1 and state = 'open' and worker is null order by due",
    ],
    ids=["batches", "athlete", "pending"],
)
def test_what_is_looked_for_is_found_by_an_index(world: World, sql: str) -> None:
    assert by_index(world.app, sql)
