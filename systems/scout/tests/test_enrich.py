"""Enriching: each app once, as fast as Apple lets us, with storms, apps that are gone, and kills."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest

from systems.scout import reading
from systems.scout.desk import apps
from systems.scout.enrich import feed
from systems.scout.evaluate import competitiveness, evaluate
from systems.scout.seed import promises
from systems.scout.tests.conftest import World


def plant(world: World, count: int, first: int = 0) -> list[int]:
    """Apps of the twin's catalogue, as if a chart had shown them."""
    ids = [app.id for app in world.apple.catalogue.apps[first : first + count]]
    world.h.drain()
    world.app.get_schedule("scout.crawl").pause()
    with world.app.transaction() as tx:
        tx.write(
            "insert into scout_app (track_id, track_name, seller_name, first_seen_at, last_seen_at)"
            " values (:id, 'x', 'x', 0, :now)",
            rows=[{"id": id_, "now": world.h.now} for id_ in ids],
        )
        feed.wake(tx)
    return ids


@pytest.mark.rows("001-60", "001-83", "001-87", "001-140", "001-T16")
def test_every_app_is_looked_up_once_and_then_scored(world: World) -> None:
    ids = plant(world, 130)
    world.h.advance("3m")
    assert [call.notes["found"] for call in world.calls("lookup")] == [25, 25, 25, 25, 25, 5]
    rows = world.app.read("select * from scout_app order by track_id")
    assert [row.track_id for row in rows] == ids
    assert {(row.enrichments, row.enrichment_source) for row in rows} == {(1, "itunes")}
    for row in rows[:20]:
        app = world.apple.catalogue.by_id[row.track_id]
        count = world.apple.catalogue.ratings(app, "us", row.enriched_at)
        assert (row.track_name, row.rating_count) == (app.name, count)
        assert (row.developer_id, row.version) == (app.artist, app.version)
    assert world.count("scout_app", "evaluated_at is null") == 0
    assert world.count("scout_developer") == len({row.developer_id for row in rows})
    assert {each.state for each in promises(world.app)} == {"sent"}


@pytest.mark.rows("001-10", "001-62", "001-65", "001-72", "001-191", "001-T22")
def test_a_score_can_be_computed_again_from_its_inputs_whatever_woke_it(world: World) -> None:
    [id_, *_] = plant(world, 40)
    world.h.advance("3m")
    shown = apps.one_app(id_)
    [(agent, score, inputs, at)] = shown["ledger"]
    assert (agent, score) == ("competitiveness", competitiveness(inputs))
    assert shown["app"].competitiveness_score == score
    # The same event again, in any order, finds nothing to do.
    for _ in range(3):
        evaluate.enqueue()
    world.h.drain()
    assert apps.one_app(id_)["ledger"][0][3] == at


@pytest.mark.rows("001-T13", "001-T14")
def test_an_app_that_is_gone_is_marked_and_says_nothing_about_the_load(world: World) -> None:
    plant(world, 3)
    with world.app.transaction() as tx:
        tx.write(
            "insert into scout_app (track_id, track_name, seller_name, first_seen_at, last_seen_at)"
            " values (5, 'gone', 'x', 0, :now)",
            now=world.h.now,
        )
        feed.wake(tx)
    world.h.advance("30m")
    [row] = world.app.read("select * from scout_app where track_id = 5")
    assert (row.enrichment_source, row.enriching, row.enrichments) == ("failed", None, 0)
    assert len(world.calls("lookup")) == 1
    assert world.app.get_pace("enrich").details["total_failed"] == 0


@pytest.mark.rows("001-T14", "001-184")
def test_a_lookup_that_always_fails_frees_its_apps_and_others_go_first(world: World) -> None:
    ids = plant(world, 2)
    world.apple.faults.set([{"route": "lookup", "calls": "1", "do": "status", "status": 404}])
    world.h.drain()
    rows = world.app.read("select * from scout_app order by track_id")
    assert [(row.track_id, row.attempts, row.enriching) for row in rows] == [
        (id_, 1, None) for id_ in ids
    ]
    assert all(row.retry_at > world.h.now and row.enriched_at is None for row in rows)
    with world.app.transaction() as tx:
        tx.write("update scout_app set retry_at = 0")
        feed.wake(tx)
    world.h.advance("2m")
    assert world.count("scout_app", "enriched_at is null") == 0


@pytest.mark.rows("001-38", "001-48", "001-50", "001-57", "001-184")
def test_the_batch_grows_a_storm_leads_to_a_cooldown_and_it_grows_again(world: World) -> None:
    world.apple.count = 2000
    plant(world, 2000)
    world.h.advance("3m")
    grown = reading.controller()
    assert grown["current_batch_size"] > 10
    assert grown["success_rate"] == 100
    points = [point[1:3] for point in world.app.get_pace("enrich").history]
    batch, interval = 10, 30_000
    for point in points:
        batch, interval = min(50, -(-batch * 125 // 100)), max(10_000, interval * 80 // 100)
        assert tuple(point) == (batch, interval)
    world.apple.storm(600)
    seen = []
    for _ in range(12):
        world.h.advance("1m")
        seen.append(reading.controller())
    resting = [each for each in seen if each["in_cooldown"]]
    assert resting
    assert (resting[0]["current_batch_size"], resting[0]["current_interval_ms"]) == (2, 120_000)
    refused = sum(call.status == 403 for call in world.calls())
    assert 5 <= refused < 60
    world.h.advance("25m")
    assert reading.controller()["current_batch_size"] > 2
    world.h.advance("40m")
    assert world.count("scout_app", "enriched_at is null") == 0
    assert world.count("scout_app", "enrichments <> 1") == 0
    assert world.busiest_minute() <= 20


@pytest.mark.rows("001-41", "001-42")
def test_a_controller_that_was_stopped_stays_so_until_somebody_starts_it(world: World) -> None:
    world.app.get_pace("enrich").stop()
    plant(world, 60)
    world.h.advance("1h")
    assert world.calls("lookup") == []
    world.app.get_pace("enrich").start()
    world.h.advance("2m")
    assert world.count("scout_app", "enriched_at is null") == 0


@pytest.mark.rows("001-43", "001-22")
def test_new_apps_go_first_by_priority_and_ratings_and_old_ones_come_back_after_14_days(
    world: World,
) -> None:
    ids = plant(world, 30)
    with world.app.transaction() as tx:
        tx.write("update scout_app set rating_count = track_id")
        tx.write("update scout_app set enrich_priority = 5 where track_id = :id", id=ids[3])
        taken = feed.take(tx, world.h.now)
    assert taken == 30
    jobs = sorted(world.app.jobs(task="scout.enrich", limit=5), key=lambda job: job.id)
    assert jobs[0].arguments["ids"][:2] == [ids[3], ids[-1]]
    world.h.advance("3m")
    later = world.h.now + feed.STALE
    with world.app.transaction() as tx:
        assert feed.take(tx, later - feed.STALE // 2) == 0
        assert feed.take(tx, later) == 30


@pytest.mark.rows("001-41", "001-69", "001-T25")
def test_a_worker_that_dies_at_any_statement_loses_no_app_and_stores_none_twice(
    world: World,
) -> None:
    world.apple.count = 400
    world.apple.set_limits(10_000)
    statement, crashed, first = 1, True, 0
    while crashed:
        plant(world, 5, first)
        first += 5
        crashed = world.h.crash_worker(at=statement)
        world.h.advance("3m")
        assert world.count("scout_app") == first
        assert world.count("scout_app", "enriched_at is null or enriching is not null") == 0
        assert world.count("scout_app", "enrichments <> 1") == 0
        assert world.count("scout_app", "evaluated_at is null") == 0
        statement += 6
    assert statement > 20


@pytest.mark.rows("001-72")
def test_an_app_that_comes_while_lookups_are_made_is_not_forgotten(world: World) -> None:
    [late] = plant(world, 1)
    real, calls = feed.take, []

    def take(tx: Any, now: int) -> int:
        calls.append(now)
        if len(calls) > 1:
            return real(tx, now)
        # It is there only after this run has looked, and says so while the run is not over.
        feed.wake(tx)
        return 0

    with patch.object(feed, "take", take):
        world.h.drain()
    assert len(calls) > 1
    world.h.advance("1m")
    assert world.count("scout_app", f"track_id = {late} and enrichments = 1") == 1
