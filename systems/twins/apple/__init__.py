"""Apple's App Store: search, lookup, the older charts, pages and reviews, over a catalogue from a seed.

JSON comes as text/javascript. Too many calls get 403 with an empty body and no word about when to
come back; a storm does that to every call. Unknown ids are left out without a word, a chart of one
app has an object where others have a list, and an empty one has nothing there at all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, get_args

from starlette.responses import Response

from systems.twins.apple import pages
from systems.twins.apple.catalogue import (
    COUNT,
    GENRES,
    App,
    Catalogue,
    artist_url,
    describe,
    label,
    words,
)
from systems.twins.kit.app import Answer, Call, Door, Twin
from systems.twins.kit.clock import as_datetime
from systems.twins.kit.limits import Window

MOST = 200
NEWER = "/api/v2/{country}/apps/{feed}/{limit}/apps.json"
# The newer charts know no genre, and end at a hundred.
FEEDS = {"top-free": ("topfreeapplications", "Top Free Apps")}
FEEDS["top-paid"] = ("toppaidapplications", "Top Paid Apps")
MOST_NEWER = 100
REVIEWS = "/{country}/rss/customerreviews/page={page}/id={id}/sortby={order}/json"
ENTITIES = {"software", "iPadSoftware", "macSoftware", "desktopSoftware"}
COLLECTIONS = {
    "topfreeapplications": "Top Free Applications",
    "toppaidapplications": "Top Paid Applications",
    "topgrossingapplications": "Top Grossing Applications",
    "newapplications": "New Applications",
    "newfreeapplications": "New Free Applications",
    "newpaidapplications": "New Paid Applications",
    "topfreeipadapplications": "Top Free iPad Applications",
    "toppaidipadapplications": "Top Paid iPad Applications",
    "topgrossingipadapplications": "Top Grossing iPad Applications",
}


class Apple(Twin):
    name = "apple"
    about: ClassVar = "App Store: search, lookup, charts, pages, reviews; 5,000 invented apps"

    def make_doors(self) -> list[Door]:
        chart = "/{country}/rss/{collection}/limit={limit}"
        return [
            Door("search", "GET", "/search", self._search),
            Door("lookup", "GET", "/lookup", self._lookup),
            Door("chart", "GET", chart + "/genre={genre}/json", self._chart),
            Door("chart", "GET", chart + "/json", self._chart),
            Door("newer", "GET", NEWER, self._newer),
            Door("page", "GET", "/{country}/app/{slug}", self._short_page),
            Door("page", "GET", "/{country}/app/{slug}/{name}", self._page),
            Door("reviews", "GET", REVIEWS, self._reviews),
        ]

    def start_over(self) -> None:
        self._catalogue: Catalogue | None = None
        self._born = self.now()
        self.count = COUNT
        self.growth = 0
        self.storm_until = 0
        # Some say that charts end at 100 today.
        self.chart_cap = MOST
        self.page_form: pages.Form = "object"
        self.hidden: set[str] = set()
        self.delisted: set[int] = set()
        self.set_limits()

    @property
    def catalogue(self) -> Catalogue:
        if self._catalogue is None:
            self._catalogue = Catalogue(self.seed, self._born, self.count, self.growth)
        return self._catalogue.at(self.now())

    def samples(self) -> dict[str, str]:
        return {"search": f"{self.url}/search?term=sleep&entity=software"}

    def switches(self) -> Mapping[str, Callable[..., object]]:
        return {
            "set_limits": self.set_limits,
            "storm": self.storm,
            "set_chart_cap": self.set_chart_cap,
            "list_apps": self.list_apps,
            "set_pages": self.set_pages,
            "delist": self.delist,
            "set_growth": self.set_growth,
        }

    # Switches.

    def set_limits(self, per_minute: int = 20) -> None:
        """About 20 calls a minute are documented."""
        self._minute = Window(per_minute, 60_000)

    def storm(self, seconds: float) -> None:
        """Refuse every call for a while."""
        self.storm_until = self.now() + int(seconds * 1000)

    def set_chart_cap(self, most: int) -> None:
        self.chart_cap = most

    def list_apps(self) -> list[int]:
        """Every app that there is: what a client has stored can be compared with it."""
        return list(self.catalogue.by_id)

    def set_growth(self, per_day: int) -> None:
        """So many new apps appear each day from the start on."""
        self.growth = per_day
        self.catalogue.growth = per_day

    def set_pages(self, form: pages.Form = "object", hidden: Sequence[str] = ()) -> None:
        """How pages are written, and the shelves that they lack."""
        if form not in get_args(pages.Form):
            raise ValueError(f"pages have one of the forms {get_args(pages.Form)}: not {form!r}")
        self.page_form, self.hidden = form, set(hidden)

    def delist(self, id: int) -> None:
        """It is sold no more: lookups leave it out, and its page is not found."""
        self.delisted.add(id)

    # The API.

    def refusal(self, status: int) -> Response:
        """Empty, and without a word about when to come back."""
        headers = {
            "content-length": "0",
            "x-responding-instance": "MZStoreServices:twin:::",
            "x-apple-lokamai-no-cache": "true",
            "cache-control": "max-age=0, no-cache, no-store",
            "pragma": "no-cache",
            "access-control-allow-origin": "*",
        }
        return Response(status_code=status, headers=headers)

    def _admit(self, call: Call) -> None:
        if call.now < self.storm_until or self._minute.full(call.now):
            call.limited(self._minute)
            raise Answer(self.refusal(403))
        self._minute.use(call.now)

    def _search(self, call: Call) -> Response:
        self._admit(call)
        country, query = self._country(call), call.query
        if query.get("entity", "software") not in ENTITIES:
            raise Answer(_invalid("entity"))
        limit = self._limit(call)
        developer = query.get("attribute") == "softwareDeveloper"
        term = query.get("term", "")
        call.note(term=term)
        shop = self.catalogue
        found = shop.search(term, country, call.now, developer=developer, most=limit)
        return self._results(call, [self._json(app, country, call) for app in found])

    def _lookup(self, call: Call) -> Response:
        self._admit(call)
        country, query, shop = self._country(call), call.query, self.catalogue
        results: list[dict[str, Any]] = []
        if bundle := query.get("bundleId"):
            apps = [shop.by_bundle[name] for name in bundle.split(",") if name in shop.by_bundle]
        else:
            ids = {int(id_) for id_ in query.get("id", "").split(",")[:MOST] if id_.isdecimal()}
            # In an order of its own, whatever the request's was.
            apps = sorted((shop.by_id[id_] for id_ in ids if id_ in shop.by_id), key=_shuffled)
            for artist in sorted(id_ for id_ in ids if id_ in shop.by_artist):
                own = shop.by_artist[artist]
                results.append(_artist(own[0], country))
                if "entity" in query:
                    apps += own[: self._limit(call)]
        apps = [app for app in apps if shop.sold_in(app, country) and app.id not in self.delisted]
        call.note(found=len(apps), developers=len(results))
        return self._results(call, results + [self._json(app, country, call) for app in apps])

    def _named(self, call: Call, id_: str) -> App:
        app = self.catalogue.by_id.get(int(id_)) if id_.isdecimal() else None
        sold = app is not None and self.catalogue.sold_in(app, call.part("country").lower())
        if app is None or not sold or app.id in self.delisted:
            raise Answer(Response("<h1>Not found</h1>", 404, media_type="text/html"))
        call.note(app=app.id)
        return app

    def _short_page(self, call: Call) -> Response:
        """It is found under its name alone."""
        self._admit(call)
        app = self._named(call, call.part("slug").removeprefix("id"))
        here = f"/{call.part('country')}/app/{pages.slug_of(app)}/id{app.id}"
        return Response(status_code=301, headers={"location": f"{self.url}{here}"})

    def _page(self, call: Call) -> Response:
        self._admit(call)
        app = self._named(call, call.part("name").removeprefix("id"))
        where = call.part("country").lower(), call.now
        text = pages.page(self.catalogue, app, *where, self.page_form, self.hidden)
        return Response(text, media_type="text/html")

    def _reviews(self, call: Call) -> Response:
        self._admit(call)
        number, app = call.part("page"), self._named(call, call.part("id"))
        if not number.isdecimal() or not 1 <= int(number) <= pages.MOST_PAGES:
            return self.refusal(400)
        where = call.part("country").lower(), call.now
        return _javascript(json.dumps(pages.feed(self.catalogue, app, *where, int(number))))

    def _json(self, app: App, country: str, call: Call) -> dict[str, Any]:
        return self.catalogue.as_json(app, country, call.now)

    def _country(self, call: Call) -> str:
        country = call.query.get("country", "us").lower()
        if len(country) != 2 or not country.isalpha():
            raise Answer(_invalid("country"))
        return country

    def _limit(self, call: Call) -> int:
        text = call.query.get("limit", "50")
        if not text.isdecimal():
            raise Answer(_invalid("limit"))
        return min(MOST, int(text) or 50)

    def _results(self, call: Call, results: list[dict[str, Any]]) -> Response:
        text = "\n\n\n" + json.dumps({"resultCount": len(results), "results": results}) + "\n\n\n"
        if callback := call.query.get("callback"):
            text = f"{callback}({text.strip()});"
        return _javascript(text)

    def _chart(self, call: Call) -> Response:
        self._admit(call)
        collection, country = call.part("collection"), call.part("country").lower()
        genre = call.request.path_params.get("genre")
        limit = call.part("limit")
        if collection not in COLLECTIONS or not limit.isdecimal():
            return self.refusal(400)
        number = int(genre) if genre is not None and str(genre).isdecimal() else None
        apps = self.catalogue.chart(collection, number, country, call.now)
        apps = apps[: min(int(limit), self.chart_cap)]
        entries = [_entry(app, country) for app in apps]
        title = f"iTunes Store: {COLLECTIONS[collection]}"
        if number in GENRES:
            title += f" in {GENRES[number]}"
        here = f"https://itunes.apple.com{call.request.url.path}"
        feed: dict[str, Any] = {
            "author": {
                "name": {"label": "iTunes Store"},
                "uri": {"label": "http://www.apple.com/itunes/"},
            },
            "entry": entries,
            "updated": {"label": as_datetime(call.now).isoformat(timespec="seconds")},
            "rights": {"label": "Copyright 2008 Apple Inc."},
            "title": {"label": title},
            "icon": {"label": "http://itunes.apple.com/favicon.ico"},
            "link": [{"attributes": {"rel": "self", "href": here}}],
            "id": {"label": here},
        }
        if len(entries) == 1:
            feed["entry"] = entries[0]
        elif not entries:
            del feed["entry"]
        return _javascript(json.dumps({"feed": feed}))

    def _newer(self, call: Call) -> Response:
        self._admit(call)
        feed, country, limit = call.part("feed"), call.part("country").lower(), call.part("limit")
        if feed not in FEEDS:
            return self.refusal(404)
        if not limit.isdecimal() or int(limit) > MOST_NEWER:
            return self.refusal(500)
        collection, title = FEEDS[feed]
        here = f"https://rss.applemarketingtools.com{call.request.url.path}"
        apps = self.catalogue.chart(collection, None, country, call.now)[: int(limit)]
        found = {
            "title": title,
            "id": here,
            "author": {"name": "Apple", "url": "https://www.apple.com/"},
            "links": [{"self": here}],
            "copyright": "Copyright © Apple Inc. All rights reserved.",
            "country": country,
            "icon": "https://www.apple.com/favicon.ico",
            "updated": f"{as_datetime(call.now):%a, %d %b %Y %H:%M:%S +0000}",
            "results": [_newer_entry(app, country) for app in apps],
        }
        return Response(json.dumps({"feed": found}), media_type="application/json")


def _newer_entry(app: App, country: str) -> dict[str, Any]:
    link = f"https://apps.apple.com/{country}/app/{'-'.join(words(app.name))}/id{app.id}"
    return {
        "artistName": app.artist_name,
        "id": str(app.id),
        "name": app.name,
        "releaseDate": f"{as_datetime(app.released):%Y-%m-%d}",
        "kind": "apps",
        "artworkUrl100": f"https://is1-ssl.mzstatic.test/image/{app.id}/100.png",
        "genres": [],
        "url": link,
    }


def _shuffled(app: App) -> tuple[int, int]:
    return app.id * 7919 % 1009, app.id


def _artist(app: App, country: str) -> dict[str, Any]:
    return {
        "wrapperType": "artist",
        "artistType": "Software Artist",
        "artistName": app.artist_name,
        "artistLinkUrl": artist_url(app.artist, app.artist_name, country),
        "artistId": app.artist,
    }


def _entry(app: App, country: str) -> dict[str, Any]:
    """An app as a chart shows it: all numbers are texts, and there are no ratings."""
    link = f"https://apps.apple.com/{country}/app/{'-'.join(words(app.name))}/id{app.id}?uo=2"
    art = f"https://is1-ssl.mzstatic.test/image/{app.id}"
    sizes = ("53", "75", "100")
    price = app.price or 0.0
    released = as_datetime(app.released)
    genre = GENRES[app.genre]
    images = [{"label": f"{art}/{n}.png", "attributes": {"height": n}} for n in sizes]
    return {
        "im:name": {"label": app.name},
        "im:image": images,
        "summary": {"label": describe(app)},
        "im:price": {
            "label": label(price, "Get"),
            "attributes": {"amount": f"{price:.2f}", "currency": "USD"},
        },
        "im:contentType": {"attributes": {"term": "Application", "label": "Application"}},
        "rights": {"label": f"© {app.artist_name}"},
        "title": {"label": f"{app.name} - {app.artist_name}"},
        "link": {"attributes": {"rel": "alternate", "type": "text/html", "href": link}},
        "id": {"label": link, "attributes": {"im:id": str(app.id), "im:bundleId": app.bundle}},
        "im:artist": {
            "label": app.artist_name,
            "attributes": {"href": artist_url(app.artist, app.artist_name, country)},
        },
        "category": {
            "attributes": {
                "im:id": str(app.genre),
                "term": genre,
                "scheme": f"https://apps.apple.com/{country}/genre/id{app.genre}?uo=2",
                "label": genre,
            }
        },
        "im:releaseDate": {
            "label": released.isoformat(timespec="seconds"),
            "attributes": {"label": f"{released:%B} {released.day}, {released.year}"},
        },
    }


def _javascript(text: str) -> Response:
    return Response(text, media_type="text/javascript")


def _invalid(key: str) -> Response:
    body = {"errorMessage": f"Invalid value(s) for key(s): [{key}]", "queryParameters": {}}
    return Response(json.dumps(body), 400, media_type="text/javascript")
