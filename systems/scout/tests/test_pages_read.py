"""What a page says in each form that pages have had, prices as numbers, and how people feel."""

from __future__ import annotations

from typing import Any

import pytest

from systems.scout.enrich import pages
from systems.scout.enrich.sentiment import mentions, sentiment
from systems.twins.apple import pages as twin
from systems.twins.apple.catalogue import Catalogue

NOON = 1_772_366_460_000
SHOP = Catalogue(0, NOON, 300)
SELLING = next(app for app in SHOP.apps if app.id % 3 and app.id % 2 and app.ratings)
OTHER = next(app for app in SHOP.apps if app.id % 3 and not app.id % 2 and app.ratings)
FREE = next(app for app in SHOP.apps if not app.id % 3 and app.ratings)


def read(app: Any, form: Any = "object", hidden: tuple[str, ...] = ()) -> pages.Page:
    return pages.read(twin.page(SHOP, app, "us", NOON, form, set(hidden)))


@pytest.mark.rows("001-20")
@pytest.mark.parametrize("form", ["object", "list"])
@pytest.mark.parametrize("app", [SELLING, OTHER], ids=["as pairs", "as texts"])
def test_a_page_of_today_is_read_whole_one_star_first(app: Any, form: str) -> None:
    found = read(app, form)

    assert found.missing() == []
    assert found.rating_histogram == twin.histogram(SHOP.ratings(app, "us", NOON))
    assert found.rating_histogram[0] < found.rating_histogram[4]
    sold = found.in_app_purchases
    assert sold is not None
    assert [(each.name, each.price) for each in sold] == twin.purchases(SHOP, app)
    similar = found.similar_apps
    assert similar is not None
    assert [each.track_id for each in similar] == [each.id for each in twin.similar(SHOP, app)]
    assert [each.track_name for each in similar] == [each.name for each in twin.similar(SHOP, app)]
    versions = found.versions
    assert versions is not None
    assert [(each.version, each.released_at) for each in versions] == [
        each[:2] for each in twin.versions(app)
    ]
    reviews = found.reviews
    assert reviews is not None
    assert len(reviews) == 10
    assert {each.rating for each in reviews} <= {1, 2, 3, 4, 5}


def test_an_older_page_is_read_and_what_it_lacks_is_named() -> None:
    found = read(SELLING, "html")

    assert found.missing() == ["rating_histogram", "reviews"]
    sold = found.in_app_purchases
    assert sold is not None
    assert [(each.name, each.price) for each in sold] == twin.purchases(SHOP, SELLING)
    assert found.subtitle == read(SELLING).subtitle
    assert [each.version for each in found.versions or ()] == [
        each[0] for each in twin.versions(SELLING)
    ]
    assert [each.track_id for each in found.similar_apps or ()] == [
        each.id for each in twin.similar(SHOP, SELLING)
    ]


def test_an_app_that_sells_nothing_is_not_one_of_which_nothing_is_known() -> None:
    for form in ("object", "list", "html"):
        assert read(FREE, form).in_app_purchases == []
        assert read(FREE, form, ("information",)).in_app_purchases is None
    hidden = ("productRatings", "similarItems", "mostRecentVersion", "allProductReviews")
    assert read(SELLING, "object", hidden).missing() == [
        "rating_histogram",
        "similar_apps",
        "versions",
        "reviews",
    ]


BROKEN = [
    "",
    "<html>",
    "no page at all",
    '<script id="serialized-server-data"></script>',
    '<script id="serialized-server-data">{</script>',
    '<script id="serialized-server-data">null</script>',
    '<script id="serialized-server-data">[]</script>',
    '<script id="serialized-server-data">{"data": 5}</script>',
    '<script id="serialized-server-data">[{"data": {"shelfMapping": []}}]</script>',
]
SHORT = (
    '{"productRatings": {"items": [{"ratingCounts": [1, 2]}]}, "information": {"items": [5, {}]}}'
)
BROKEN.append(
    f'<script id="serialized-server-data">[{{"data": {{"shelfMapping": {SHORT}}}}}]</script>'
)


@pytest.mark.parametrize("html", BROKEN, ids=range(len(BROKEN)))
def test_a_page_that_cannot_be_read_is_one_that_says_nothing(html: str) -> None:
    found = pages.read(html)

    assert {"rating_histogram", "similar_apps", "versions", "reviews"} <= set(found.missing())


@pytest.mark.parametrize(
    ("label", "price"),
    [
        ("$4.99", 4.99),
        ("4,99 €", 4.99),
        ("1.299,00 €", 1299.0),
        ("$1,299.00", 1299.0),
        ("¥1,500", 1500.0),
        ("CHF 12", 12.0),
        ("Free", 0.0),
        ("", None),
        ("soon", None),
    ],
)
def test_a_price_is_a_number(label: str, price: float | None) -> None:
    assert pages.price(label) == price


@pytest.mark.parametrize(
    ("stars", "text", "value"),
    [
        (5, "I love it, great app", 1.0),
        (1, "terrible, it crashes", -1.0),
        (3, "", 0.0),
        (3, "great but slow", 0.0),
        (5, "not useful", 0.0),
        (4, "words of no list", 0.5),
        (1, "no ads", 0.0),
    ],
)
def test_a_feeling_is_half_stars_and_half_words(stars: int, text: str, value: float) -> None:
    assert sentiment(stars, text) == value


def test_a_keyword_is_mentioned_as_whole_words() -> None:
    texts = ["My sleep timer. Sleep!", "asleep", "the SLEEP TIMER"]

    assert mentions(["sleep", "sleep timer", "noise"], texts) == {"sleep": 2, "sleep timer": 2}
