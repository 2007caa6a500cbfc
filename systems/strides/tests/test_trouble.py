"""What goes wrong in a sync: crashes, cancels, failures, tokens that end, access that is lost."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from duework import Conflict
from systems.strides import athlete, oauth, sync
from systems.strides.tests.conftest import World

TOKENS = "strides.tokens:5004"


@pytest.mark.rows("004-06", "004-T12", "004-T13")
def test_a_worker_that_dies_at_any_statement_of_a_sync_loses_and_repeats_nothing(
    world: World,
) -> None:
    world.plenty()
    world.strava.add_athlete(6001, 450)
    world.connect(6001)
    world.finish()
    statement, crashed = 1, True

    # Each sync dies three statements later than the one before, until one gets through.
    while crashed:
        sync.start(6001, full=True)
        crashed = world.h.crash_worker(at=statement)
        chain = world.chain(6001)
        [seen] = world.app.read(
            "select count(*) as n from strides_activity where seen = :id", id=chain.id
        )
        assert seen.n == chain.counts.get("activities", 0)
        world.finish("1m")
        chain = world.chain(6001)
        assert (chain.counts["activities"], chain.counts["gone"]) == (450, 0)
        assert world.stored(6001) == world.at_strava(6001)
        assert [page.number for page in chain.pages()] == list(range(1, chain.completed + 1))
        statement += 3

    assert statement > 40


@pytest.mark.rows("004-36", "004-37", "004-38", "004-T16")
def test_a_cancel_between_two_pages_stays_and_says_so(world: World) -> None:
    world.strava.set_limits(read=(6, 1000))
    [session] = world.connect(5001)
    world.h.drain()
    stored, calls = world.stored(5001), len(world.asked())

    assert sync.cancel(session) == "cancelled"
    world.h.advance("2h")

    row, chain = world.row(5001), world.chain(5001)
    assert (chain.state, chain.error) == ("cancelled", "Cancelled by user")
    assert (row.sync_status, row.sync_error) == ("completed", "Cancelled by user")
    assert (row.sync_outcome, row.sync_session_id, row.current_batch_number) == (
        "cancelled",
        None,
        0,
    )
    assert [page.phase for page in chain.pages()] == ["done", "cancelled"]
    assert world.stored(5001) == stored
    assert len(world.asked()) == calls


@pytest.mark.rows("004-39", "004-T3")
def test_a_cancel_inside_a_page_keeps_that_page_and_starts_no_other(world: World) -> None:
    [session] = world.connect(5001)
    world.faults({"route": "activities", "calls": "2", "do": "delay", "seconds": 1})
    draining = threading.Thread(target=world.h.drain)
    draining.start()
    while len(world.asked()) < 3:
        time.sleep(0.01)  # until the page is in the middle of its calls

    said = sync.cancel(session)
    draining.join()

    row, chain = world.row(5001), world.chain(5001)
    assert said == "cancelling"
    assert (chain.state, chain.completed, len(chain.pages())) == ("cancelled", 1, 1)
    assert len(world.stored(5001)) == chain.counts["activities"] > 0
    # The page that ended later did not write over the cancel.
    assert (row.sync_outcome, row.sync_session_id) == ("cancelled", None)
    assert (row.sync_status, row.current_batch_number) == ("completed", 0)


@pytest.mark.rows("004-42", "004-T1")
def test_a_resume_goes_on_below_the_last_page_and_fetches_nothing_again(world: World) -> None:
    world.strava.set_limits(read=(6, 1000))
    world.strava.add_athlete(6001, 3_000)
    [session] = world.connect(6001)
    world.h.advance("20m")
    sync.cancel(session)
    done, calls = world.chain(6001), len(world.asked())
    assert done.completed == 2

    sync.resume(session)
    assert world.row(6001).sync_status == "in_progress"
    world.plenty()
    world.finish()

    chain = world.chain(6001)
    assert chain.id == done.id
    assert world.stored(6001) == world.at_strava(6001)
    assert chain.counts["activities"] == 3_000
    first = world.asked()[calls]
    assert first.notes["before"] == done.cursor["before"]
    assert [page.number for page in chain.pages()] == list(range(1, chain.completed + 1))
    assert world.row(6001).sync_outcome == "done"


def test_a_page_tells_the_athletes_row_of_a_resume_that_a_crash_cut_short(world: World) -> None:
    world.strava.set_limits(read=(6, 1000))
    [session] = world.connect(5001)
    world.h.drain()
    sync.cancel(session)

    world.chain(5001).resume()  # and nothing after it
    world.h.advance("16m")

    row = world.row(5001)
    assert (row.sync_status, row.sync_session_id) == ("in_progress", session)
    assert row.current_batch_number == 3


@pytest.mark.rows("004-07", "004-26", "004-30", "004-40", "004-41", "004-T2")
def test_a_page_is_tried_four_times_then_failed_and_retried_by_hand(world: World) -> None:
    [session] = world.connect(5004)
    world.faults({"route": "activities", "calls": "1..", "do": "status", "status": 502})

    world.h.advance("10m")
    assert world.chain(5004).state == "active"
    assert world.chain(5004).pages()[0].failures == 3
    world.h.advance("1h")

    row, chain = world.row(5004), world.chain(5004)
    assert (chain.state, chain.pages()[0].phase) == ("failed", "failed")
    assert row.sync_status == "error"
    assert "502" in row.sync_error
    assert len(world.strava.log.of("activities")) == 4
    world.faults()
    sync.retry(session)
    world.finish()
    assert world.chain(5004).id == chain.id
    assert world.stored(5004) == world.at_strava(5004)
    assert (world.row(5004).sync_status, world.row(5004).sync_error) == ("completed", None)


def test_a_failure_in_the_middle_of_a_page_keeps_what_it_has(world: World) -> None:
    world.strava.add_athlete(6001, 3_000)
    world.connect(6001)
    world.faults(
        {"route": "activities", "calls": "3", "do": "drop_after"},
        {"route": "activities", "calls": "6", "do": "malformed"},
        {"route": "activities", "calls": "9", "do": "status", "status": 500},
    )

    world.finish()

    chain = world.chain(6001)
    assert world.stored(6001) == world.at_strava(6001)
    assert chain.counts["activities"] == 3_000
    assert all(page.failures == 0 for page in chain.pages())


@pytest.mark.rows("004-T15")
def test_a_token_that_ends_inside_a_page_is_renewed_once_and_stored(world: World) -> None:
    world.connect(5004)
    before = world.app.secrets.open(TOKENS)
    world.strava.expire(5004, after_calls=3)

    world.finish()

    assert world.stored(5004) == world.at_strava(5004)
    assert len(world.strava.ledger.of("refresh")) == 1
    assert world.app.secrets.open(TOKENS) != before
    assert world.row(5004).refreshing is None
    assert [page.failures for page in world.chain(5004).pages()] == [0, 0]


@pytest.mark.rows("004-T15")
def test_a_token_is_renewed_before_it_ends_and_the_new_refresh_token_works(world: World) -> None:
    world.connect(5004)
    world.finish()

    for _ in range(3):
        world.h.advance("6h")
        sync.start(5004)
        world.finish("20m")

    assert len(world.strava.ledger.of("refresh")) == 3
    assert {asked.status for asked in world.asked()} == {200}
    assert world.row(5004).connected == 1


@pytest.mark.rows("004-T15")
def test_two_who_renew_at_once_get_one_token_by_one_refresh(world: World) -> None:
    world.connect(5004)
    stale = world.strava.tokens.grants[5004].access
    world.strava.expire(5004)

    async def both() -> list[str]:
        return await asyncio.gather(*(athlete.renew(5004, stale) for _ in range(2)))

    first, second = asyncio.run(both())

    assert first == second == world.strava.tokens.grants[5004].access != stale
    assert len(world.strava.ledger.of("refresh")) == 1


def test_a_renewal_whose_page_fails_afterwards_is_not_lost(world: World) -> None:
    world.connect(5004)
    world.finish()
    world.h.advance("6h")
    world.faults({"route": "activities", "calls": "1", "do": "status", "status": 502})

    sync.start(5004)
    world.finish()

    # The first try renewed and failed; the second one used what it had stored.
    assert len(world.strava.ledger.of("refresh")) == 1
    assert world.chain(5004).state == "done"


def test_a_renewal_that_is_cut_off_is_told_apart_from_a_revocation(world: World) -> None:
    world.connect(5004)
    world.finish()
    world.h.advance("6h")
    world.faults({"route": "token", "calls": "1", "do": "drop_after"})

    sync.start(5004)
    world.finish()

    row = world.row(5004)
    assert (row.connected, row.reason) == (0, athlete.CUT_OFF)
    assert (row.sync_status, row.sync_error) == ("error", athlete.CUT_OFF)


def test_a_renewal_that_never_reached_strava_is_sent_again(world: World) -> None:
    world.connect(5004)
    world.finish()
    world.h.advance("6h")
    world.faults({"route": "token", "calls": "1", "do": "drop_before"})

    sync.start(5004)
    world.finish()

    assert world.row(5004).connected == 1
    assert world.chain(5004).state == "done"


def test_revoked_access_disconnects_the_athlete_with_the_reason(world: World) -> None:
    world.connect(5004)
    world.finish()
    world.strava.tokens.grants.pop(5004)

    sync.start(5004)
    world.finish()

    row = world.row(5004)
    assert (row.connected, row.reason) == (0, athlete.REVOKED)
    assert (row.sync_status, row.sync_error) == ("error", athlete.REVOKED)
    assert world.app.secrets.names("strides.") == []
    # Told once, not tried again; what was stored is still there.
    assert world.chain(5004).pages()[0].failures == 1
    assert world.stored(5004)
    with pytest.raises(Conflict, match="revoked"):
        sync.start(5004)
    with pytest.raises(Conflict, match="revoked"):
        sync.retry(world.chain(5004).arguments["session"])
    world.connect(5004)
    world.finish()
    assert world.row(5004).connected == 1


def test_the_tokens_of_athletes_are_in_no_table(world: World) -> None:
    world.connect(5004)
    world.finish()
    grant = world.strava.tokens.grants[5004]

    told = repr([tuple(row) for row in world.app.read("select * from strides_athlete")])
    told += repr([tuple(row) for row in world.app.read("select * from duework_secret")])

    assert grant.access not in told
    assert grant.refresh not in told


def test_disconnecting_revokes_at_strava_and_leaves_nothing_behind(world: World) -> None:
    world.connect(5004, 5005)
    world.finish()

    asyncio.run(oauth.disconnect(5004))

    assert 5004 not in world.strava.tokens.grants
    assert world.app.secrets.names("strides.") == ["strides.tokens:5005"]
    for table in ("activity", "race", "log"):
        rows = world.app.read(f"select distinct athlete_id as id from strides_{table}")  # noqa: S608 - ours
        assert {row.id for row in rows} == {5005}
    assert [row.id for row in world.app.read("select id from strides_athlete")] == [5005]


def test_a_list_that_ends_much_too_early_fails_and_deletes_nothing(world: World) -> None:
    world.connect(5004)
    world.finish()
    before, races = world.stored(5004), world.races(5004)
    empty = {"route": "activities", "calls": "2..", "do": "status", "status": 200, "body": []}
    world.faults(empty)
    world.strava.add_athlete(5004, 1_000)

    sync.start(5004, full=True)
    world.finish()

    assert world.chain(5004).state == "failed"
    assert "Strava has shown" in world.row(5004).sync_error
    assert before <= world.stored(5004)
    assert set(world.races(5004)) >= set(races)
