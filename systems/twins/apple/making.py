"""How an app is made of its number and a seed: nothing has to be stored, and nothing made before it.

The same number is the same app in a catalogue of any size. Of each hundred apps one developer has thirty, one
has twelve, some have a few, and forty have one; names are the more varied, the more apps there are.
"""

from __future__ import annotations

import hashlib
import math
import random
import re
import unicodedata
from dataclasses import dataclass
from functools import cache, lru_cache
from statistics import NormalDist
from typing import NamedTuple

from systems.twins.apple.vocabulary import FIRST, GENRES, MAKERS, MORE, SYLLABLES, THEMES, WITHIN

FIRST_APP, FIRST_ARTIST = 700_000_001, 710_000_001
DAY = 86_400_000
# How many apps the developers of a hundred have.
SIZES = (30, 12, 5, 5, 2, 2, 2, 2, *(1,) * 40)
HUNDRED = 100
# Different choices of words in a theme, and of what a title adds to it; seven of ten add nothing.
CHOICES, ADDED, PLAIN = 64, 6, 14
WORD = re.compile(r"[^\W_]+")
_NORMAL = NormalDist(4.5, 2.4)
_PLACES = tuple(place for place, (_, _, weight, _) in enumerate(THEMES) for _ in range(weight))
_MASK = (1 << 64) - 1


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


class Traits(NamedTuple):
    """What search and charts have to know of every app."""

    theme: int
    choice: int
    added: int
    brand: int
    ratings: int
    paid: bool
    second: int


def mixed(seed: int, number: int) -> int:
    """64 bits that look like chance (splitmix64)."""
    z = (number * 0x9E3779B97F4A7C15 + seed * 0xD1B54A32D192ED03 + 0x2545F4914F6CDD1D) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def traits(seed: int, number: int) -> Traits:
    one, two = mixed(seed, 2 * number), mixed(seed, 2 * number + 1)
    theme = _PLACES[one % len(_PLACES)]
    added = (one >> 16) % (ADDED + PLAIN)
    rated = (two >> 16) % 100 >= 12
    return Traits(
        theme=theme,
        choice=(one >> 24) % CHOICES,
        added=added if added < ADDED else -1,
        brand=(one >> 32) % (len(FIRST) + math.isqrt(number)),
        ratings=_fame(two & 0xFFFF) if rated else 0,
        paid=(two >> 32) % 100 >= 86,
        second=_second(THEMES[theme][0], two >> 40),
    )


def _second(genre: int, luck: int) -> int:
    others = _others(genre)
    return others[luck % len(others)]


@cache
def _others(genre: int) -> tuple[int, ...]:
    """The genres that an app of this one may have beside it."""
    return WITHIN.get(genre) or tuple(each for each in GENRES if each != genre and each < 7000)


@cache
def _fame(luck: int) -> int:
    """How many ratings, of 65,536 grades of luck."""
    return int(math.exp(_NORMAL.inv_cdf((luck + 0.5) / 65536)))


@cache
def chosen(seed: int, theme: int, choice: int) -> tuple[str, ...]:
    """The words that an app of this theme is about; the first two are in its title."""
    draw = random.Random(f"words/{seed}/{theme}/{choice}")
    return tuple(dict.fromkeys(draw.choices(THEMES[theme][1].split(), k=5)))


@cache
def added(seed: int, theme: int, number: int) -> tuple[str, ...]:
    """What some titles add after a colon."""
    if number < 0:
        return ()
    draw = random.Random(f"added/{seed}/{theme}/{number}")
    return tuple(draw.sample(THEMES[theme][1].split(), 2))


@cache
def brand(number: int) -> str:
    """The first word of a title: well known ones, some of other scripts, then made up ones."""
    known = (*FIRST, *MORE)
    if number < len(known):
        return known[number]
    left, parts = number - len(known), []
    while left >= 0:
        left, place = divmod(left, len(SYLLABLES))
        parts.append(SYLLABLES[place])
        left -= 1
    return "".join(("za", *parts)).title()


@cache
def brand_words(number: int) -> tuple[str, ...]:
    return tuple(words(brand(number)))


def developer(number: int) -> int:
    """Which developer made the app of this number."""
    block, place = divmod(number, HUNDRED)
    for each, size in enumerate(SIZES):
        if place < size:
            return block * len(SIZES) + each
        place -= size
    raise AssertionError("a hundred apps have developers")


def apps_of(maker: int) -> range:
    """The numbers of a developer's apps, whether they are there already or not."""
    block, each = divmod(maker, len(SIZES))
    first = block * HUNDRED + sum(SIZES[:each])
    return range(first, first + SIZES[each])


@lru_cache(maxsize=20_000)
def developer_name(seed: int, maker: int) -> str:
    draw = random.Random(f"maker/{seed}/{maker}")
    return f"{draw.choice(FIRST)} {draw.choice(FIRST)} {draw.choice(MAKERS)} {maker + 1}"


@lru_cache(maxsize=20_000)
def make(seed: int, number: int, born: int, appeared: int | None = None) -> App:
    """The app of a number; one that appeared later was released then."""
    draw, found = random.Random(f"app/{seed}/{number}"), traits(seed, number)
    genre, _, _, mood = THEMES[found.theme]
    about = chosen(seed, found.theme, found.choice)
    more = added(seed, found.theme, found.added)
    title = f"{brand(found.brand)} {' '.join(word.title() for word in about[:2])}"
    if more:
        title += f": {' & '.join(word.title() for word in more)}"
    released = born - draw.randint(30, 3600) * DAY if appeared is None else appeared
    maker = developer(number)
    price = draw.choice((0.99, 1.99, 2.99, 4.99, 9.99, 49.99)) if found.paid else 0.0
    return App(
        id=FIRST_APP + number,
        name=title,
        bundle=f"demo.{''.join(about)[:20]}.app{number}",
        artist=FIRST_ARTIST + maker,
        artist_name=developer_name(seed, maker),
        genre=genre,
        second=found.second,
        words=about,
        price=None if draw.random() < 0.004 else price,
        ratings=found.ratings,
        stars=round(min(5.0, max(1.0, draw.gauss(mood, 0.35))), 5),
        daily=found.ratings / 900 + draw.random(),
        released=released,
        updated=released + draw.randint(0, max(0, born - released) // DAY) * DAY,
        version=f"{draw.randint(1, 9)}.{draw.randint(0, 20)}.{draw.randint(0, 9)}",
        notes=None if draw.random() < 0.06 else "Fixes and improvements",
        size=draw.randint(8_000_000, 400_000_000),
    )


def noise(seed: int, id_: int, text: str) -> float:
    """A number from 0 to 1 that depends on these alone."""
    digest = hashlib.blake2s(f"{seed}/{id_}/{text}".encode(), digest_size=4).digest()
    return int.from_bytes(digest) / 2**32


def words(text: str) -> list[str]:
    """In lower case and without the accents of Latin letters, as search compares them."""
    return WORD.findall("".join(map(_plain, unicodedata.normalize("NFKC", text.casefold()))))


@lru_cache(maxsize=4096)
def _plain(letter: str) -> str:
    base = unicodedata.normalize("NFD", letter)[0]
    return base if base.isascii() else letter
