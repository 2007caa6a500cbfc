"""The crawl: one primary task per cycle, charts, searches, and what goes wrong with them."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from duework.testing import Harness
from systems.scout import app as scout
from systems.scout import client
from systems.scout.crawl import cycle, gaps, search, shares, tiers
from systems.scout.enrich import feed
from systems.scout.evaluate import consumers
from systems.scout.tests.conftest import NOON, World

DAYS = 86_400_000


def phases(world: World) -> list[str]:
    jobs = world.app.jobs(task="scout.crawl", limit=100)
    return [job.result["phase"] for job in reversed(jobs) if job.state == "done"]


@pytest.mark.rows("001-08", "001-94", "001-95", "001-96", "001-97", "001-98", "001-109", "001-T27")
def test_a_chart_becomes_apps_places_and_keywords(world: World) -> None:
    world.seed((6013, "high"))
    world.h.advance("5m")
    [row] = world.app.read("select * from scout_category")
    [call] = world.calls("chart")
    listed = world.apple.catalogue.chart("topfreeapplications", 6013, "us", call.at)
    chart = world.app.read("select track_id, rank, snapshot_at from scout_chart order by rank")
    assert [each.track_id for each in chart] == [app.id for app in listed]
    assert [each.rank for each in chart] == list(range(1, len(listed) + 1))
    assert (row.apps_found, row.scanned_at) == (len(listed), chart[0].snapshot_at)
    assert world.count("scout_chart_history") == len(listed)
    assert row.scanning is None
    [job] = world.app.jobs(task="scout.scan", limit=5)
    assert job.result == world.count("scout_app") == len(listed)
    words = world.app.read("select * from scout_keyword where source = 'category_scan'")
    assert len(words) > 50
    assert {(each.depth, each.source_keyword) for each in words} == {(0, None)}


@pytest.mark.rows("001-99", "001-T15", "001-84")
def test_an_empty_chart_and_one_of_a_single_app_are_scanned_and_keep_what_is_known(
    world: World,
) -> None:
    world.seed((6013, "high"), (9999, "high"))
    world.h.advance("6m")
    rows = world.app.read("select apps_found from scout_category where id = 9999")
    assert rows[0].apps_found == 0
    rated = "select track_id, rating_count, enriched_at from scout_app order by track_id"
    before = world.app.read(rated)
    assert any(row.rating_count for row in before)
    world.apple.chart_cap = 1
    with world.app.transaction() as tx:
        tx.write("update scout_category set scanned_at = null where id = 6013")
    world.h.advance("5m")
    [row] = world.app.read("select apps_found from scout_category where id = 6013")
    assert row.apps_found == 1
    after = {each.track_id: each for each in world.app.read(rated)}
    assert all(after[each.track_id] == each for each in before)
    # Nor by a chart that has all of them again.
    world.apple.chart_cap = 200
    with world.app.transaction() as tx:
        tx.write("update scout_category set scanned_at = null where id = 6013")
    world.h.advance("5m")
    [row] = world.app.read("select apps_found from scout_category where id = 6013")
    assert row.apps_found == len(before) > 1
    again = {each.track_id: each for each in world.app.read(rated)}
    assert all(again[each.track_id] == each for each in before)


@pytest.mark.rows("001-24", "001-30", "001-31", "001-33", "001-T33")
def test_a_cycle_has_one_primary_task_charts_before_searches(world: World) -> None:
    world.seed((6013, "high"), (6020, "high"), (6001, "medium"), (6012, "low"))
    world.h.advance("15m")
    assert phases(world) == ["category_scan", "category_scan", "keyword_mapping"]
    assert len(world.calls("chart")) == 4
    first = world.app.read("select id from scout_category order by scanned_at limit 3")
    assert len(first) == cycle.CATS_PER_CYCLE
    # Searches went on beside the second scan, in jobs of their own.
    mapped = world.app.jobs(task="scout.map_keywords", limit=10)
    free = shares.searches(primary=True, others_wait=False)
    assert sorted(job.arguments["most"] for job in mapped) == [shares.MAPPED_BESIDE, free]


@pytest.mark.rows("001-73", "001-74", "001-77", "001-78")
def test_a_cycle_without_a_gap_does_not_run_and_a_stale_chart_ends_that(world: World) -> None:
    world.h.advance("30m")
    assert world.app.get_schedule("scout.crawl").idles == 6
    assert world.app.jobs(task="scout.crawl", limit=5) == []
    assert world.calls() == []
    now = world.h.now
    with world.app.transaction() as tx:
        for id_, tier, days in ((1, "high", 6), (2, "medium", 13), (3, "low", 29)):
            tx.write(
                "insert into scout_category (id, collection, name, tier, sort_order, scanned_at)"
                " values (:id, 'topfreeapplications', 'x', :tier, 0, :at)",
                id=id_,
                tier=tier,
                at=now - days * DAYS,
            )
    assert not gaps.category(world.app.read, now)
    for days, due in ((1, (1, 2, 3)), (0, ())):
        later = now + days * DAYS + 1
        found = [gaps.next_category(world.app.read, later, ((tier,),)) for tier in tiers.WEIGHTS]
        assert tuple(each.id for each in found if each) == due


@pytest.mark.rows("001-91", "001-92", "001-93", "001-101", "001-T1")
def test_the_first_tier_with_work_wins_and_within_it_what_was_never_scanned(world: World) -> None:
    read = world.app.read
    assert gaps.next_category(read, world.h.now, tiers.order(0)) is None
    world.seed((1, "medium"), (2, "low"), (3, "low"))
    with world.app.transaction() as tx:
        tx.write("update scout_category set scanned_at = 5 where id = 2")

    def chosen(draw: float) -> Any:
        found = gaps.next_category(read, world.h.now, tiers.order(draw))
        return found.id if found else None

    assert (chosen(0.0), chosen(0.99)) == (1, 3)


@pytest.mark.rows("001-34", "001-T9")
def test_a_chart_that_always_fails_comes_back_later_and_holds_up_no_other(world: World) -> None:
    world.apple.count = 60
    world.seed((6013, "high"), (6020, "high"))
    bad = {"route": "chart", "calls": "1", "do": "status", "status": 404}
    world.apple.faults.set([bad])
    world.h.advance("5m")
    rows = world.app.read("select id, failures, retry_at, scanned_at, scanning from scout_category")
    [failed] = [row for row in rows if row.failures]
    [good] = [row for row in rows if not row.failures]
    assert good.scanned_at is not None
    assert (failed.scanned_at, failed.scanning, failed.failures) == (None, None, 1)
    assert failed.retry_at > world.h.now
    world.h.advance("6m")
    assert world.count("scout_category", "scanned_at is null") == 0


@pytest.mark.rows("001-112", "001-114", "001-115", "001-116", "001-T24")
def test_a_search_stores_ranks_and_apps_and_suggests_more_keywords(world: World) -> None:
    with world.app.transaction() as tx:
        for word, priority in (("sleep", 1), ("budget", 9)):
            tx.write(
                "insert into scout_keyword (keyword, source, priority, created_at)"
                " values (:word, 'seed', :priority, 0)",
                word=word,
                priority=priority,
            )
    world.h.advance("4m 30s")
    terms = [each.notes["term"] for each in world.calls("search")]
    assert terms[:2] == ["budget", "sleep"]
    listed = world.apple.catalogue.search("sleep", "us", world.h.now)[: client.RESULTS]
    ranks = world.app.read(
        "select track_id from scout_ranking where keyword = 'sleep' order by rank"
    )
    assert [row.track_id for row in ranks] == [app.id for app in listed]
    [row] = world.app.read("select * from scout_keyword where keyword = 'sleep'")
    assert (row.status, row.app_count) == ("searched", len(listed))
    assert world.count("scout_app") >= len(listed)
    assert world.count("scout_keyword", "source_keyword = 'sleep' and depth = 1") > 5


@pytest.mark.rows("001-T8")
def test_a_keyword_that_cannot_be_searched_goes_to_the_back_and_is_given_up(world: World) -> None:
    with world.app.transaction() as tx:
        tx.write(
            "insert into scout_keyword (keyword, source, created_at) values ('bad', 'seed', 0)"
        )
    world.apple.faults.set([{"route": "search", "calls": "1..", "do": "status", "status": 400}])
    world.h.advance("5m")
    [row] = world.app.read("select status, failures from scout_keyword")
    assert row == ("failing", 1)
    assert gaps.keywords(world.app.read, world.h.now) == []
    for _ in range(2):
        with world.app.transaction() as tx:
            tx.write("update scout_keyword set due_at = 0")
        world.h.advance("5m")
    [row] = world.app.read("select status, failures from scout_keyword")
    assert row == ("failed", search.MOST_FAILURES)
    assert len(world.calls("search")) == search.MOST_FAILURES


@pytest.mark.rows("001-37")
def test_apps_that_no_keyword_finds_suggest_keywords_of_their_own(world: World) -> None:
    id_ = world.apple.catalogue.apps[0].id
    with world.app.transaction() as tx:
        tx.write(
            "insert into scout_app (track_id, track_name, seller_name, enrichment_source,"
            " enriched_at, first_seen_at, last_seen_at)"
            " values (:id, 'Quiet Harbour', 'x', 'itunes', :now, :now, :now)",
            id=id_,
            now=world.h.now,
        )
    world.h.advance("4m 30s")
    assert phases(world) == ["ranking_fill"]
    words = world.app.read("select keyword from scout_keyword where source = 'ranking_fill'")
    assert {row.keyword for row in words} == {"quiet harbour", "quiet", "harbour"}


@pytest.mark.rows("001-T21")
def test_another_rate_is_a_setting_and_shares_follow_it() -> None:
    look = (
        "from systems.scout.part import APPLE, PAGES; from systems.scout.crawl import shares;"
        "print(APPLE.rate, PAGES.rate, shares.CALLS)"
    )
    command = [sys.executable, "-c", look]
    said = [
        subprocess.run(
            command, env={**os.environ, **more}, capture_output=True, text=True, check=True
        )
        for more in ({}, {"SCOUT_RATE": "100"})
    ]
    assert [each.stdout.split() for each in said] == [
        ["19/1m", "6/1m", "95"],
        ["99/1m", "30/1m", "495"],
    ]


@pytest.mark.rows("001-57", "001-T21")
def test_twenty_minutes_of_crawling_find_apps_and_never_exceed_twenty_calls_a_minute(
    world: World,
) -> None:
    world.apple.count = 150
    world.seed((6013, "high"), (6007, "high"), (6002, "medium"), (6014, "low"))
    world.h.advance("20m")
    assert world.busiest_minute() <= 20
    assert {each.status for each in world.calls()} == {200}
    assert world.count("scout_app") > 60
    # The loop is closed: searches found apps that no chart had shown.
    unseen = "not exists (select 1 from scout_chart c where c.track_id = scout_app.track_id)"
    assert world.count("scout_app", unseen) > 5
    assert world.count("scout_app", "enriched_at is null") == 0


@pytest.mark.rows("001-80", "001-144", "001-189", "001-T2", "001-T31")
@pytest.mark.parametrize(
    ("sql", "index"),
    [
        (gaps.DUE, "scout_category_due"),
        (gaps.PENDING, "scout_keyword_status"),
        (gaps.AGAIN, "scout_keyword_due"),
        (gaps.UNRANKED, "scout_app_unranked"),
        (gaps.UNENRICHED, "scout_app_enrich"),
        (gaps.DEVELOPERS, "scout_developer_due"),
        (feed.NEW, "scout_app_enrich"),
        (feed.OLD, "scout_app_stale"),
        (consumers.WAITING, "scout_app_evaluate"),
    ],
)
def test_gaps_are_found_in_indexes(sql: str, index: str) -> None:
    names = ("tier", "now", "before", "most", "status", "source")
    with Harness(scout, now=NOON):
        given = {name: 1 for name in names if f":{name}" in sql}
        plan = [row.detail for row in scout.read(f"explain query plan {sql}", **given)]
    assert any(index in line for line in plan), plan
