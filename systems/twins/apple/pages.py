"""Pages of apps and feeds of reviews, in the forms that they have had.

Since late 2025 a page carries its data as JSON, `serialized-server-data`; at first that was a list at its
top; older ones are plain HTML with `ld+json`. Five stars come first, prices and ids are texts, and any shelf
may be missing.
"""

from __future__ import annotations

import json
from html import escape
from typing import Any, Literal

from systems.twins.apple.catalogue import (
    DAY,
    GENRES,
    App,
    Catalogue,
    artist_url,
    label,
    noise,
    words,
)
from systems.twins.kit.clock import as_datetime, as_iso

Form = Literal["object", "list", "html"]
PER_PAGE, ON_PAGE, MOST_PAGES = 50, 10, 10
SHARES = {1: 0.06, 2: 0.04, 3: 0.1, 4: 0.2, 5: 0.6}
PLANS = ("Plus", "Premium", "Lifetime", "Tip", "Family")
PRICES = (0.99, 2.99, 4.99, 9.99, 39.99)
SAYS = {
    1: ("Broken", "It crashes all the time. Terrible, a waste of money. The {word} is useless."),
    2: ("Disappointing", "Too many ads and the {word} is slow and confusing."),
    3: ("Okay", "It does what it says. The {word} could be better."),
    4: ("Good", "I like the {word}, easy to use. Nice."),
    5: ("Love it", "Amazing {word}, great and helpful. I love it and recommend it."),
}


def slug_of(app: App) -> str:
    return "-".join(words(app.name))


def histogram(count: int) -> list[int]:
    """How many ratings of each kind, one star first; together all of them."""
    found = {stars: int(count * share) for stars, share in SHARES.items()}
    found[5] += count - sum(found.values())
    return [found[stars] for stars in sorted(found)]


def purchases(shop: Catalogue, app: App) -> list[tuple[str, float]]:
    """Two of three apps sell something."""
    if app.id % 3 == 0:
        return []
    count = 1 + int(4 * noise(shop.seed, app.id, "plans"))
    return [(f"{app.name.split()[0]} {PLANS[n]}", PRICES[n]) for n in range(count)]


def similar(shop: Catalogue, app: App, most: int = 6) -> list[App]:
    """Apps beside it in the catalogue that share a word with it."""
    place = app.id - shop.apps[0].id
    beside = shop.apps[max(0, place - 60) : place + 60]
    mine = set(app.words)
    return [each for each in beside if each.id != app.id and mine & set(each.words)][:most]


def versions(app: App, most: int = 4) -> list[tuple[str, str, str]]:
    """The present version first: its name, its date, what is new."""
    major, minor, patch = map(int, app.version.split("."))
    found = []
    for back in range(min(most, patch + 1)):
        at = as_datetime(app.updated - back * 30 * DAY)
        found.append((f"{major}.{minor}.{patch - back}", f"{at:%Y-%m-%d}", app.notes or ""))
    return found


def reviews(shop: Catalogue, app: App, now: int) -> list[dict[str, Any]]:
    """What people write, newest first: no more than have rated it, and one more each day."""
    days = max(0, now - shop.born) // DAY
    count = min(
        shop.ratings(app, "us", now), 12 + int(60 * noise(shop.seed, app.id, "texts")) + days
    )
    return [_review(shop, app, number, now) for number in range(count, 0, -1)]


def _review(shop: Catalogue, app: App, number: int, now: int) -> dict[str, Any]:
    luck = noise(shop.seed, app.id, f"review/{number}")
    stars = max(1, min(5, round(app.stars + 2.4 * (luck - 0.5))))
    title, text = SAYS[stars]
    # Those of before the catalogue was made are a day apart.
    at = shop.born - (80 - number) * DAY
    return {
        "id": str(app.id * 1000 + number),
        "title": title,
        "contents": text.format(word=app.words[number % len(app.words)]),
        "rating": stars,
        "reviewerName": f"person{number}",
        "date": as_iso(min(at, now)),
        "version": app.version,
    }


# --- a page


def page(shop: Catalogue, app: App, country: str, now: int, form: Form, hidden: set[str]) -> str:
    """The page of an app, without the shelves that are hidden."""
    if form == "html":
        return _older(shop, app, country, now, hidden)
    whole: Any = [{"intent": {"$kind": "ProductPageIntent"}, "data": _data(shop, app, now, hidden)}]
    if form == "object":
        whole = {"data": whole}
    text = json.dumps(whole).replace("</", "<\\/")
    script = f'<script type="application/json" id="serialized-server-data">{text}</script>'
    return _html(_linked(shop, app, now), f"<main></main>{script}")


def _html(head: str, body: str) -> str:
    return f"<!DOCTYPE html><html><head>{head}</head><body>{body}</body></html>"


def _data(shop: Catalogue, app: App, now: int, hidden: set[str]) -> dict[str, Any]:
    count = shop.ratings(app, "us", now)
    latest, *older = versions(app)
    shelves: dict[str, Any] = {
        "productRatings": {
            "items": [
                {
                    "ratingAverage": app.stars,
                    "totalNumberOfRatings": count,
                    "ratingCounts": histogram(count)[::-1],
                }
            ]
        },
        "information": {"items": _information(shop, app)},
        "similarItems": {"items": [_lockup(each) for each in similar(shop, app)]},
        "moreByDeveloper": {
            "items": [_lockup(each) for each in shop.by_artist[app.artist][:10] if each != app]
        },
        "allProductReviews": {
            "items": [{"review": each} for each in reviews(shop, app, now)[:ON_PAGE]]
        },
        "mostRecentVersion": {
            "items": [
                {
                    **_version(latest),
                    "seeAllAction": {
                        "pageData": {"shelves": [{"items": [_version(each) for each in older]}]}
                    },
                }
            ]
        },
    }
    if not count:
        del shelves["productRatings"]
    lockup = {**_lockup(app), "developerName": app.artist_name, "icon": {"template": "x"}}
    shown = {name: shelf for name, shelf in shelves.items() if name not in hidden}
    return {"lockup": lockup, "developerAction": {"title": app.artist_name}, "shelfMapping": shown}


def _version(given: tuple[str, str, str]) -> dict[str, str]:
    name, at, notes = given
    return {"text": notes, "primarySubtitle": f"Version {name}", "secondarySubtitle": at}


def _lockup(app: App) -> dict[str, Any]:
    return {
        "$kind": "Lockup",
        "adamId": str(app.id),
        "bundleId": app.bundle,
        "title": app.name,
        "subtitle": " and ".join(app.words[:2]),
        "developerName": app.artist_name,
        "offerDisplayProperties": {"isFree": not app.price},
        "rating": app.stars,
    }


def _information(shop: Catalogue, app: App) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"title": "Seller", "items": [{"text": app.artist_name}]},
        {"title": "Size", "items": [{"text": f"{app.size // 1_000_000} MB"}]},
        {"title": "Category", "items": [{"text": GENRES[app.genre]}]},
        {"title": "Languages", "items": [{"text": ", ".join(_languages(app))}]},
        {"title": "Age Rating", "items": [{"text": "4+"}]},
    ]
    if sold := [(name, label(price, "Free")) for name, price in purchases(shop, app)]:
        # Two spellings of the same are seen.
        if app.id % 2:
            pairs = [
                {"$kind": "textPair", "leadingText": name, "trailingText": price}
                for name, price in sold
            ]
            found.append({"title": "In-App Purchases", "items": [], "items_V3": pairs})
        else:
            items = [{"text": "Yes", "textPairs": [list(pair) for pair in sold]}]
            found.append({"title": "In-App Purchases", "items": items})
    return found


def _languages(app: App) -> list[str]:
    return ["English", "German"] if app.id % 3 else ["English"]


def _linked(shop: Catalogue, app: App, now: int) -> str:
    about = {
        "@type": "SoftwareApplication",
        "name": app.name,
        "description": f"{app.name} for {', '.join(app.words)}.",
        "applicationCategory": GENRES[app.genre],
        "offers": {"price": app.price or 0, "priceCurrency": "USD"},
        "aggregateRating": {
            "ratingValue": app.stars,
            "reviewCount": shop.ratings(app, "us", now),
        },
        "author": {"name": app.artist_name, "url": artist_url(app.artist, app.artist_name, "us")},
    }
    text = json.dumps(about).replace("</", "<\\/")
    return f'<script id="software-application" type="application/ld+json">{text}</script>'


def _older(shop: Catalogue, app: App, country: str, now: int, hidden: set[str]) -> str:
    """Plain HTML: no histogram, and no reviews."""
    pairs = [("Seller", escape(app.artist_name)), ("Languages", ", ".join(_languages(app)))]
    pairs.append(("Age Rating", "4+"))
    if sold := purchases(shop, app):
        lines = "".join(
            f"<li><span>{escape(name)}</span><span>{label(price, 'Free')}</span></li>"
            for name, price in sold
        )
        pairs.append(("In-App Purchases", f"<ul>{lines}</ul>"))
    rows = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in pairs)
    information = "" if "information" in hidden else f"<dl>{rows}</dl>"
    history = "".join(
        f'<li><h4>{name}</h4><time datetime="{at}">{at}</time><p>{escape(notes)}</p></li>'
        for name, at, notes in versions(app)
    )
    links = "".join(
        f'<a href="https://apps.apple.com/{country}/app/{slug_of(each)}/id{each.id}">{escape(each.name)}</a>'
        for each in similar(shop, app)
    )
    more = (
        ""
        if "similarItems" in hidden
        else f"<section><h2>You Might Also Like</h2>{links}</section>"
    )
    head = f"<h1>{escape(app.name)}</h1><h2>{' and '.join(app.words[:2])}</h2>"
    body = f"<main>{head}{information}<dialog><ul>{history}</ul></dialog>{more}</main>"
    return _html(_linked(shop, app, now), body)


# --- a feed of reviews


def feed(shop: Catalogue, app: App, country: str, now: int, number: int) -> dict[str, Any]:
    """Fifty reviews of a page; the app itself is the first entry of the first one."""
    first = (number - 1) * PER_PAGE
    entries = [_entry(each) for each in reviews(shop, app, now)[first : first + PER_PAGE]]
    if number == 1 and entries:
        entries.insert(0, {"im:name": {"label": app.name}, "id": {"label": str(app.id)}})
    found: dict[str, Any] = {
        "author": {"name": {"label": "iTunes Store"}},
        "entry": entries,
        "title": {"label": "iTunes Store: Customer Reviews"},
        "id": {"label": f"https://itunes.apple.com/{country}/rss/customerreviews/id={app.id}/json"},
    }
    if len(entries) == 1:
        found["entry"] = entries[0]
    elif not entries:
        del found["entry"]
    return {"feed": found}


def _entry(given: dict[str, Any]) -> dict[str, Any]:
    return {
        "author": {"uri": {"label": "x"}, "name": {"label": given["reviewerName"]}},
        "updated": {"label": given["date"]},
        "im:rating": {"label": str(given["rating"])},
        "im:version": {"label": given["version"]},
        "id": {"label": given["id"]},
        "title": {"label": given["title"]},
        "content": {"label": given["contents"], "attributes": {"type": "text"}},
        "im:voteSum": {"label": "0"},
        "im:voteCount": {"label": "0"},
        "im:contentType": {"attributes": {"term": "Application", "label": "Application"}},
    }
