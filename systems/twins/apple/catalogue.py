"""5,000 apps that do not exist, made from a seed, with the structure that real ones have.

Apps belong to themes, which share words in titles and descriptions; a theme is crowded or empty, well
served or badly. A few developers have many apps, most have one. Counts of ratings are spread over
several orders of magnitude and grow with time, and not every app is sold in every country.
"""

from __future__ import annotations

import hashlib
import math
import random
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from systems.twins.kit.clock import as_iso

COUNT = 5000
FIRST_APP, FIRST_ARTIST = 700_000_001, 710_000_001
DAY = 86_400_000
COUNTRIES = {"us": 1.0, "gb": 0.22, "de": 0.18, "au": 0.09, "ca": 0.12, "cn": 0.5, "jp": 0.3}
CURRENCIES = {
    "us": "USD",
    "gb": "GBP",
    "de": "EUR",
    "au": "AUD",
    "ca": "CAD",
    "cn": "CNY",
    "jp": "JPY",
}

GENRES = {
    6018: "Books",
    6000: "Business",
    6017: "Education",
    6016: "Entertainment",
    6015: "Finance",
    6023: "Food & Drink",
    6014: "Games",
    6013: "Health & Fitness",
    6012: "Lifestyle",
    6021: "Magazines & Newspapers",
    6020: "Medical",
    6011: "Music",
    6010: "Navigation",
    6009: "News",
    6008: "Photo & Video",
    6007: "Productivity",
    6006: "Reference",
    6024: "Shopping",
    6005: "Social Networking",
    6004: "Sports",
    6003: "Travel",
    6002: "Utilities",
    6001: "Weather",
    6026: "Developer Tools",
    6027: "Graphics & Design",
}

# A theme: its genre, its words, how many of a thousand apps it has, and how happy its users are.
THEMES: tuple[tuple[int, str, int, float], ...] = (
    (6013, "sleep timer sounds noise rest night", 40, 3.4),
    (6013, "workout fitness gym training planner strength", 80, 4.5),
    (6013, "meditation calm breathing mindful focus", 45, 4.6),
    (6013, "fasting water diet calorie tracker", 50, 4.3),
    (6013, "running pace marathon route gps", 35, 4.4),
    (6007, "todo list tasks reminder planner", 85, 4.5),
    (6007, "notes journal diary writing markdown", 55, 4.4),
    (6007, "habit streak tracker routine daily", 45, 4.2),
    (6007, "pomodoro focus timer study deep", 30, 4.1),
    (6002, "scanner pdf document sign fax", 60, 3.6),
    (6002, "vpn proxy private secure browser", 45, 3.9),
    (6002, "calculator converter unit currency", 40, 4.3),
    (6002, "qr barcode reader code", 25, 3.2),
    (6008, "photo editor filter collage retouch", 70, 4.2),
    (6008, "video editor cut reel subtitles", 45, 4.0),
    (6015, "budget expense money tracker bills", 50, 4.2),
    (6015, "stock portfolio dividend crypto watch", 35, 3.8),
    (6017, "language vocabulary flashcards spanish words", 50, 4.6),
    (6017, "math homework solver algebra", 25, 4.1),
    (6017, "piano music theory ear training", 20, 4.3),
    (6023, "recipe meal planner grocery cooking", 45, 4.4),
    (6020, "medication pill reminder dose", 20, 4.5),
    (6020, "blood pressure glucose log heart", 25, 3.5),
    (6010, "parking car finder map offline", 20, 3.3),
    (6003, "travel packing trip itinerary list", 30, 4.0),
    (6001, "weather radar rain storm forecast", 30, 4.1),
    (6012, "plant care watering garden", 20, 3.1),
    (6012, "baby feeding diaper sleep log", 25, 4.6),
    (6014, "puzzle blocks merge match", 95, 4.4),
    (6014, "word crossword guess letters", 45, 4.5),
    (6011, "metronome tuner guitar chords", 25, 4.4),
    (6004, "golf tennis score padel club", 20, 3.7),
    (6026, "ssh terminal git code editor", 15, 4.3),
    (6027, "font sticker logo maker design", 25, 3.5),
    (6005, "chat groups friends events", 30, 3.6),
)
FIRST: tuple[str, ...] = (
    "Dozy",
    "Bright",
    "Tiny",
    "Swift",
    "Calm",
    "Pocket",
    "Daily",
    "Smart",
    "Blue",
    "Lumen",
)
FIRST += ("Nova", "Pine", "Echo", "Zen", "Hello", "Simple", "Quiet", "Fox", "Iris", "Orbit")
MAKERS = ("Labs", "Studio", "Apps", "Works", "Software", "GmbH", "Interactive", "Collective")
WORD = re.compile(r"[^\W_]+")


@dataclass(slots=True)
class App:
    id: int
    name: str
    bundle: str
    artist: int
    artist_name: str
    genre: int
    second: int
    words: tuple[str, ...]
    price: float | None  # None: not released yet
    ratings: int
    stars: float
    daily: float
    released: int
    updated: int
    version: str
    notes: str | None
    size: int


class Catalogue:
    def __init__(self, seed: int, now: int, count: int = COUNT) -> None:
        self.born = now
        draw = random.Random(f"apple/{seed}")
        self.seed = seed
        makers = _makers(draw, count)
        self.apps = [_app(draw, n, makers, now) for n in range(count)]
        self.by_id = {app.id: app for app in self.apps}
        self.by_bundle = {app.bundle: app for app in self.apps}
        self.by_artist: dict[int, list[App]] = {}
        self._index: dict[str, set[int]] = {}
        for app in self.apps:
            self.by_artist.setdefault(app.artist, []).append(app)
            for word in {*words(app.name), *app.words, *words(app.artist_name)}:
                self._index.setdefault(word, set()).add(app.id)

    def sold_in(self, app: App, country: str) -> bool:
        return country == "us" or noise(self.seed, app.id, country) > 0.1

    def ratings(self, app: App, country: str, now: int) -> int:
        """How many ratings the storefront shows; they grow from day to day."""
        days = max(0, now - self.born) // DAY
        return int((app.ratings + app.daily * days) * COUNTRIES.get(country, 0.02))

    def search(self, term: str, country: str, now: int, *, developer: bool = False) -> list[App]:
        """Apps that have every word, best first: the title counts most, then what people rate."""
        asked = words(term)
        if not asked:
            return []
        found = set.intersection(*(self._index.get(word, set()) for word in asked))
        apps = [app for id_ in found if self.sold_in(app := self.by_id[id_], country)]
        if developer:
            apps = [app for app in apps if set(asked) <= set(words(app.artist_name))]

        def rank(app: App) -> tuple[float, int]:
            title = sum(word in words(app.name) for word in asked)
            return -(3 * title + math.log10(10 + self.ratings(app, country, now))), app.id

        return sorted(apps, key=rank)

    def chart(self, collection: str, genre: int | None, country: str, now: int) -> list[App]:
        """The apps of a chart, first place first; places move from day to day."""
        day = now // DAY
        apps = [
            app
            for app in self.apps
            if app.price is not None
            and (genre is None or genre in {app.genre, app.second})
            and ("free" not in collection or not app.price)
            and ("paid" not in collection or app.price)
            and self.sold_in(app, country)
        ]
        if collection.startswith("new"):
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
        return found


def words(text: str) -> list[str]:
    return WORD.findall(text.lower())


def label(price: float, free: str) -> str:
    return f"${price:.2f}" if price else free


def describe(app: App) -> str:
    use = ", ".join(app.words)
    return f"{app.name} helps you with {use}.\n\nMade by {app.artist_name}. No account is needed."


def artist_url(artist: int, name: str, country: str) -> str:
    return f"https://apps.apple.com/{country}/developer/{'-'.join(words(name))}/id{artist}?uo=4"


def noise(seed: int, id_: int, text: str) -> float:
    """A number from 0 to 1 that depends on these alone."""
    digest = hashlib.blake2s(f"{seed}/{id_}/{text}".encode(), digest_size=4).digest()
    return int.from_bytes(digest) / 2**32


def _makers(draw: random.Random, count: int) -> list[tuple[int, str]]:
    """For each app its developer: a few have many apps, most have one."""
    names: list[str] = []
    found: list[tuple[int, str]] = []
    for _ in range(count):
        # Whoever has apps makes more of them.
        if names and draw.random() < 0.6:
            found.append(draw.choice(found))
            continue
        name = f"{draw.choice(FIRST)} {draw.choice(FIRST)} {draw.choice(MAKERS)} {len(names) + 1}"
        found.append((FIRST_ARTIST + len(names), name))
        names.append(name)
    return found


def _app(draw: random.Random, n: int, makers: list[tuple[int, str]], now: int) -> App:
    genre, text, _, mood = draw.choices(THEMES, [theme[2] for theme in THEMES])[0]
    theme = text.split()
    chosen = tuple(dict.fromkeys(draw.choices(theme, k=5)))
    title = f"{draw.choice(FIRST)} {' '.join(word.title() for word in chosen[:2])}"
    if draw.random() < 0.3:
        title += f": {' & '.join(word.title() for word in draw.sample(theme, 2))}"
    ratings = int(draw.lognormvariate(4.5, 2.4))
    released = now - draw.randint(30, 3600) * DAY
    price = 0.0 if draw.random() < 0.86 else draw.choice((0.99, 1.99, 2.99, 4.99, 9.99, 49.99))
    second = draw.choice([each for each in GENRES if each != genre])
    artist, artist_name = makers[n]
    return App(
        id=FIRST_APP + n,
        name=title,
        bundle=f"demo.{_tail(chosen)}.app{n}",
        artist=artist,
        artist_name=artist_name,
        genre=genre,
        second=second,
        words=chosen,
        price=None if draw.random() < 0.004 else price,
        ratings=0 if draw.random() < 0.12 else ratings,
        stars=round(min(5.0, max(1.0, draw.gauss(mood, 0.35))), 5),
        daily=ratings / 900 + draw.random(),
        released=released,
        updated=released + draw.randint(0, (now - released) // DAY) * DAY,
        version=f"{draw.randint(1, 9)}.{draw.randint(0, 20)}.{draw.randint(0, 9)}",
        notes=None if draw.random() < 0.06 else "Fixes and improvements",
        size=draw.randint(8_000_000, 400_000_000),
    )


def _tail(chosen: Iterable[str]) -> str:
    return "".join(chosen)[:20]
