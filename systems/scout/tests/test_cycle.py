"""A cycle: what wakes it, what it leaves to others, what it notes, and that it ends with its time."""

from __future__ import annotations

import json
from typing import Any

import pytest

from duework.testing import Harness
from systems.scout import app as scout
from systems.scout import client, store
from systems.scout.crawl import cycle, gaps, seeds, shares
from systems.scout.crawl import search as searching
from systems.scout.crawl.tiers import DAY
from systems.scout.enrich import pages, saving
from systems.scout.part import ORDER
from systems.scout.tests.conftest import NOON, World

APP = "insert into scout_app (track_id, track_name, seller_name, first_seen_at, last_seen_at"
GAPS = {
    "category": "insert into scout_category (id, collection, name, tier, sort_order, scanned_at)"
    " values (1, 'x', 'x', 'medium', 0, {fortnight})",
    "keyword": "insert into scout_keyword (keyword, source, created_at) values ('a', 'seed', 0)",
    "stale": "insert into scout_keyword (keyword, source, created_at, status, due_at)"
    " values ('a', 'seed', 0, 'searched', {now})",
    "failing": "insert into scout_keyword (keyword, source, created_at, status, due_at)"
    " values ('a', 'seed', 0, 'failing', {now})",
    "ranking": f"{APP}, enriched_at, enrichment_source, scraped_at, iap_scraped_at)"
    " values (1, 'x', 'x', 0, 0, {now}, 'scraper', {now}, {now})",
    "enrichment": f"{APP}) values (1, 'x', 'x', 0, 0)",
    "purchases": f"{APP}, enriched_at, enrichment_source, scraped_at, ranked_at)"
    " values (1, 'x', 'x', 0, 0, {now}, 'scraper', {now}, 1)",
    "developer": "insert into scout_developer (developer_id, name) values (1, 'x')",
}
SAME = {"stale": "keyword", "failing": "keyword"}


def plant(world: World, *texts: str, priority: int = 0) -> None:
    with world.app.transaction() as tx:
        store.keywords(tx, texts, world.h.now, source="seed", priority=priority)


def logged(world: World) -> list[Any]:
    return world.app.read("select * from scout_crawl_log order by id")


@pytest.mark.rows("001-27", "001-32", "001-T7")
def test_each_kind_of_gap_alone_ends_an_idle_pipeline(world: World) -> None:
    now = world.h.now
    assert not any(gaps.assess(world.app.read, now))
    for kind, sql in GAPS.items():
        with world.app.transaction() as tx:
            tx.write(sql.format(now=now, fortnight=now - 14 * DAY - 1))
        found = gaps.assess(world.app.read, now)._asdict()
        assert [name for name, open_ in found.items() if open_] == [SAME.get(kind, kind)], kind
        with world.app.transaction() as tx:
            for table in ("category", "keyword", "app", "developer"):
                tx.write(f"delete from scout_{table}")  # noqa: S608 - one of four


@pytest.mark.rows("001-75", "001-180")
def test_an_idle_tick_makes_no_job_and_leaves_a_point_with_zeros(world: World) -> None:
    world.h.advance("15m")
    world.app.metrics.flush()
    points = {
        point.name: (point.count, point.total)
        for point in world.app.metrics.totals()
        if point.labels == {"pipeline": "cron", "phase": "crawl_idle"}
    }
    assert points["scout_apps_discovered"] == (3, 0)
    assert len(points) == 4
    assert world.app.jobs(task="scout.crawl", limit=1) == []
    assert logged(world) == []
    made = world.app.get_schedule("scout.crawl")
    assert "*/5 * * * *" in made.when
    assert made.why


@pytest.mark.rows("001-16")
def test_the_crawl_runs_each_five_minutes_clusters_each_six_hours_and_snapshots_at_six() -> None:
    with Harness(scout, now=NOON) as h:
        h.drain()
        plans = [made.when for made in scout.schedules(prefix="scout.")]
    for cron in ("*/5 * * * *", "0 */6 * * *", "0 6 * * *"):
        assert sum(f"cron {cron}" in plan or cron == plan for plan in plans) == 1, plans


@pytest.mark.rows("001-26", "001-61", "001-63", "001-64", "001-T25", "001-T27", "001-T36")
def test_a_cycle_notes_what_came_of_it_and_tells_of_changed_rankings_once(world: World) -> None:
    world.seed((6013, "high"))
    world.apple.set_chart_cap(5)
    world.h.advance("13m 58s")
    first, *_, last = rows = logged(world)
    assert (first.phase, last.phase) == ("category_scan", "keyword_mapping")
    assert all(row.closed_at for row in rows)
    assert sum(row.apps_discovered for row in rows) == world.count("scout_app")
    assert sum(row.keywords_searched for row in rows) == len(world.calls("search")) > 5
    assert sum(row.rankings_added for row in rows) == world.count("scout_ranking")
    assert sum(row.apps_ranked for row in rows) == world.count("scout_app", "ranked_at is not null")
    assert sum(row.developers_expanded for row in rows) > 0
    assert sum(row.categories_scanned for row in rows) == 1
    events = world.app.events.search("rankings-updated")
    told = [word for event in events for word in event.payload["keywords"]]
    words = world.app.read("select keyword from scout_keyword where app_count > 0")
    assert sorted(told) == sorted(row.keyword for row in words)
    assert sum(row.keywords_with_new_rankings for row in rows) == len(words)
    assert all(len(json.dumps(event.payload)) < 10_000 for event in events)
    world.app.metrics.flush()
    found = [each for each in world.app.metrics.totals() if each.name == "scout_apps_discovered"]
    assert sum(each.total for each in found) == world.count("scout_app")
    assert {"category_scan", "keyword_mapping"} <= {each.labels["phase"] for each in found}


@pytest.mark.rows("001-63", "001-64")
def test_the_same_places_again_are_no_news(world: World) -> None:
    found = [client.Found(track_id=7), client.Found(track_id=8)]
    with world.app.transaction() as tx:
        for given, news in ((found, 1), (found, 0), (found[::-1], 1), ([], 1), ([], 0)):
            tx.write("delete from scout_fresh_keyword")
            searching.searched(tx, "sleep", given, 5)
            assert len(tx.read("select keyword from scout_fresh_keyword")) == news


@pytest.mark.rows("001-35", "001-T28")
def test_a_cycle_ends_with_its_five_minutes_and_what_has_not_begun_waits_unharmed(
    world: World,
) -> None:
    plant(world, *(f"word {n}" for n in range(90)))
    world.apple.storm(9 * 60)
    world.h.advance("9m")
    assert {call.status for call in world.calls()} == {403}
    free = shares.searches(primary=True, others_wait=False)
    assert 0 < world.count("scout_keyword", "status = 'searching'") <= free
    world.h.advance("6m")
    jobs = world.app.jobs(task="scout.search", limit=500)
    assert any(job.state == "cancelled" for job in jobs)
    assert world.count("scout_keyword", "failures > 0") == 0
    world.h.advance("10m")
    # Each was searched for once, in a cycle that had time for it.
    assert world.count("scout_keyword", "status = 'searched' and last_searched_at > 0") == 90
    answered = [call.notes["term"] for call in world.calls("search") if call.status == 200]
    assert len(answered) == len(set(answered)) == 90


@pytest.mark.parametrize(
    ("primary", "others", "most"),
    [(True, False, 88), (True, True, 57), (False, False, 50), (False, True, 50)],
)
@pytest.mark.rows("001-33")
def test_searches_leave_calls_to_charts_developers_and_enrichment(
    primary: bool, others: bool, most: int
) -> None:
    assert shares.searches(primary=primary, others_wait=others) == most
    assert list(ORDER) == sorted(ORDER, key=ORDER.__getitem__, reverse=True)


@pytest.mark.rows("001-T26")
def test_what_was_searched_for_is_searched_again_and_who_dropped_out_is_forgotten(
    world: World,
) -> None:
    plant(world, "sleep")
    with world.app.transaction() as tx:
        seeds.follow(tx, "Timer!", world.h.now)
    world.h.advance("4m 30s")
    due = {
        row.keyword: row.due_at - row.last_searched_at
        for row in world.app.read("select * from scout_keyword where keyword in ('sleep', 'timer')")
    }
    assert due == {"sleep": 30 * DAY, "timer": DAY}
    with world.app.transaction() as tx:
        tx.write("update scout_keyword set status = 'failed' where keyword not in ('sleep')")
        tx.write("update scout_keyword set due_at = :now where keyword = 'sleep'", now=world.h.now)
        tx.write(
            f"{APP}, ranked_at, enriched_at, enrichment_source)"
            " values (1, 'x', 'x', 0, 0, 5, 5, 'itunes')"
        )
        tx.write("insert into scout_ranking values ('sleep', 1, 99, 0)")
    searches = len(world.calls("search"))
    world.h.advance("5m")
    assert len(world.calls("search")) == searches + 1
    assert world.count("scout_ranking", "track_id = 1") == 0
    [app] = world.app.read("select ranked_at from scout_app where track_id = 1")
    assert app.ranked_at is None


@pytest.mark.rows("001-37", "001-T26")
def test_an_app_that_cannot_be_ranked_is_left_alone_for_a_month(world: World) -> None:
    with world.app.transaction() as tx:
        tx.write(
            f"{APP}, enriched_at, enrichment_source) values (1, 'Quiet', 'x', 0, 0, :now, 'itunes')",
            now=world.h.now,
        )
    with world.app.transaction() as tx:
        assert searching.suggest(tx, world.h.now) == 1
        assert searching.suggest(tx, world.h.now + 29 * DAY) == 0
        assert searching.suggest(tx, world.h.now + 30 * DAY) == 1


@pytest.mark.rows("001-141", "001-X5")
def test_a_developers_other_apps_are_found_and_one_that_fails_comes_back_later(
    world: World,
) -> None:
    shop = world.apple.catalogue
    [large, small] = [shop.apps[0].artist, shop.apps[40].artist]
    with world.app.transaction() as tx:
        rows = [{"id": large}, {"id": small}]
        tx.write("insert into scout_developer (developer_id, name) values (:id, 'x')", rows=rows)
    world.apple.faults.set([{"route": "lookup", "calls": "1", "do": "status", "status": 400}])
    world.h.advance("4m 30s")
    rows = world.app.read("select due_at, failures, expanding, expanded_at from scout_developer")
    assert {(row.failures, row.expanding, row.expanded_at) for row in rows} == {(1, None, None)}
    assert all(row.due_at > world.h.now for row in rows)
    with world.app.transaction() as tx:
        tx.write("update scout_developer set due_at = 0")
    world.h.advance("5m")
    wanted = {app.id for artist in (large, small) for app in shop.by_artist[artist]}
    found = world.app.read("select track_id from scout_app where found_by = 'portfolio'")
    assert {row.track_id for row in found} == wanted
    known = world.app.read("select * from scout_developer where expanded_at is not null")
    assert {row.developer_id: row.apps_found for row in known} == {
        artist: len(shop.by_artist[artist]) for artist in (large, small)
    }
    assert {row.due_at - row.expanded_at for row in known} == {30 * DAY}
    assert world.count("scout_keyword", "source = 'portfolio'") > 0


@pytest.mark.rows("001-139", "001-141")
def test_an_app_that_is_found_in_four_ways_is_one_row_and_the_first_way_is_kept(
    world: World,
) -> None:
    one = client.Found(track_id=7, track_name="Dozy", developer_id=9)
    with world.app.transaction() as tx:
        store.apps(tx, [one], 1, by="portfolio")
        store.apps(tx, [one], 2, by="chart")
        searching.searched(tx, "dozy", [one], 3)
        saving.neighbours(tx, [pages.Similar(7), pages.Similar(8)], 4)
    rows = world.app.read(
        "select track_id, found_by, last_seen_at from scout_app order by track_id"
    )
    assert [tuple(row) for row in rows] == [(7, "portfolio", 3), (8, "similar", 4)]


@pytest.mark.rows("001-17", "001-192")
def test_jobs_and_events_hold_ids_and_never_what_was_found(world: World) -> None:
    world.seed((6013, "high"))
    world.h.advance("9m")
    for task in ("scan", "map_keywords", "search", "expand", "portfolio", "enrich", "close"):
        jobs = world.app.jobs(task=f"scout.{task}", limit=50)
        assert jobs, task
        assert max(len(job.payload) for job in jobs) < 500


@pytest.mark.rows("001-190")
def test_the_cycle_looks_nothing_up_that_is_the_controllers_work(world: World) -> None:
    world.seed((6013, "high"))
    world.h.drain()
    world.app.get_pace("enrich").stop()
    world.h.advance("9m")
    assert world.count("scout_app") > 0
    assert world.count("scout_app", "enriched_at is not null") == 0
    assert all(call.notes["developers"] for call in world.calls("lookup"))


class Recorder:
    """Counts what is written, and how."""

    def __init__(self) -> None:
        self.batches: list[tuple[str, int]] = []

    def write(self, sql: str, rows: list[dict[str, Any]]) -> None:
        self.batches.append((sql, len(rows)))


@pytest.mark.rows("001-82", "001-88", "001-186", "001-187", "001-T3")
def test_two_hundred_rows_are_two_batches_of_one_statement() -> None:
    seen = Recorder()
    found = [client.Found(track_id=n) for n in range(1, 201)]
    store.apps(seen, found, 1, by="chart")
    insert, again, *update = seen.batches
    assert insert == again
    assert insert[1] == store.CHUNK == 100
    assert len({sql for sql, _ in update}) == 1
    assert [count for _, count in update] == [100, 100]


@pytest.mark.rows("001-T8")
def test_keywords_that_fail_stand_behind_all_that_are_pending(world: World) -> None:
    plant(world, "poison", priority=99)
    with world.app.transaction() as tx:
        tx.write("update scout_keyword set status = 'failing', failures = 1, due_at = 0")
    plant(world, "good")
    assert gaps.keywords(world.app.read, world.h.now, 5) == ["good", "poison"]


@pytest.mark.parametrize("text", ["", "!!", "123"])
def test_a_seed_without_letters_is_refused_and_nothing_is_stored(text: str) -> None:
    with Harness(scout, now=NOON), scout.transaction() as tx:
        with pytest.raises(Exception, match="no letters"):
            seeds.add(tx, ["sleep", text], 1)
        assert tx.read("select keyword from scout_seed") == []


def test_a_seed_goes_before_what_was_derived(world: World) -> None:
    plant(world, "sleep", "timer")
    with world.app.transaction() as tx:
        assert seeds.add(tx, ["Café  NOIR", "timer"], world.h.now) == ["cafe noir", "timer"]
    assert gaps.keywords(world.app.read, world.h.now, 3) == ["cafe noir", "timer", "sleep"]
    assert world.count("scout_seed") == 2


def test_the_window_of_a_cycle_is_half_a_minute() -> None:
    assert cycle.crawl.definition.timeout_ms == 30_000
