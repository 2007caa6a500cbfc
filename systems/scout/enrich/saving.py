"""What pages and feeds say, into tables: each in the commit of the job that has read it.

Rows have the keys that Apple gives, so that what is read twice is stored once. A value that is missing keeps
the old one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from systems.scout.crawl.tiers import DAY
from systems.scout.enrich import pages
from systems.scout.enrich.sentiment import mentions, sentiment

# In-app purchases that a page does not speak of are asked for again, and then given up until the page is old.
IAP_TRIES, IAP_LATER = 3, DAY
MOST_KEYWORDS, MOST_TEXTS = 100, 500
_PAGE = (
    "update scout_app set subtitle = coalesce(:subtitle, subtitle),"
    " rating_histogram = coalesce(:histogram, rating_histogram),"
    " similar_apps = coalesce(:similar, similar_apps),"
    " enrichment_source = 'scraper', scraped_at = :now, scraping = null, scrape_attempts = 0,"
    " scrape_retry_at = 0, scrape_error = null, evaluated_at = null where track_id = :id"
)


def page(tx: Any, track_id: int, found: pages.Page, now: int) -> None:
    """Everything of a page."""
    tx.write(
        _PAGE,
        id=track_id,
        now=now,
        subtitle=found.subtitle,
        histogram=_json(found.rating_histogram),
        similar=_json([each.track_id for each in found.similar_apps or ()])
        if found.similar_apps is not None
        else None,
    )
    purchases(tx, track_id, found.in_app_purchases, now)
    versions(tx, track_id, found.versions or (), now)
    reviews(tx, track_id, found.reviews or (), now)
    neighbours(tx, found.similar_apps or (), now)
    missing(tx, found.missing(), now)
    tx.publish("app-enriched", {"track_ids": [track_id]})


def purchases(tx: Any, track_id: int, found: Sequence[pages.Purchase] | None, now: int) -> None:
    """What it sells; if the page did not say, that is to be asked again, up to three times."""
    if found is not None:
        tx.write(
            "update scout_app set in_app_purchases = :sold, iap_scraped_at = :now,"
            " iap_scrape_status = :status, iap_attempts = 0, iap_retry_at = 0 where track_id = :id",
            sold=_json([msgspec.structs.asdict(each) for each in found]) if found else None,
            status="found" if found else "none",
            now=now,
            id=track_id,
        )
        return
    tx.write(
        "update scout_app set iap_attempts = iap_attempts + 1, iap_retry_at = :later,"
        " iap_scraped_at = case when iap_attempts + 1 >= :most then :now else iap_scraped_at end,"
        " iap_scrape_status = case when iap_attempts + 1 >= :most then 'failed' else 'missing' end"
        " where track_id = :id",
        later=now + IAP_LATER,
        most=IAP_TRIES,
        now=now,
        id=track_id,
    )


def versions(tx: Any, track_id: int, found: Iterable[pages.Version], now: int) -> None:
    """The history of an app; what is known stays."""
    rows = [{**msgspec.structs.asdict(each), "id": track_id, "now": now} for each in found]
    if rows:
        tx.write(
            "insert into scout_version (track_id, version, released_at, notes, seen_at)"
            " values (:id, :version, :released_at, :notes, :now) on conflict do nothing",
            rows=rows,
        )


def reviews(tx: Any, track_id: int, found: Sequence[pages.Review], now: int) -> None:
    """What people wrote, with how they feel, and which keywords they use."""
    if not found:
        return
    tx.write(
        "insert into scout_review (track_id, id, rating, title, content, author, version, written_at,"
        " sentiment, seen_at) values (:track_id, :id, :rating, :title, :content, :author, :version,"
        " :written_at, :sentiment, :now) on conflict (track_id, id) do update set"
        " rating = excluded.rating, title = excluded.title, content = excluded.content,"
        " version = coalesce(excluded.version, scout_review.version),"
        " sentiment = excluded.sentiment",
        rows=[
            {
                **msgspec.structs.asdict(each),
                "track_id": track_id,
                "sentiment": sentiment(each.rating, f"{each.title} {each.content}"),
                "now": now,
            }
            for each in {each.id: each for each in found}.values()
        ],
    )
    _mentioned(tx, track_id)


def _mentioned(tx: Any, track_id: int) -> None:
    """Of the keywords that find an app, those that its reviews use."""
    words = tx.read(
        "select keyword from scout_ranking where track_id = :id order by rank, keyword limit :most",
        id=track_id,
        most=MOST_KEYWORDS,
    )
    texts = tx.read(
        "select title, content from scout_review where track_id = :id limit :most",
        id=track_id,
        most=MOST_TEXTS,
    )
    found = mentions(
        [row.keyword for row in words], [f"{row.title} {row.content}" for row in texts]
    )
    rows = [{"id": track_id, "word": word, "n": count} for word, count in sorted(found.items())]
    tx.write("delete from scout_mention where track_id = :id", id=track_id)
    if rows:
        tx.write(
            "insert into scout_mention (track_id, keyword, reviews) values (:id, :word, :n)",
            rows=rows,
        )


def neighbours(tx: Any, found: Iterable[pages.Similar], now: int) -> None:
    """Apps that are shown beside it and that nobody knew: they are to be looked up."""
    rows = [
        {"id": each.track_id, "name": each.track_name, "seller": each.seller_name, "now": now}
        for each in {each.track_id: each for each in found}.values()
    ]
    if rows:
        tx.write(
            "insert into scout_app (track_id, track_name, seller_name, first_seen_at, last_seen_at,"
            " found_by) values (:id, :name, :seller, :now, :now, 'similar')"
            " on conflict (track_id) do nothing",
            rows=rows,
        )


def missing(tx: Any, fields: Iterable[str], now: int) -> None:
    """What was not said, each as often as it is given."""
    counts = sorted(Counter(fields).items())
    rows = [{"field": field, "n": count, "now": now} for field, count in counts]
    if rows:
        tx.write(
            "insert into scout_missing (field, pages, last_at) values (:field, :n, :now)"
            " on conflict (field) do update set pages = scout_missing.pages + excluded.pages,"
            " last_at = excluded.last_at",
            rows=rows,
        )


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value)
