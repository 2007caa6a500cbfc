"""Once a day: snapshots, velocity, quality with a mail, pruning, the size; and apps that leave."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from duework import Secret
from systems.scout import part
from systems.scout.crawl.tiers import DAY
from systems.scout.enrich import cache, feed, scrape
from systems.scout.tests.conftest import NOON, World
from systems.scout.tests.test_enrich import plant
from systems.scout.upkeep import alerts, quality, size, velocity
from systems.scout.upkeep.archive import archive, archived
from systems.scout.upkeep.daily import upkeep
from systems.twins import Twins, twins

EMPTY = {**dict.fromkeys(quality.THRESHOLDS, 0), quality.TOTAL: 0}


@pytest.fixture
def mails(world: World) -> Iterator[Twins]:
    with twins(world.h.clock, "resend") as t:
        given: dict[str, Any] = {
            "resend_url": t.resend.url,
            "resend_key": Secret("re_demo"),
            "alert_to": "ops@demo.example",
            "alert_from": "Scout <scout@demo.example>",
        }
        with patch.object(part, "_settings", msgspec.structs.replace(part.settings, **given)):
            yield t


def quiet(world: World) -> None:
    """Days pass without a crawl."""
    world.h.drain()
    for name in ("crawl", "cluster", "daily"):
        world.app.get_schedule(f"scout.{name}").pause()


def morning(world: World) -> None:
    """At six."""
    world.h.drain()
    for name in ("crawl", "cluster"):
        world.app.get_schedule(f"scout.{name}").pause()
    world.h.advance("18h")


def known(world: World, count: int, source: str = "scraper", **columns: Any) -> None:
    """Apps that have everything, but for what is said here."""
    values: dict[str, Any] = {
        "content_rating": "4+",
        "description": "x" * 20,
        "developer_id": 5,
        "languages": '["EN"]',
        "screenshots": 3,
        "similar_apps": "[1]",
        "rating_histogram": "[1,1,1,1,1]",
        "enriched_at": world.h.now,
        "enrichment_source": source,
        "last_seen_at": world.h.now,
        **columns,
    }
    names = ", ".join(values)
    slots = ", ".join(f":{name}" for name in values)
    first = world.count("scout_app") + 1
    with world.app.transaction() as tx:
        tx.write(
            "insert into scout_app (track_id, track_name, seller_name, first_seen_at,"  # noqa: S608
            f" {names}) values (:id, 'x', 'x', 0, {slots})",
            rows=[{"id": first + n, **values} for n in range(count)],
        )


def test_a_velocity_is_ratings_a_day_to_two_digits() -> None:
    assert velocity.velocity(130, 100, 7.0) == 4.29
    assert velocity.velocity(100, 130, 3.0) == -10.0
    assert velocity.velocity(105, 100, 0.5) == 5.0
    assert velocity.velocity(100, 100, 9.0) == 0.0


@pytest.mark.rows("001-21", "001-123", "001-124", "001-125", "001-160", "001-T26")
def test_the_velocity_of_an_app_is_what_it_really_grows_by(world: World) -> None:
    ids = plant(world, 40)
    world.h.advance("2m")
    with world.app.transaction() as tx:
        tx.write("update scout_app set enrichment_source = 'scraper'")
    upkeep.start()
    world.h.drain()
    # A week passes, for Apple and for what we have noted; then they are looked up again.
    world.apple.catalogue.born -= 7 * DAY
    with world.app.transaction() as tx:
        tx.write("update scout_app set enriched_at = enriched_at - :week", week=7 * DAY)
        tx.write("update scout_snapshot set snapshot_at = snapshot_at - :week", week=7 * DAY)
        assert feed.take(tx, world.h.now - DAY) == 0
        feed.wake(tx)
    world.h.advance("2m")
    upkeep.start()
    world.h.drain()
    assert world.count("scout_app", "enrichments = 2") == 40
    assert world.count("scout_snapshot") == 80
    rows = world.app.read("select * from scout_app where track_id <= :last", last=ids[-1])
    for row in rows:
        app = world.apple.catalogue.by_id[row.track_id]
        old = world.apple.catalogue.ratings(app, "us", row.enriched_at - 7 * DAY)
        assert row.rating_count_7d_ago == old
        grown = (row.rating_count - old) / 7
        assert abs(row.rating_velocity_7d - grown) <= 0.01 + grown / 100
        assert row.rating_velocity_updated_at == world.h.now


@pytest.mark.rows("001-124", "001-T19")
def test_the_oldest_snapshot_of_3_to_10_days_is_compared_with(world: World) -> None:
    ages = [(2.9,), (3.0, 2.0), (11.0, 10.0, 5.0), (10.1,), ()]
    chosen = [None, 3.0, 10.0, None, None]
    known(world, len(ages), rating_count=1000)
    with world.app.transaction() as tx:
        tx.write(
            "insert into scout_snapshot values (:id, :at, :count, 4.0)",
            rows=[
                {"id": id_, "at": world.h.now - int(age * DAY), "count": int(1000 - 10 * age)}
                for id_, each in enumerate(ages, start=1)
                for age in each
            ],
        )
    upkeep.start()
    world.h.drain()
    rows = world.app.read("select rating_velocity_7d as speed from scout_app order by track_id")
    assert [row.speed for row in rows] == [
        None if age is None else velocity.velocity(1000, int(1000 - 10 * age), age)
        for age in chosen
    ]


@pytest.mark.rows("001-119", "001-120", "001-T10")
@pytest.mark.parametrize("field", sorted(quality.THRESHOLDS))
def test_each_field_has_a_threshold_of_its_own_and_is_counted(field: str) -> None:
    full = {**dict.fromkeys(quality.THRESHOLDS, 100), quality.TOTAL: 100}
    threshold = quality.THRESHOLDS[field]
    assert quality.alerts({**full, field: threshold}) == []
    assert quality.alerts({**full, field: threshold - 1}) == [
        f"{field}: {threshold - 1}% (threshold: {threshold}%)"
    ]
    assert quality.alerts(EMPTY) == []
    assert quality.alerts({}) == []


@pytest.mark.rows(
    "001-119", "001-120", "001-121", "001-122", "001-123", "001-160", "001-T10", "001-166"
)
def test_fields_that_pages_do_not_have_any_more_are_told_by_one_mail_a_day(
    world: World, mails: Twins, caplog: pytest.LogCaptureFixture
) -> None:
    lacks: dict[str, Any] = {
        "content_rating": None,
        "description": "x" * 10,
        "developer_id": None,
        "languages": "[]",
        "screenshots": 0,
        "similar_apps": "[]",
        "rating_histogram": None,
    }
    known(world, 6)
    known(world, 4, **lacks)
    # Others than those whose page was read do not count.
    known(world, 30, source="itunes", **lacks)
    morning(world)
    [mail] = mails.resend.ledger.of("mail")
    assert mail["subject"] == "[Pipeline] Data quality degraded: 6 fields"
    assert mail["to"] == "ops@demo.example"
    lines = [f"{f}: 60% (threshold: {t}%)" for f, t in quality.THRESHOLDS.items() if t > 60]
    [body] = [each.body for each in mails.resend.mails.values()]
    assert body["text"] == "\n".join(lines)
    stored = world.app.read("select field, covered, total from scout_quality order by field")
    assert [tuple(each) for each in stored] == [(f, 6, 10) for f in sorted(quality.THRESHOLDS)]
    upkeep.start()
    world.h.drain()
    assert len(mails.resend.ledger.of("mail")) == 1
    with world.app.transaction() as tx:
        tx.write("delete from scout_app where content_rating is null")
    caplog.set_level("INFO", "duework.scout")
    upkeep.start()
    world.h.drain()
    assert len(mails.resend.ledger.of("mail")) == 1
    assert "all fields healthy" in caplog.text


def test_nobody_is_told_without_a_key_and_an_idle_day_does_nothing(world: World) -> None:
    morning(world)
    assert world.app.get_schedule("scout.daily").last_outcome == "idle"
    known(world, 1, rating_histogram=None)
    world.app.get_schedule("scout.daily").fire_now()
    world.h.drain()
    assert world.count("scout_quality", "field = 'histogram' and covered = 0") == 1
    assert world.app.jobs(task="scout.mail") == []


@pytest.mark.rows("001-145")
def test_the_size_is_noted_each_day_and_somebody_is_told_before_it_is_reached(
    world: World, mails: Twins
) -> None:
    known(world, 10)
    found = size.measured(world.app.read)
    assert found > 100_000
    with patch.object(part, "_settings", msgspec.structs.replace(part.settings, size=found)):
        upkeep.start()
        world.h.drain()
    [row] = world.app.read("select * from scout_size")
    assert (row.day % DAY, row.apps) == (0, 10)
    assert row.bytes >= found
    [mail] = mails.resend.ledger.of("mail")
    assert mail["subject"].startswith("[Pipeline] Database at 1")
    assert not size.near(799, 1000)
    assert size.near(800, 1000)


def test_a_mail_that_is_refused_is_given_up_and_one_that_got_lost_is_one(
    world: World, mails: Twins
) -> None:
    mails.resend.faults.set([{"route": "emails.send", "calls": "1", "do": "drop_after"}])
    with world.app.transaction() as tx:
        alerts.degraded(tx, ["x: 1% (threshold: 2%)"], NOON // DAY * DAY)
    world.h.advance("2m")
    assert len(mails.resend.ledger.of("mail")) == 1
    mails.resend.faults.set([{"route": "emails.send", "calls": "1", "do": "status", "status": 422}])
    with world.app.transaction() as tx:
        alerts.large(tx, 9, 10, NOON)
    world.h.advance("2m")
    [job] = [each for each in world.app.jobs(task="scout.mail") if each.state == "failed"]
    assert "422" in str(job.error)


@pytest.mark.rows("001-148")
def test_snapshots_are_kept_for_90_days(world: World) -> None:
    known(world, 1)
    with world.app.transaction() as tx:
        tx.write(
            "insert into scout_snapshot values (:id, :at, 1, 1)",
            rows=[{"id": n, "at": world.h.now - n * DAY} for n in range(2, 200)],
        )
    with patch("systems.scout.upkeep.daily.PRUNED_AT_ONCE", 20):
        upkeep.start()
        world.h.drain()
    [row] = world.app.read("select count(*) as n, min(snapshot_at) as first from scout_snapshot")
    assert (row.n, row.first) == (90, world.h.now - 90 * DAY)


@pytest.mark.rows("001-146")
def test_an_app_that_nobody_has_seen_for_90_days_is_a_blob_and_no_rows(world: World) -> None:
    known(world, 2)
    known(world, 1, last_seen_at=world.h.now - 89 * DAY)
    with world.app.transaction() as tx:
        tx.write(
            "update scout_app set last_seen_at = :at where track_id = 1", at=world.h.now - 91 * DAY
        )
        for id_ in (1, 2):
            tx.write("insert into scout_version values (:id, '1.0', null, null, 0)", id=id_)
    archive.start()
    world.h.drain()
    assert world.count("scout_app") == 2
    assert [row.track_id for row in world.app.read("select track_id from scout_version")] == [2]
    kept = archived(1)
    assert kept is not None
    assert kept["scout_app"]["description"] == "x" * 20
    assert kept["scout_version"][0]["version"] == "1.0"
    assert archived(2) is None
    assert archived(3) is None
    with world.app.transaction() as tx:
        tx.write(
            "update scout_app set last_seen_at = last_seen_at - :two where track_id = 3",
            two=2 * DAY,
        )
    quiet(world)
    world.h.advance("6h")
    assert archived(3) is not None


@pytest.mark.rows("001-146")
def test_a_worker_that_dies_while_it_archives_loses_nothing(world: World) -> None:
    old = world.h.now - 100 * DAY
    statement, crashed, last = 1, True, 0
    while crashed:
        known(world, 2 + last - world.count("scout_app"), last_seen_at=old)
        archive.start()
        crashed = world.h.crash_worker(at=statement)
        # Whatever is gone from the rows is in a blob.
        left = {row.track_id for row in world.app.read("select track_id from scout_app")}
        assert all(archived(id_) is not None for id_ in {1, 2} - left)
        world.h.advance("3m")
        assert world.count("scout_app") == 0
        statement += 4
        if statement > 80:
            break
    assert statement > 12


def test_an_app_that_is_seen_while_it_is_archived_stays_with_all_it_has(world: World) -> None:
    known(world, 1, last_seen_at=world.h.now - 91 * DAY)
    with world.app.transaction() as tx:
        tx.write("insert into scout_version values (1, '1.0', null, null, 0)")
    real = world.app.blobs.aput

    async def put(*args: Any, **options: Any) -> Any:
        with world.app.transaction() as tx:
            tx.write("update scout_app set last_seen_at = :now", now=world.h.now)
        return await real(*args, **options)

    with patch.object(type(world.app.blobs), "aput", side_effect=put, autospec=False):
        archive.start()
        world.h.drain()
    assert (world.count("scout_app"), world.count("scout_version")) == (1, 1)


@pytest.mark.rows("001-147", "001-T4")
def test_no_text_is_stored_longer_than_2000_characters(world: World) -> None:
    long = "x" * 5000
    page = {
        "mostRecentVersion": {"items": [{"primarySubtitle": "Version 1", "text": long}]},
        "allProductReviews": {
            "items": [{"review": {"id": 1, "rating": 5, "title": long, "contents": long}}]
        },
    }
    data = json.dumps([{"data": {"shelfMapping": page}}])
    html = f'<script id="serialized-server-data">{data}</script>'
    known(world, 1, source="itunes")
    world.app.blobs.put(cache.key(1), html)
    scrape.read_page.enqueue(1)
    world.h.advance("1m")
    [review] = world.app.read("select * from scout_review")
    [version] = world.app.read("select * from scout_version")
    assert {len(review.title), len(review.content), len(version.notes)} == {2000}
