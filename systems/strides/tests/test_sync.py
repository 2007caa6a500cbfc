"""Syncs from their first page to their end: everything once, within the limits, with true progress."""

from __future__ import annotations

from collections import Counter

import pytest

from systems.strides import sync
from systems.strides.races import Activity, recognise
from systems.strides.tests.conftest import NOON, World
from systems.twins.strava.athletes import Activity as AtStrava
from systems.twins.strava.athletes import summary

QUARTER = 900_000


def races_at_strava(world: World, athlete: int) -> set[int]:
    import msgspec

    person = world.strava.athletes[athlete]
    every = [msgspec.convert(summary(person, one), Activity) for one in person.activities]
    return {one.id for one in every if recognise(one) is not None}


def per_quarter(world: World) -> Counter[int]:
    return Counter(asked.at // QUARTER for asked in world.asked())


@pytest.mark.slow
@pytest.mark.rows("004-03", "004-05", "004-09", "004-11", "004-47", "004-53", "004-T11", "004-T19")
def test_ten_thousand_activities_and_three_other_athletes_arrive_once_within_one_quota(
    world: World,
) -> None:
    sizes = {5001: 10_000, 6001: 3_000, 6002: 3_000, 6003: 3_000}
    for athlete, size in sizes.items():
        world.strava.add_athlete(athlete, size)
    world.connect(*sizes)

    world.finish()

    for athlete, size in sizes.items():
        chain = world.chain(athlete)
        assert world.stored(athlete) == world.at_strava(athlete)
        assert set(world.races(athlete)) == races_at_strava(world, athlete)
        assert chain.counts["activities"] == size
        assert all(page.counts["activities"] <= page.size <= 1000 for page in chain.pages())
    # Ten of up to a thousand, if they were not smaller at first and where the quota is nearly spent.
    assert 11 <= world.chain(5001).completed <= 14
    assert world.strava.log.over_limit() == []
    assert {asked.status for asked in world.asked()} == {200}
    # The reserve is left alone. What is not in it is used, but for what is too little for a page.
    quarters = per_quarter(world)
    assert len(quarters) == 2
    assert 91 <= quarters[NOON // QUARTER] <= 95


@pytest.mark.rows("004-47", "004-T19")
def test_nine_syncs_at_once_stop_together_where_the_reserve_begins(world: World) -> None:
    others, nine = 60, range(6101, 6110)
    world.strava.add_athlete(6001, 1)
    world.connect(6001)
    world.finish()
    world.others_use(6001, others)
    sync.start(6001)
    world.h.drain()
    for athlete in nine:
        world.strava.add_athlete(athlete, 450)
    world.connect(*nine)

    world.h.drain()

    assert 85 <= per_quarter(world)[world.h.now // QUARTER] + others <= 95
    assert {asked.status for asked in world.asked()} == {200}
    world.finish()
    assert all(world.stored(athlete) == world.at_strava(athlete) for athlete in nine)


@pytest.mark.rows("004-53", "004-T5")
@pytest.mark.parametrize("count", [0, 100, 200, 201, 1_000])
def test_every_size_is_stored_whole_with_seconds_that_two_share(world: World, count: int) -> None:
    world.strava.add_athlete(6001, count)
    world.connect(6001)

    world.finish()

    assert world.stored(6001) == world.at_strava(6001)
    assert world.chain(6001).counts["activities"] == count
    assert len(world.stored(6001)) == count


@pytest.mark.rows("004-T5")
def test_five_hundred_activities_of_one_second_are_all_stored(world: World) -> None:
    # As a bulk import of entries without a time makes them.
    start = NOON // 1000 - 86_400
    person = world.strava.athletes[5004]
    person.activities[:] = [
        AtStrava(number, start - (number > 520), "Entry", "Run", 1000.0, 300)
        for number in range(1, 600)
    ]
    world.connect(5004)

    world.finish()

    assert world.stored(5004) == set(range(1, 600))
    assert world.chain(5004).counts["activities"] == 599


@pytest.mark.rows("004-20")
def test_a_page_cut_short_by_the_scope_is_not_the_end(world: World) -> None:
    world.strava.choose(5004, "read,activity:read")
    world.connect(5004)

    world.finish()

    assert world.stored(5004) == world.at_strava(5004, private=False)
    assert world.stored(5004) < world.at_strava(5004)


@pytest.mark.rows("004-17", "004-T20")
def test_a_start_names_its_session_and_says_so_on_the_athletes_row(world: World) -> None:
    [session] = world.connect(5004)

    row, chain = world.row(5004), world.chain(5004)

    assert session == f"sync-5004-{NOON}"
    assert (row.sync_status, row.sync_session_id, row.current_batch_number) == (
        "in_progress",
        session,
        1,
    )
    # The session's facts are the chain's own.
    assert chain.arguments["kind"] == "initial"
    assert (chain.started, chain.number, chain.completed) == (NOON, 1, 0)
    assert sync.chain_of(session).id == chain.id


@pytest.mark.rows("004-04", "004-22", "004-23", "004-24", "004-46", "004-T21")
def test_a_page_stores_counts_usage_and_the_next_page_together(world: World) -> None:
    world.strava.set_limits(read=(6, 1000))
    world.connect(5001)

    world.h.drain()

    row, chain = world.row(5001), world.chain(5001)
    [first, second] = chain.pages()
    assert (first.phase, second.phase) == ("done", "ready")
    assert first.counts["activities"] == len(world.stored(5001)) == chain.counts["activities"]
    assert first.counts["added"] == len(world.races(5001))
    assert first.quota == {"15m": 4, "1d": 4}
    assert (row.current_batch_number, row.total_batches_expected) == (2, 11)
    logged = world.app.read("select message from strides_log where level = 'info' order by at")
    assert "Batch 1 complete. Enqueued batch 2" in [line.message for line in logged]


@pytest.mark.rows("004-25", "004-27", "004-28", "004-29")
def test_the_end_sums_the_pages_up_and_says_so_on_the_athletes_row(world: World) -> None:
    [session] = world.connect(5004)

    world.finish()

    row, counts = world.row(5004), world.chain(5004).counts
    assert (row.sync_status, row.sync_error, row.sync_outcome) == ("completed", None, "done")
    assert (row.current_batch_number, row.sync_session_id) == (0, None)
    assert row.last_synced_at == world.chain(5004).settled
    pages = world.chain(5004).pages()
    assert counts["activities"] == sum(page.counts["activities"] for page in pages) == 400
    [line] = world.app.read(
        "select message from strides_log where session = :s and level = 'success'", s=session
    )
    assert line.message == (
        f"Sync completed: {len(pages)} batches, 400 activities, {counts['added']} races added"
    )


@pytest.mark.rows("004-48", "004-T6", "004-T10")
def test_a_spent_quota_waits_for_the_natural_quarter_of_the_hour(world: World) -> None:
    world.strava.set_limits(read=(20, 1000))
    world.h.advance("7m")
    world.connect(5001, 5002)

    due = world.h.drain()

    assert due == NOON + QUARTER
    assert len(world.asked()) <= 19
    assert world.strava.log.over_limit() == []


@pytest.mark.rows("004-T10")
def test_a_day_that_is_full_waits_for_midnight(world: World) -> None:
    world.strava.set_limits(read=(100, 30))
    world.strava.add_athlete(6001, 4_000)
    world.strava.add_athlete(6002, 4_000)
    world.connect(6001, 6002)

    world.h.advance("11h")
    assert len(world.asked()) <= 30
    world.h.advance("3h")

    assert (
        min(asked.at for asked in world.asked() if asked.at > NOON + QUARTER)
        == NOON + 12 * 3_600_000
    )
    assert world.strava.log.over_limit() == []


@pytest.mark.rows("004-T10")
def test_a_refusal_that_others_caused_keeps_what_the_page_has_and_waits(world: World) -> None:
    world.strava.add_athlete(6001, 1_000)
    world.connect(6001)
    # Another program of the same application has used the quarter up but for two calls.
    world.others_use(6001, 98)

    due = world.h.drain()

    assert due == NOON + QUARTER
    assert [asked.status for asked in world.asked()] == [200, 200, 429]
    # One answer with activities; the next page goes on below them.
    assert len(world.stored(6001)) == 200
    world.finish()
    assert world.stored(6001) == world.at_strava(6001)
    assert world.strava.log.over_limit() == []


def test_calls_that_a_page_did_not_make_are_given_back(world: World) -> None:
    for athlete in range(6001, 6009):
        world.strava.add_athlete(athlete, 0)
        world.connect(athlete)

    world.h.drain()

    # Each asked for its totals, and once for activities: 40 were taken, 16 are used.
    assert len(world.asked()) == 16
    assert world.app.get_pace("strava").used == 16


def test_a_refusal_in_the_middle_that_names_no_limits_waits_all_the_same(world: World) -> None:
    world.strava.add_athlete(6001, 1_000)
    world.connect(6001)
    world.faults({"route": "activities", "calls": "2", "do": "status", "status": 429})

    due = world.h.drain()

    assert due == NOON + QUARTER
    assert [asked.status for asked in world.asked()] == [200, 200, 429]
    assert len(world.stored(6001)) == 200


def test_a_refusal_by_the_overall_limit_of_the_day_waits_for_midnight(world: World) -> None:
    world.strava.set_limits(overall=(200, 30))
    world.connect(5004)
    world.others_use(5004, 30)

    world.h.advance("11h")

    assert len(world.asked()) == 1
    world.finish()
    assert world.stored(5004) == world.at_strava(5004)
    assert world.strava.log.over_limit() == []


@pytest.mark.rows("004-T4", "004-06", "004-08")
def test_progress_is_a_share_of_activities_and_comes_true(world: World) -> None:
    world.strava.set_limits(read=(6, 1000))
    world.strava.add_athlete(6001, 4_000)
    world.connect(6001)
    shares: list[float] = []

    while world.chain(6001).state == "active":
        world.h.advance("15m")
        chain = world.chain(6001)
        shares.append((chain.percent or 0) - 100 * chain.counts["activities"] / 4_000)

    # Before the end each was right to within five percent; at the end it is 100.
    assert max(abs(share) for share in shares[:-1]) < 5
    assert world.chain(6001).percent == 100


@pytest.mark.rows("004-T14")
def test_a_second_start_finds_the_sync_that_is_under_way(world: World) -> None:
    [session] = world.connect(5004)

    again = sync.start(5004, full=True)

    assert (again.session, again.existed) == (session, True)
    assert len(world.app.chains()) == 1
    world.finish()
    later = sync.start(5004, full=True)
    assert not later.existed
    assert later.session != session


@pytest.mark.rows("004-T17")
def test_an_increment_finds_what_was_uploaded_late_and_leaves_the_rest_alone(world: World) -> None:
    world.connect(5004)
    world.finish()
    before = world.stored(5004)
    calls = len(world.asked())
    late = world.strava.add_activity(5004, NOON // 1000 - 5 * 86_400, "Late race", 1)
    new = world.strava.add_activity(5004, NOON // 1000 + 3_600)
    ancient = world.strava.add_activity(5004, NOON // 1000 - 90 * 86_400, "Years ago")

    sync.start(5004)
    world.finish()

    assert world.stored(5004) == before | {late, new}
    assert world.races(5004)[late].event_name == "Late race"
    assert len(world.asked()) - calls <= 5
    sync.start(5004, full=True)
    world.finish()
    assert world.stored(5004) == before | {late, new, ancient}


@pytest.mark.rows("004-44", "004-T7", "004-T11")
def test_a_full_sync_removes_what_is_gone_and_keeps_what_the_person_said(world: World) -> None:
    world.connect(5004)
    world.finish()
    races = sorted(world.races(5004))
    gone, gone_but_edited, edited, renamed = races[:4]
    plain = min(world.stored(5004) - set(races))
    with world.app.transaction() as tx:
        for race in (gone_but_edited, edited):
            tx.write(
                "update strides_race set event_name = 'Mine', is_hidden = 1, edited = 1"
                " where strava_activity_id = :id",
                id=race,
            )
    for activity in (gone, gone_but_edited, plain):
        world.strava.delete_activity(5004, activity)
    world.strava.edit_activity(5004, edited, "Renamed at Strava")
    world.strava.edit_activity(5004, renamed, "Renamed, too")
    made = {race: row.created_at for race, row in world.races(5004).items()}

    world.h.clock.move_to(world.h.now + QUARTER)
    sync.start(5004, full=True)
    world.finish()

    found, counts = world.races(5004), world.chain(5004).counts
    assert world.stored(5004) == world.at_strava(5004)
    assert set(races) - set(found) == {gone}
    assert (counts["gone"], counts["removed"], counts["added"]) == (3, 1, 0)
    assert (found[edited].event_name, found[edited].is_hidden) == ("Mine", 1)
    assert found[edited].name == "Renamed at Strava"
    assert found[gone_but_edited].event_name == "Mine"
    assert found[renamed].name == "Renamed, too"
    # They are the rows that they were.
    assert {race: row.created_at for race, row in found.items()}.items() <= made.items()


def test_an_application_that_is_made_inactive_waits_and_says_so(world: World) -> None:
    [session] = world.connect(5004)
    world.strava.set_active(active=False)

    world.h.advance("30m")

    # One call told it; no athlete is asked for again until the hour is over.
    assert len(world.strava.log.of("stats")) == 1
    assert world.chain(5004).state == "active"
    [line] = world.app.read(
        "select * from strides_log where session = :s and level = 'error'", s=session
    )
    assert "inactive" in line.message
    world.strava.set_active(active=True)
    world.finish()
    assert world.stored(5004) == world.at_strava(5004)


def test_lines_of_the_log_are_kept_for_a_week(world: World) -> None:
    world.connect(5004)
    world.finish()
    world.h.advance("8d")

    sync.start(5004)
    world.finish()

    [oldest] = world.app.read("select min(at) as at from strides_log")
    assert oldest.at >= (world.chain(5004).settled or 0) - 7 * 86_400_000
    assert oldest.at > NOON
