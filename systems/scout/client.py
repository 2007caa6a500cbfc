"""Apple's public endpoints: charts, search and lookup, as plain values.

A 403 without a word means that we come too often: the shared pace stops for a moment, and no failure is
counted. JSON comes as text/javascript; a chart of one app has an object where others have a list.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from duework import Fail, Throttled, http
from systems.scout.economy import ledger
from systems.scout.part import settings

MOST_DESCRIPTION = 2000
RESULTS = 25
MOST = 200
# Apple does not say when to come back.
REST = "10s"
TOO_OFTEN = {403, 429, 503}
NO_SUCH = {400, 404}


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """An app as search and lookup describe it; a chart knows less."""

    track_id: int
    track_name: str = "Unknown"
    seller_name: str = "Unknown"
    bundle_id: str | None = None
    average_rating: float | None = None
    rating_count: int | None = None
    primary_genre: str | None = None
    price: float | None = None
    formatted_price: str | None = None
    artwork_url: str | None = None
    track_view_url: str | None = None
    description: str | None = None
    release_date: str | None = None
    updated_date: str | None = None
    version: str | None = None
    content_rating: str | None = None
    languages: str | None = None
    developer_id: int | None = None
    developer_website: str | None = None
    screenshots: int | None = None


@functools.lru_cache(maxsize=8)
def client(base: str) -> http.Client:
    """One for each address and process."""
    return http.Client(base, timeout="20s", headers={"user-agent": "scout"})


async def chart(collection: str, category: int) -> list[Found]:
    """The apps of a chart, first place first."""
    asked = settings()
    where = f"/{asked.country}/rss/{collection}/limit={asked.chart}/genre={category}/json"
    feed = (await get(where)).get("feed") or {}
    entries = feed.get("entry") or []
    if isinstance(entries, dict):
        entries = [entries]
    return [charted(each) for each in entries]


async def search(term: str) -> list[Found]:
    """The first apps that Apple shows for a term, best first."""
    wanted = {"term": term, "media": "software", "entity": "software", "limit": RESULTS}
    return await _results("/search", wanted)


async def lookup(ids: Iterable[int]) -> dict[int, Found]:
    """What is known of these apps; those that are gone are left out by Apple without a word."""
    wanted = {"id": ",".join(map(str, ids)), "entity": "software"}
    return {each.track_id: each for each in await _results("/lookup", wanted)}


async def portfolio(developers: Iterable[int]) -> list[Found]:
    """The apps of these developers, up to 200 of each."""
    wanted = {"id": ",".join(map(str, developers)), "entity": "software", "limit": MOST}
    return await _results("/lookup", wanted)


async def _results(path: str, wanted: dict[str, Any]) -> list[Found]:
    found = await get(path, {**wanted, "country": settings().country})
    return [
        described(each) for each in found.get("results", ()) if each.get("wrapperType") != "artist"
    ]


async def get(path: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    """What Apple answers: an object."""
    await ledger.called("apple")
    try:
        reply = await client(settings().apple_url).get(path, params=params or {})
    except http.TooMany as refused:
        raise Throttled(REST) from refused
    if reply.status in TOO_OFTEN:
        raise Throttled(REST)
    if reply.status in NO_SUCH:
        raise Fail(f"Apple answers {reply.status} to {path}: nothing to be had there")
    found = json.loads(reply.check().content)
    if not isinstance(found, dict):
        raise TypeError(f"Apple answers {path} with something that is no object")
    return found


def described(given: dict[str, Any]) -> Found:
    """An app of search or lookup; many fields may be missing."""
    price = given.get("price")
    return Found(
        track_id=given["trackId"],
        track_name=given.get("trackName") or "Unknown",
        seller_name=given.get("artistName") or given.get("sellerName") or "Unknown",
        bundle_id=given.get("bundleId"),
        average_rating=given.get("averageUserRating"),
        rating_count=given.get("userRatingCount"),
        primary_genre=given.get("primaryGenreName"),
        price=price,
        formatted_price=written(price),
        artwork_url=given.get("artworkUrl100"),
        track_view_url=given.get("trackViewUrl"),
        description=cut(given.get("description")),
        release_date=given.get("releaseDate"),
        updated_date=given.get("currentVersionReleaseDate"),
        version=given.get("version"),
        content_rating=given.get("contentAdvisoryRating"),
        languages=json.dumps(given["languageCodesISO2A"])
        if "languageCodesISO2A" in given
        else None,
        developer_id=given.get("artistId"),
        developer_website=given.get("sellerUrl"),
        screenshots=len(given["screenshotUrls"]) if "screenshotUrls" in given else None,
    )


def charted(entry: dict[str, Any]) -> Found:
    """An app of a chart: all numbers are texts, and there are no ratings."""
    price = float(_label(entry, "im:price", "amount") or 0)
    return Found(
        track_id=int(entry["id"]["attributes"]["im:id"]),
        track_name=_label(entry, "im:name") or "Unknown",
        seller_name=_label(entry, "im:artist") or "Unknown",
        bundle_id=_label(entry, "id", "im:bundleId"),
        primary_genre=_label(entry, "category", "label"),
        price=price,
        formatted_price=written(price),
        description=cut(_label(entry, "summary")),
        release_date=_label(entry, "im:releaseDate"),
        developer_id=_id_in(_label(entry, "im:artist", "href")),
    )


def _id_in(link: str | None) -> int | None:
    """A chart names a developer's id in a link alone."""
    found = re.search(r"/id(\d+)", link or "")
    return int(found[1]) if found else None


def _label(entry: dict[str, Any], name: str, attribute: str | None = None) -> str | None:
    given = entry.get(name) or {}
    found = given.get("attributes", {}).get(attribute) if attribute else given.get("label")
    return None if found is None else str(found)


def written(price: float | None) -> str | None:
    if price is None:
        return None
    return f"${price:.2f}" if price else "Free"


def cut(text: str | None) -> str | None:
    """Kept short when it is stored, so that no query has to."""
    return None if text is None else text[:MOST_DESCRIPTION]
