"""Apple's pages of apps in three forms, and reviews as a feed."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx2
import pytest

from systems.twins import Twins
from systems.twins.tests.conftest import Standing

TWINS = ("apple",)
FIRST = 700_000_001


@pytest.fixture(autouse=True)
def generous(t: Twins) -> None:
    t.apple.count = 600
    t.apple.set_limits(per_minute=1000)


def page(t: Twins, http: httpx2.Client, id_: int = FIRST) -> httpx2.Response:
    short = http.get(f"{t.apple.url}/us/app/id{id_}")
    return http.get(short.headers["location"]) if short.status_code == 301 else short


def data(text: str) -> Any:
    found = re.search(r'id="serialized-server-data">(.*?)</script>', text)
    assert found is not None
    return json.loads(found[1])


def test_the_short_address_leads_to_the_page_and_an_unknown_app_has_none(
    t: Twins, http: httpx2.Client
) -> None:
    short = http.get(f"{t.apple.url}/us/app/id{FIRST}")

    assert short.status_code == 301
    assert re.fullmatch(rf"{t.apple.url}/us/app/[\w-]+/id{FIRST}", short.headers["location"])
    assert page(t, http).headers["content-type"].startswith("text/html")
    assert [page(t, http, id_).status_code for id_ in (1, FIRST + 10_000)] == [404, 404]
    t.apple.delist(FIRST)
    assert page(t, http).status_code == 404
    found = http.get(f"{t.apple.url}/lookup", params={"id": f"{FIRST},{FIRST + 1}"}).json()
    assert [each["trackId"] for each in found["results"]] == [FIRST + 1]


def test_a_page_has_its_data_as_json_five_stars_first(t: Twins, http: httpx2.Client) -> None:
    [given] = data(page(t, http).text)["data"]
    shelves = given["data"]["shelfMapping"]
    [ratings] = shelves["productRatings"]["items"]

    assert sum(ratings["ratingCounts"]) == ratings["totalNumberOfRatings"]
    assert ratings["ratingCounts"][0] > ratings["ratingCounts"][4]
    assert all(isinstance(each["adamId"], str) for each in shelves["similarItems"]["items"])
    assert len(shelves["allProductReviews"]["items"]) <= 10
    t.apple.set_pages("list", ["productRatings"])
    [given] = data(page(t, http).text)
    assert "productRatings" not in given["data"]["shelfMapping"]


def test_an_older_page_is_plain_html(t: Twins, http: httpx2.Client) -> None:
    t.apple.set_pages("html")
    text = page(t, http).text

    assert "serialized-server-data" not in text
    assert "<dt>Age Rating</dt><dd>4+</dd>" in text
    assert '<script id="software-application" type="application/ld+json">' in text
    with pytest.raises(ValueError, match="pages have one of the forms"):
        t.apple.set_pages("fax")  # type: ignore[arg-type]


def test_reviews_come_fifty_a_page_the_app_first_and_one_more_each_day(
    t: Twins, http: httpx2.Client, clock: Standing
) -> None:
    app = max(t.apple.catalogue.apps, key=lambda each: each.ratings)

    def entries(number: int = 1) -> list[dict[str, Any]]:
        path = f"/us/rss/customerreviews/page={number}/id={app.id}/sortby=mostrecent/json"
        feed = http.get(f"{t.apple.url}{path}").json()["feed"]
        found = feed.get("entry", [])
        return found if isinstance(found, list) else [found]

    first = entries()
    assert "im:rating" not in first[0]
    assert all(each["im:rating"]["label"] in "12345" for each in first[1:])
    clock.forward(86_400)
    later = entries()
    assert [each["id"] for each in later[2:20]] == [each["id"] for each in first[1:19]]
    assert entries(10) == []
    bad = f"{t.apple.url}/us/rss/customerreviews/page=11/id={app.id}/sortby=mostrecent/json"
    assert http.get(bad).status_code == 400
