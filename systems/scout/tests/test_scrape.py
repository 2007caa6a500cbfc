"""Pages of apps: read once, kept for a while, stored in one commit; what is missing, gone, or refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from systems.scout import part
from systems.scout.crawl.tiers import DAY
from systems.scout.enrich import cache, feed, purchases, scrape
from systems.scout.tests.conftest import World
from systems.scout.tests.test_enrich import plant
from systems.twins.apple import pages as twin


@pytest.fixture(autouse=True)
def with_pages(world: World) -> Iterator[None]:
    with patch.object(part, "_settings", msgspec.structs.replace(part.settings, pages=True)):
        yield


def row(world: World, id_: int) -> Any:
    return world.app.read("select * from scout_app where track_id = :id", id=id_)[0]


def rated(world: World, count: int) -> list[int]:
    """The apps of the catalogue that most people rate."""
    apps = sorted(world.apple.catalogue.apps[:200], key=lambda app: -app.ratings)[:count]
    ids = [app.id for app in apps]
    world.h.drain()
    world.app.get_schedule("scout.crawl").pause()
    with world.app.transaction() as tx:
        tx.write(
            "insert into scout_app (track_id, track_name, seller_name, first_seen_at, last_seen_at)"
            " values (:id, 'x', 'x', 0, 0)",
            rows=[{"id": id_} for id_ in ids],
        )
        feed.wake(tx)
    return ids


def paged(world: World) -> list[int]:
    return [call.notes["app"] for call in world.calls("page") if "app" in call.notes]


@pytest.mark.rows("001-09", "001-20", "001-118", "001-129", "001-134", "001-X5")
def test_a_page_is_stored_with_its_histogram_purchases_similar_apps_versions_and_reviews(
    world: World,
) -> None:
    [id_] = rated(world, 1)
    world.h.advance("2m")
    app, now = world.apple.catalogue.by_id[id_], world.h.now
    found = row(world, id_)
    assert (found.enrichment_source, found.scraping, found.scrape_error) == ("scraper", None, None)
    assert json.loads(found.rating_histogram) == twin.histogram(found.rating_count)
    sold = twin.purchases(world.apple.catalogue, app)
    given = json.loads(found.in_app_purchases or "[]")
    assert [(each["name"], each["price"]) for each in given] == sold
    assert found.iap_scrape_status == ("found" if sold else "none")
    similar = [each.id for each in twin.similar(world.apple.catalogue, app)]
    assert json.loads(found.similar_apps) == similar
    assert {each.track_id for each in world.app.read("select track_id from scout_app")} == {
        id_,
        *similar,
    }
    history = world.app.read(
        "select version, released_at from scout_version where track_id = :id"
        " order by released_at desc",
        id=id_,
    )
    assert [tuple(each) for each in history] == [each[:2] for each in twin.versions(app)]
    texts = world.app.read("select * from scout_review where track_id = :id", id=id_)
    upstream = {each["id"]: each for each in twin.reviews(world.apple.catalogue, app, now)[:50]}
    assert {each.id for each in texts} == set(upstream)
    for each in texts:
        assert (each.rating, each.content) == (
            upstream[each.id]["rating"],
            upstream[each.id]["contents"],
        )
        assert (each.sentiment > 0) == (each.rating >= 4)
    stored = world.app.blobs.info(f"app/{id_}/page.html")
    assert (stored.content_type, set(stored.metadata)) == ("text/html", {"scraped_at"})
    assert stored.expires == stored.created + 30 * DAY
    assert "Safari" in cache.BROWSER


@pytest.mark.rows("001-130", "001-T18")
def test_a_page_is_asked_for_once_in_13_days_and_in_any_case_if_somebody_wants_it(
    world: World,
) -> None:
    [id_] = rated(world, 1)
    world.h.advance("2m")

    def again() -> int:
        scrape.read_page.enqueue(id_)
        world.h.advance("1m")
        return paged(world).count(id_)

    assert again() == 1
    world.h.advance("12d")
    world.app.get_pace("enrich").stop()
    assert again() == 1
    world.h.advance("1d")
    # An app is looked at again after 14 days: it must not see the page of then.
    assert again() == 2
    purchases.read_purchases.enqueue(id_)
    world.h.advance("1m")
    assert paged(world).count(id_) == 3


@pytest.mark.rows("001-T14", "001-T26")
def test_a_page_that_is_missing_or_broken_comes_back_later_and_holds_up_no_other(
    world: World,
) -> None:
    gone, *others = rated(world, 3)
    world.apple.faults.set([{"route": "page", "calls": "1", "do": "status", "status": 404}])
    world.h.advance("3m")
    found = row(world, gone)
    assert (found.enrichment_source, found.scraping, found.scrape_attempts) == ("itunes", None, 1)
    assert "Scrape failed: 404" in found.scrape_error
    assert found.scrape_retry_at > world.h.now
    assert {row(world, id_).enrichment_source for id_ in others} == {"scraper"}
    world.h.advance("7h")
    with world.app.transaction() as tx:
        scrape.wake(tx)
    world.h.advance("5m")
    assert row(world, gone).enrichment_source == "scraper"
    # A month later it is read again.
    with world.app.transaction() as tx:
        tx.write("update scout_app set scraped_at = scraped_at - :month", month=31 * DAY)
        assert scrape.take(tx, world.h.now) >= len(others)


def test_a_field_that_a_page_lacks_keeps_its_value_and_is_counted(world: World) -> None:
    [id_] = rated(world, 1)
    world.h.advance("2m")
    before = row(world, id_)
    world.apple.set_pages("html", ["information", "similarItems"])
    with world.app.transaction() as tx:
        tx.write("delete from scout_missing")
    world.app.blobs.delete(cache.key(id_))
    scrape.read_page.enqueue(id_)
    world.h.advance("1m")
    after = row(world, id_)
    assert after.scraped_at > before.scraped_at
    for name in ("rating_histogram", "in_app_purchases", "similar_apps"):
        assert getattr(after, name) == getattr(before, name)
    assert before.rating_histogram is not None
    assert before.similar_apps is not None
    counted = world.app.read("select field, pages from scout_missing order by field")
    assert [tuple(each) for each in counted] == [
        ("in_app_purchases", 1),
        ("rating_histogram", 1),
        ("reviews", 1),
        ("similar_apps", 1),
    ]


@pytest.mark.rows("001-32", "001-117", "001-118", "001-T26")
def test_purchases_that_pages_do_not_speak_of_are_asked_for_again_and_then_given_up(
    world: World,
) -> None:
    world.apple.set_pages("object", ["information"])
    ids = rated(world, 4)
    world.h.advance("3m")
    assert {row(world, id_).iap_scrape_status for id_ in ids} == {"missing"}
    with world.app.transaction() as tx:
        assert purchases.take(tx, world.h.now) == 0
        assert purchases.gap(tx.read, world.h.now + DAY, 10)[:4] == ids
    world.h.advance("1d")
    calls = len(paged(world))
    purchases.backfill.enqueue()
    world.h.advance("2m")
    assert set(ids) <= set(paged(world)[calls:])
    assert {row(world, id_).iap_attempts for id_ in ids} == {2}
    world.h.advance("1d")
    purchases.backfill.enqueue()
    world.h.advance("2m")
    found = [row(world, id_) for id_ in ids]
    assert {(each.iap_scrape_status, each.in_app_purchases) for each in found} == {("failed", None)}
    assert all(each.iap_scraped_at is not None for each in found)
    # The page is read again after a month, and says it then.
    world.apple.set_pages()
    for id_ in ids:
        world.app.blobs.delete(cache.key(id_))
    with world.app.transaction() as tx:
        tx.write(
            "update scout_app set scraped_at = scraped_at - :month where iap_scrape_status = 'failed'",
            month=31 * DAY,
        )
        scrape.wake(tx)
    world.h.advance("5m")
    assert {row(world, id_).iap_scrape_status for id_ in ids} <= {"found", "none"}


@pytest.mark.rows("001-32", "001-117")
def test_twenty_are_asked_for_if_more_than_500_wait_and_ten_else(world: World) -> None:
    plant(world, 0)
    with world.app.transaction() as tx:
        tx.write(
            "insert into scout_app (track_id, track_name, seller_name, first_seen_at, last_seen_at,"
            " enrichment_source, enriched_at, scraped_at, rating_count)"
            " values (:id, 'x', 'x', 0, 0, 'scraper', :now, :now, :id)",
            rows=[{"id": n, "now": world.h.now} for n in range(1, 532)],
        )
        first = [purchases.take(tx, world.h.now) for _ in range(3)]
    assert first == [20, 20, 10]
    taken = [job.arguments["track_id"] for job in world.app.jobs(task="scout.read_purchases")]
    assert max(taken) == 531


@pytest.mark.rows("001-57", "001-T13")
def test_pages_have_a_share_and_a_refusal_is_no_failure(world: World) -> None:
    ids = rated(world, 30)
    world.h.advance("1m")
    world.apple.storm(60)
    world.h.advance("20m")
    calls = world.calls()
    assert any(call.status == 403 for call in calls)
    assert world.busiest_minute() <= 20
    pages = [call.at for call in calls if call.route in {"page", "reviews"}]
    most = max(sum(at <= other < at + 60_000 for other in pages) for at in pages)
    assert 5 <= most <= 7
    found = [row(world, id_) for id_ in ids]
    assert {each.scrape_attempts for each in found} == {0}
    assert sum(each.enrichment_source == "scraper" for each in found) > 20


def test_a_page_that_has_moved_is_asked_for_where_it_is_with_a_call_of_its_own(
    world: World,
) -> None:
    [id_] = rated(world, 1)
    with world.app.transaction() as tx:
        tx.write(
            "update scout_app set enriched_at = :now, enrichment_source = 'itunes'", now=world.h.now
        )
        scrape.wake(tx)
    world.h.advance("2m")
    statuses = [call.status for call in world.calls("page") if call.notes.get("app") == id_]
    assert statuses == [301, 200]
    times = [call.at for call in world.calls("page")][:2]
    assert times[1] - times[0] >= 9_000
    assert row(world, id_).enrichment_source == "scraper"


def test_a_worker_that_dies_at_any_statement_reads_a_page_and_stores_it_once(world: World) -> None:
    world.apple.set_limits(10_000)
    statement, crashed, ids = 1, True, rated(world, 8)
    world.app.get_pace("enrich").stop()
    with world.app.transaction() as tx:
        tx.write("update scout_app set enriched_at = :now, enrichment_source = 'failed'", now=1)
    for id_ in ids:
        if not crashed:
            break
        with world.app.transaction() as tx:
            tx.write(
                "update scout_app set enrichment_source = 'itunes' where track_id = :id", id=id_
            )
            scrape.wake(tx)
        crashed = world.h.crash_worker(at=statement)
        world.h.advance("2m")
        found = row(world, id_)
        assert (found.enrichment_source, found.scraping) == ("scraper", None)
        # Once it was stored; if it died in between, the page came from the cache.
        assert [call.status for call in world.calls("page") if call.notes.get("app") == id_].count(
            200
        ) == 1
        statement += 9
    assert statement > 20
