"""Apple: search, lookup and charts over an invented catalogue, and refusals without a word."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from systems.twins import Twins
from systems.twins.apple.catalogue import GENRES, Catalogue, words
from systems.twins.tests.conftest import NOON, Standing

TWINS = ("apple",)
FIRST = 700_000_001


@pytest.fixture(autouse=True)
def generous(t: Twins) -> None:
    t.apple.count = 600
    t.apple.set_limits(per_minute=1000)


def get(t: Twins, http: httpx2.Client, path: str, **query: Any) -> httpx2.Response:
    return http.get(f"{t.apple.url}{path}", params=query)


def test_a_search_finds_apps_by_their_words_best_first(t: Twins, http: httpx2.Client) -> None:
    reply = get(t, http, "/search", term="sleep", country="us", entity="software", limit=5)

    body = reply.json()
    assert reply.headers["content-type"] == "text/javascript; charset=utf-8"
    assert body["resultCount"] == len(body["results"]) == 5
    assert "sleep" in body["results"][0]["trackName"].lower()


def test_a_result_has_the_fields_and_types_of_the_real_one(t: Twins, http: httpx2.Client) -> None:
    found = get(t, http, "/lookup", id=str(FIRST)).json()["results"][0]

    kinds = {
        "trackId": int,
        "artistId": int,
        "primaryGenreId": int,
        "genreIds": list,
        "fileSizeBytes": str,
        "price": float,
        "userRatingCount": int,
        "languageCodesISO2A": list,
        "isVppDeviceBasedLicensingEnabled": bool,
        "version": str,
        "bundleId": str,
    }
    for name, kind in kinds.items():
        assert isinstance(found[name], kind), name
    assert found["wrapperType"] == found["kind"] == "software"
    assert all(isinstance(each, str) for each in found["genreIds"])
    # It left the API in January 2025.
    assert "sellerUrl" not in found


def test_some_keys_are_missing_and_an_app_without_ratings_has_zero(t: Twins) -> None:
    shop = t.apple.catalogue
    shown = [shop.as_json(app, "us", NOON) for app in shop.apps]

    assert any("price" not in app for app in shown)
    assert any("releaseNotes" not in app for app in shown)
    assert 5 < sum("languageCodesISO2A" not in app for app in shown) < 60
    assert {app["averageUserRating"] for app in shown if not app["userRatingCount"]} == {0}


def test_a_limit_is_at_most_200_and_50_by_default(t: Twins, http: httpx2.Client) -> None:
    t.apple.count = 5000
    counts = [
        get(t, http, "/search", term="planner", **more).json()["resultCount"]
        for more in ({}, {"limit": 500}, {"limit": 3})
    ]

    assert counts == [50, 200, 3]


def test_nothing_found_is_an_empty_list(t: Twins, http: httpx2.Client) -> None:
    for query in ({"term": "zzz"}, {"term": ""}, {}):
        assert get(t, http, "/search", **query).json() == {"resultCount": 0, "results": []}
    assert get(t, http, "/lookup", id="1").json() == {"resultCount": 0, "results": []}


def test_unknown_ids_are_left_out_and_the_order_is_not_ours(t: Twins, http: httpx2.Client) -> None:
    ids = [FIRST + n for n in range(150)]
    found = get(t, http, "/lookup", id=",".join(map(str, [*ids, 1, 2]))).json()["results"]

    shown = [app["trackId"] for app in found]
    assert sorted(shown) == ids
    assert shown != ids


def test_no_more_than_200_ids_are_looked_up(t: Twins, http: httpx2.Client) -> None:
    ids = ",".join(str(FIRST + n) for n in range(250))

    assert get(t, http, "/lookup", id=ids).json()["resultCount"] == 200


def test_an_app_is_found_by_its_bundle_and_a_developer_with_its_apps(
    t: Twins, http: httpx2.Client
) -> None:
    shop = t.apple.catalogue
    artist = max(shop.by_artist, key=lambda each: len(shop.by_artist[each]))
    own = shop.by_artist[artist]

    one = get(t, http, "/lookup", bundleId=own[0].bundle).json()["results"]
    portfolio = get(t, http, "/lookup", id=artist, entity="software").json()["results"]
    alone = get(t, http, "/lookup", id=artist).json()["results"]

    assert [app["trackId"] for app in one] == [own[0].id]
    assert len(own) > 3
    assert portfolio[0]["wrapperType"] == "artist"
    assert {app["trackId"] for app in portfolio[1:]} == {app.id for app in own[:50]}
    assert len(alone) == 1


def test_a_developer_is_searched_by_name(t: Twins, http: httpx2.Client) -> None:
    name = t.apple.catalogue.apps[0].artist_name

    found = get(t, http, "/search", term=name, attribute="softwareDeveloper").json()["results"]

    assert {app["artistName"] for app in found} == {name}


@pytest.mark.parametrize("query", [{"country": "usa"}, {"limit": "x"}, {"entity": "fax"}])
def test_a_wrong_value_is_named(t: Twins, http: httpx2.Client, query: dict[str, str]) -> None:
    reply = get(t, http, "/search", term="sleep", **query)

    assert reply.status_code == 400
    assert next(iter(query)) in reply.json()["errorMessage"]


def test_a_callback_makes_it_jsonp(t: Twins, http: httpx2.Client) -> None:
    assert get(t, http, "/search", term="zzz", callback="f").text.startswith('f({"resultCount"')


def test_counts_of_ratings_are_those_of_the_storefront(t: Twins, http: httpx2.Client) -> None:
    shop = t.apple.catalogue
    app = max(shop.apps, key=lambda each: each.ratings if shop.sold_in(each, "de") else 0)

    us, de = (
        get(t, http, "/lookup", id=app.id, country=country).json()["results"][0]
        for country in ("us", "de")
    )

    assert us["userRatingCount"] > de["userRatingCount"] > 0
    assert (us["currency"], de["currency"]) == ("USD", "EUR")


def test_too_many_calls_get_403_with_nothing_in_it(
    t: Twins, http: httpx2.Client, clock: Standing
) -> None:
    t.apple.set_limits()

    replies = [get(t, http, "/search", term="zzz") for _ in range(22)]
    clock.forward(60)
    after = get(t, http, "/search", term="zzz")

    assert [reply.status_code for reply in replies] == [200] * 20 + [403] * 2
    refused = replies[20]
    assert (refused.content, refused.headers["content-length"]) == (b"", "0")
    assert refused.headers["x-apple-lokamai-no-cache"] == "true"
    assert "retry-after" not in refused.headers
    assert [asked.limit for asked in t.apple.log.entries][20:] == ["reached", "ignored", None]
    assert after.status_code == 200


def test_a_storm_refuses_everything_for_a_while(
    t: Twins, http: httpx2.Client, clock: Standing
) -> None:
    t.apple.storm(1800)

    during = [get(t, http, path, id="1").status_code for path in ("/search", "/lookup")]
    clock.forward(1800)

    assert during == [403, 403]
    assert get(t, http, "/search").status_code == 200


def chart(t: Twins, http: httpx2.Client, path: str) -> dict[str, Any]:
    feed: dict[str, Any] = get(t, http, f"/us/rss/{path}/json").json()["feed"]
    return feed


def test_a_chart_shows_texts_and_no_ratings(t: Twins, http: httpx2.Client) -> None:
    feed = chart(t, http, "topfreeapplications/limit=10/genre=6013")

    first = feed["entry"][0]
    assert len(feed["entry"]) == 10
    assert feed["title"]["label"] == "iTunes Store: Top Free Applications in Health & Fitness"
    assert first["im:price"] == {
        "label": "Get",
        "attributes": {"amount": "0.00", "currency": "USD"},
    }
    assert first["id"]["attributes"]["im:id"].isdecimal()
    assert "userRatingCount" not in str(first)


def test_a_chart_of_one_is_an_object_and_an_empty_one_has_no_entry(
    t: Twins, http: httpx2.Client
) -> None:
    assert isinstance(chart(t, http, "topfreeapplications/limit=1")["entry"], dict)
    assert "entry" not in chart(t, http, "topfreeapplications/limit=10/genre=9999")


def test_charts_are_of_their_kind_and_end_at_200_or_earlier(t: Twins, http: httpx2.Client) -> None:
    paid = chart(t, http, "toppaidapplications/limit=20")["entry"]
    new = chart(t, http, "newapplications/limit=20")["entry"]
    long = chart(t, http, "topfreeapplications/limit=500")["entry"]
    t.apple.set_chart_cap(100)
    short = chart(t, http, "topfreeapplications/limit=500")["entry"]

    assert all(each["im:price"]["label"].startswith("$") for each in paid)
    dates = [each["im:releaseDate"]["label"] for each in new]
    assert dates == sorted(dates, reverse=True)
    assert (len(long), len(short)) == (200, 100)
    assert get(t, http, "/us/rss/topfax/limit=5/json").status_code == 400


def test_places_move_from_day_to_day(t: Twins, http: httpx2.Client, clock: Standing) -> None:
    def places() -> list[str]:
        entries = chart(t, http, "topfreeapplications/limit=50")["entry"]
        return [each["id"]["attributes"]["im:id"] for each in entries]

    first, again = places(), places()
    clock.forward(86_400)
    later = places()

    assert first == again
    assert first != later
    assert len(set(first) & set(later)) > 25


def test_the_catalogue_is_the_same_with_the_same_seed_and_has_structure() -> None:
    one, two, other = Catalogue(7, NOON), Catalogue(7, NOON), Catalogue(8, NOON)

    assert [app.name for app in one.apps] == [app.name for app in two.apps]
    assert [app.name for app in one.apps] != [app.name for app in other.apps]
    assert len(one.apps) == 5000
    sizes = sorted(map(len, one.by_artist.values()))
    assert sizes[len(sizes) // 2] == 1
    assert sizes[-1] > 20
    counts = sorted(app.ratings for app in one.apps)
    assert counts[-1] > 1000 * max(1, counts[2500])
    assert len(one.search("sleep timer", "us", NOON)) > 20


def test_a_million_apps_are_there_without_being_made() -> None:
    few, many = Catalogue(7, NOON, 600), Catalogue(7, NOON, 1_100_000)

    assert len(many.apps) == 1_100_000
    assert many.apps[-1].id == FIRST + 1_099_999
    # The same number is the same app, however many others there are.
    assert many.apps[17] == few.apps[17]
    last = many.apps[-1]
    assert many.by_id[last.id] == many.by_bundle[last.bundle] == last
    assert last in many.by_artist[last.artist]
    assert FIRST + 1_100_000 not in many.by_id


def test_new_apps_appear_from_day_to_day(t: Twins, http: httpx2.Client, clock: Standing) -> None:
    t.apple.set_growth(50)
    newest = FIRST + 600 + 49
    before = get(t, http, "/lookup", id=str(newest)).json()["resultCount"]
    clock.forward(86_400)
    [app] = get(t, http, "/lookup", id=str(newest)).json()["results"]
    found = get(t, http, "/search", term=app["trackName"], limit=200).json()["results"]

    assert before == 0
    assert len(t.apple.list_apps()) == 650
    assert newest in {each["trackId"] for each in found}
    first = chart(t, http, "newapplications/limit=1")["entry"]
    assert first["id"]["attributes"]["im:id"] == str(newest)


def test_a_search_has_every_word_and_knows_no_accents() -> None:
    shop = Catalogue(7, NOON, 3000)
    for term in ("sleep timer", "daily planner", "cafe", "天気"):
        found = shop.search(term, "us", NOON)
        assert found, term
        for app in found:
            has = {*words(app.name), *app.words}
            assert set(words(term)) <= has
    every = [app.id for app in shop.apps if {"sleep", "noise"} <= {*words(app.name), *app.words}]
    assert sorted(app.id for app in shop.search("sleep noise", "us", NOON)) == sorted(every)


def test_every_genre_that_has_a_chart_has_apps() -> None:
    shop = Catalogue(7, NOON)
    assert all(shop.chart("topgrossingapplications", genre, "us", NOON) for genre in GENRES)


def test_the_newer_charts_are_another_json_and_end_at_a_hundred(
    t: Twins, http: httpx2.Client
) -> None:
    reply = get(t, http, "/api/v2/us/apps/top-free/10/apps.json")
    feed = reply.json()["feed"]

    assert reply.headers["content-type"] == "application/json"
    assert (feed["title"], feed["country"], len(feed["results"])) == ("Top Free Apps", "us", 10)
    older = chart(t, http, "topfreeapplications/limit=10")["entry"]
    assert [each["id"] for each in feed["results"]] == [
        each["id"]["attributes"]["im:id"] for each in older
    ]
    refused = [
        get(t, http, f"/api/v2/us/apps/{path}/apps.json").status_code
        for path in ("top-free/200", "top-grossing/10")
    ]
    assert refused == [500, 404]
