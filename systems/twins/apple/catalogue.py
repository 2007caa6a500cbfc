"""Apps that do not exist, as many as are asked for, with the structure that real ones have.

Apps belong to themes, which share words in titles and descriptions; a theme is crowded or empty, well
served or badly. A few developers have many apps, most have one. Counts of ratings are spread over
several orders of magnitude and grow with time, new apps appear from day to day, and not every app is sold in
every country. An app is made when it is looked at; what is kept of all of them are a few bytes each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, overload

from systems.twins.apple.index import Index
from systems.twins.apple.making import (
    DAY,
    FIRST_APP,
    FIRST_ARTIST,
    App,
    apps_of,
    developer,
    make,
    noise,
    words,
)
from systems.twins.apple.vocabulary import COUNTRIES, CURRENCIES, GENRES
from systems.twins.kit.clock import as_iso

__all__ = [
    "COUNT",
    "DAY",
    "FIRST_APP",
    "GENRES",
    "App",
    "Catalogue",
    "artist_url",
    "describe",
    "label",
    "noise",
    "words",
]

COUNT = 5000
# A chart is drawn from the best known apps of its genre.
DRAWN = 1000
# One of so many apps lacks fields that others have.
LACKING, LACKED = 41, ("languageCodesISO2A", "contentAdvisoryRating", "artworkUrl100")
_BUNDLE = re.compile(r"demo\.[a-z]+\.app(\d+)")


class Catalogue:
    """`count` apps at first; with `growth`, so many more appear each day."""

    def __init__(self, seed: int, now: int, count: int = COUNT, growth: int = 0) -> None:
        self.seed, self.born = seed, now
        self.growth = growth
        self._count = count
        self.size = count
        self._index = Index(seed)
        self.apps = Apps(self)
        self.by_id = ById(self)
        self.by_bundle = ByBundle(self)
        self.by_artist = ByArtist(self)

    def at(self, now: int) -> Catalogue:
        """The same, with what has appeared until now; nothing ever leaves it."""
        self.size = max(self.size, self._count + self.growth * max(0, now - self.born) // DAY)
        return self

    def app(self, number: int) -> App:
        """The app of a number, made when it is asked for."""
        if number < self._count:
            return make(self.seed, number, self.born)
        appeared = self.born + (number + 1 - self._count) * DAY // max(1, self.growth)
        return make(self.seed, number, self.born, appeared)

    def sold_in(self, app: App, country: str) -> bool:
        return country == "us" or noise(self.seed, app.id, country) > 0.1

    def ratings(self, app: App, country: str, now: int) -> int:
        """How many ratings the storefront shows; they grow from day to day."""
        days = max(0, now - max(self.born, app.released)) // DAY
        return int((app.ratings + app.daily * days) * COUNTRIES.get(country, 0.02))

    def search(
        self, term: str, country: str, now: int, *, developer: bool = False, most: int = 200
    ) -> list[App]:
        """Apps that have every word, best first: the title counts most, then what people rate."""
        self.at(now)
        asked = words(term)
        if not asked:
            return []
        if developer:
            found = [self.app(number) for number in self._made_by(asked)]
        else:
            numbers = self._index.grown(self.size).search(asked, 2 * most)
            found = [self.app(number) for number in numbers]
        return [app for app in found if self.sold_in(app, country)][:most]

    def _made_by(self, asked: list[str]) -> list[int]:
        """The apps of a developer; names end with a number, which is looked for first."""
        makers = [int(word) - 1 for word in asked if word.isdecimal()]
        found = [number for maker in makers if maker >= 0 for number in apps_of(maker)]
        there = [number for number in found if number < self.size]
        return [n for n in there if set(asked) <= set(words(self.app(n).artist_name))]

    def chart(self, collection: str, genre: int | None, country: str, now: int) -> list[App]:
        """The apps of a chart, first place first; places move from day to day."""
        day = self.at(now).born // DAY + (now - self.born) // DAY
        paid = True if "paid" in collection else False if "free" in collection else None
        new = collection.startswith("new")
        numbers = self._index.grown(self.size).chart(genre, None if new else DRAWN, paid=paid)
        apps = [
            app
            for app in map(self.app, numbers)
            if app.price is not None and self.sold_in(app, country)
        ]
        if new:
            return sorted(apps, key=lambda app: (-app.released, app.id))

        def place(app: App) -> tuple[float, int]:
            luck = 0.7 + 0.6 * noise(self.seed, app.id, f"{collection}/{day}")
            worth = 1 + app.price if "grossing" in collection and app.price else 1.0
            return -app.daily * luck * worth, app.id

        return sorted(apps, key=place)

    def as_json(self, app: App, country: str, now: int) -> dict[str, Any]:
        count = self.ratings(app, country, now)
        stars: float = app.stars if count else 0
        slug = "-".join(words(app.name))
        art = f"https://is1-ssl.mzstatic.test/image/{app.id}"
        found: dict[str, Any] = {
            "screenshotUrls": [f"{art}/{n}.png" for n in range(1, 4)],
            "ipadScreenshotUrls": [],
            "appletvScreenshotUrls": [],
            "artworkUrl60": f"{art}/60x60bb.jpg",
            "artworkUrl100": f"{art}/100x100bb.jpg",
            "artworkUrl512": f"{art}/512x512bb.jpg",
            "artistViewUrl": artist_url(app.artist, app.artist_name, country),
            "features": ["iosUniversal"],
            "supportedDevices": ["iPhone15", "iPhone16"],
            "advisories": [],
            "isGameCenterEnabled": False,
            "kind": "software",
            "wrapperType": "software",
            "trackId": app.id,
            "trackName": app.name,
            "trackCensoredName": app.name,
            "trackViewUrl": f"https://apps.apple.com/{country}/app/{slug}/id{app.id}?uo=4",
            "bundleId": app.bundle,
            "primaryGenreName": GENRES[app.genre],
            "primaryGenreId": app.genre,
            "genres": [GENRES[app.genre], GENRES[app.second]],
            "genreIds": [str(app.genre), str(app.second)],
            "description": describe(app),
            "contentAdvisoryRating": "4+",
            "trackContentRating": "4+",
            "languageCodesISO2A": ["EN", "DE"] if app.id % 3 else ["EN"],
            "fileSizeBytes": str(app.size),
            "minimumOsVersion": "16.0",
            "releaseDate": as_iso(app.released),
            "currentVersionReleaseDate": as_iso(app.updated),
            "version": app.version,
            "currency": CURRENCIES.get(country, "USD"),
            "artistId": app.artist,
            "artistName": app.artist_name,
            "sellerName": f"{app.artist_name} LLC",
            "averageUserRating": stars,
            "averageUserRatingForCurrentVersion": stars,
            "userRatingCount": count,
            "userRatingCountForCurrentVersion": count,
            "isVppDeviceBasedLicensingEnabled": True,
        }
        if app.price is not None:
            found |= {"price": app.price, "formattedPrice": label(app.price, "Free")}
        if app.notes is not None:
            found["releaseNotes"] = app.notes
        if app.id % LACKING == 0:
            for name in LACKED:
                del found[name]
        return found


class Apps(Sequence[App]):
    """All apps there are, by number."""

    def __init__(self, shop: Catalogue) -> None:
        self._shop = shop

    def __len__(self) -> int:
        return self._shop.size

    @overload
    def __getitem__(self, place: int) -> App: ...
    @overload
    def __getitem__(self, place: slice) -> list[App]: ...
    def __getitem__(self, place: int | slice) -> App | list[App]:
        numbers = range(self._shop.size)[place]
        if isinstance(numbers, int):
            return self._shop.app(numbers)
        return [self._shop.app(number) for number in numbers]


class ById:
    """An app by its id."""

    def __init__(self, shop: Catalogue) -> None:
        self._shop = shop

    def get(self, id_: int) -> App | None:
        number = id_ - FIRST_APP
        return self._shop.app(number) if 0 <= number < self._shop.size else None

    def __contains__(self, id_: int) -> bool:
        return 0 <= id_ - FIRST_APP < self._shop.size

    def __getitem__(self, id_: int) -> App:
        found = self.get(id_)
        if found is None:
            raise KeyError(id_)
        return found

    def __iter__(self) -> Iterator[int]:
        return iter(range(FIRST_APP, FIRST_APP + self._shop.size))


class ByBundle:
    """An app by its bundle, which ends with its number."""

    def __init__(self, shop: Catalogue) -> None:
        self._shop = shop

    def __contains__(self, bundle: str) -> bool:
        found = _BUNDLE.fullmatch(bundle)
        number = int(found[1]) if found else -1
        return 0 <= number < self._shop.size and self._shop.app(number).bundle == bundle

    def __getitem__(self, bundle: str) -> App:
        if bundle not in self:
            raise KeyError(bundle)
        return self._shop.app(int(bundle.rpartition("app")[2]))


class ByArtist:
    """The apps of a developer."""

    def __init__(self, shop: Catalogue) -> None:
        self._shop = shop

    def __contains__(self, artist: int) -> bool:
        return artist >= FIRST_ARTIST and apps_of(artist - FIRST_ARTIST)[0] < self._shop.size

    def __getitem__(self, artist: int) -> list[App]:
        if artist not in self:
            raise KeyError(artist)
        numbers = apps_of(artist - FIRST_ARTIST)
        return [self._shop.app(number) for number in numbers if number < self._shop.size]

    def __iter__(self) -> Iterator[int]:
        last = developer(self._shop.size - 1) if self._shop.size else -1
        return iter(range(FIRST_ARTIST, FIRST_ARTIST + last + 1))

    def values(self) -> list[list[App]]:
        return [self[artist] for artist in self]


def label(price: float, free: str) -> str:
    return f"${price:.2f}" if price else free


def describe(app: App) -> str:
    use = ", ".join(app.words)
    return f"{app.name} helps you with {use}.\n\nMade by {app.artist_name}. No account is needed."


def artist_url(artist: int, name: str, country: str) -> str:
    return f"https://apps.apple.com/{country}/developer/{'-'.join(words(name))}/id{artist}?uo=4"
