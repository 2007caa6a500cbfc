"""What a page of an app says, in the forms that pages have had; what it does not say is None and named.

Today the data are JSON in `serialized-server-data`, an object or a list at its top; older pages are plain
HTML. Any part may be missing: nothing here raises for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import msgspec

from systems.scout.client import cut

# What is looked for; a page that lacks one is counted under this name.
FIELDS = ("subtitle", "rating_histogram", "in_app_purchases", "similar_apps", "versions", "reviews")
STARS = 5
_DATA = re.compile(r'<script[^>]*\bid="serialized-server-data"[^>]*>(.*?)</script>', re.DOTALL)
_LINKED = re.compile(r'<script[^>]*\btype="application/ld\+json"[^>]*>(.*?)</script>', re.DOTALL)
_APP = re.compile(r"/id(\d+)")
_NUMBER = re.compile(r"\d[\d.,  ']*")
_DECIMALS = 2


class Purchase(msgspec.Struct, frozen=True):
    """What an app sells; the price as a number, and as it is shown."""

    name: str
    price: float | None
    label: str


class Version(msgspec.Struct, frozen=True):
    """A version, when it came, and what was new."""

    version: str
    released_at: str | None = None
    notes: str | None = None


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """What a person wrote."""

    id: str
    rating: int
    title: str = ""
    content: str = ""
    author: str | None = None
    version: str | None = None
    written_at: str | None = None


class Similar(msgspec.Struct, frozen=True):
    """Another app that is shown beside it."""

    track_id: int
    track_name: str = "Unknown"
    seller_name: str = "Unknown"


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """None is what the page does not say; an empty list is what it says there is none of."""

    subtitle: str | None = None
    # One star first.
    rating_histogram: list[int] | None = None
    in_app_purchases: list[Purchase] | None = None
    similar_apps: list[Similar] | None = None
    versions: list[Version] | None = None
    reviews: list[Review] | None = None

    def missing(self) -> list[str]:
        """What was looked for and is not there."""
        return [name for name in FIELDS if getattr(self, name) is None]


def read(html: str) -> Page:
    """Whatever the page is, what can be read of it."""
    if found := _DATA.search(html):
        return _today(_json(found[1]))
    return _older(html)


def price(label: str) -> float | None:
    """A price as a number: "$4.99", "4,99 €", "1.299,00 €"; "Free" is nothing, and None is no price."""
    found = _NUMBER.search(label)
    if found is None:
        return 0.0 if label.strip().lower() in {"free", "get", "gratis", "kostenlos"} else None
    digits = re.sub(r"[^\d.,]", "", found[0]).strip(".,")
    whole, sep, rest = digits, "", ""
    for mark in sorted(".,", key=digits.rfind, reverse=True)[:1]:
        if mark in digits:
            whole, sep, rest = digits.rpartition(mark)
    if sep and len(rest) > _DECIMALS:
        whole, rest = whole + rest, ""
    return float(f"{re.sub('[.,]', '', whole) or '0'}.{rest or '0'}")


# --- today's form


def _today(whole: Any) -> Page:
    entries = whole.get("data") if isinstance(whole, dict) else whole
    data = _at(entries, 0, "data")
    shelves = _at(data, "shelfMapping")
    return Page(
        subtitle=_text(_at(data, "lockup", "subtitle")),
        rating_histogram=_stars(_at(shelves, "productRatings", "items", 0, "ratingCounts")),
        in_app_purchases=_purchases(_at(shelves, "information", "items")),
        similar_apps=_similar(_at(shelves, "similarItems", "items")),
        versions=_versions(_at(shelves, "mostRecentVersion", "items", 0)),
        reviews=_reviews(_at(shelves, "allProductReviews", "items")),
    )


def _stars(given: Any) -> list[int] | None:
    """Apple begins with five stars."""
    if not isinstance(given, list) or len(given) != STARS:
        return None
    return given[::-1] if all(isinstance(n, int) for n in given) else None


def _purchases(items: Any) -> list[Purchase] | None:
    if not isinstance(items, list):
        return None
    titled = [each for each in items if _at(each, "title") == "In-App Purchases"]
    pairs = [pair for each in titled for pair in _pairs(each)]
    return [Purchase(name, price(label), label) for name, label in pairs]


def _pairs(item: Any) -> Iterator[tuple[str, str]]:
    """Two spellings of the same."""
    for each in _list(_at(item, "items_V3")):
        if isinstance(name := _at(each, "leadingText"), str):
            yield name, str(_at(each, "trailingText") or "")
    for each in _list(_at(item, "items")):
        for pair in _list(_at(each, "textPairs")):
            if isinstance(name := _at(pair, 0), str):
                yield name, str(_at(pair, 1) or "")


def _similar(items: Any) -> list[Similar] | None:
    if not isinstance(items, list):
        return None
    return [
        Similar(int(id_), _at(each, "title") or "Unknown", _at(each, "developerName") or "Unknown")
        for each in items
        if (id_ := str(_at(each, "adamId") or "")).isdecimal()
    ]


def _versions(item: Any) -> list[Version] | None:
    if not isinstance(item, dict):
        return None
    older = _list(_at(item, "seeAllAction", "pageData", "shelves"))
    listed = [item, *(each for shelf in older for each in _list(_at(shelf, "items")))]
    found = [_version(each) for each in listed]
    return [each for each in found if each is not None] or None


def _version(item: Any) -> Version | None:
    name = str(_at(item, "primarySubtitle") or "").removeprefix("Version").strip()
    if not name:
        return None
    return Version(name, _text(_at(item, "secondarySubtitle")), cut(_text(_at(item, "text"))))


def _reviews(items: Any) -> list[Review] | None:
    if not isinstance(items, list):
        return None
    found = [_at(each, "review") for each in items]
    return [
        Review(
            id=str(each["id"]),
            rating=each["rating"],
            title=cut(str(each.get("title") or "")) or "",
            content=cut(str(each.get("contents") or "")) or "",
            author=_text(each.get("reviewerName")),
            written_at=_text(each.get("date")),
        )
        for each in found
        if isinstance(each, dict) and each.get("id") and isinstance(each.get("rating"), int)
    ]


# --- the older form


class _Outline(HTMLParser):
    """Definitions, versions and links of an older page."""

    def __init__(self) -> None:
        super().__init__()
        self.terms: dict[str, list[str]] = {}
        self.versions: list[list[str]] = []
        self.similar: list[list[str]] = []
        self.subtitle: str | None = None
        self.has_similar = False
        self._open: list[str] = []
        self._term = ""
        self._said = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in {"br", "img", "meta", "link", "input", "hr"}:
            return
        self._open.append(tag)
        self._said = ""
        if "dialog" in self._open and tag == "li":
            self.versions.append(["", "", ""])
        elif tag == "time" and self.versions:
            self.versions[-1][1] = given.get("datetime") or ""
        elif tag == "a" and self.has_similar and (found := _APP.search(given.get("href") or "")):
            self.similar.append([found[1], ""])

    def handle_data(self, data: str) -> None:
        self._said += data

    def handle_endtag(self, tag: str) -> None:
        if tag not in self._open:
            return
        said = self._said.strip()
        if "dialog" in self._open and self.versions:
            self._version(tag, said)
        elif tag == "dt":
            self._term = said
            self.terms[said] = []
        elif tag in {"span", "dd"} and self._term and said:
            self.terms[self._term].append(said)
        elif tag == "h2":
            self._heading(said)
        elif tag == "a" and self.similar and "section" in self._open:
            self.similar[-1][1] = said
        while self._open.pop() != tag:
            pass
        self._said = ""

    def _version(self, tag: str, said: str) -> None:
        place = {"h4": 0, "p": 2}.get(tag)
        if place is not None:
            self.versions[-1][place] = said

    def _heading(self, said: str) -> None:
        if said == "You Might Also Like":
            self.has_similar = True
        elif self.subtitle is None and "section" not in self._open:
            self.subtitle = said


def _older(html: str) -> Page:
    outline = _Outline()
    outline.feed(_LINKED.sub("", html))
    sold = outline.terms.get("In-App Purchases", [])
    pairs = list(zip(sold[::2], sold[1::2], strict=False))
    similar = [Similar(int(id_), name or "Unknown") for id_, name in outline.similar]
    versions = [
        Version(name, at or None, cut(notes)) for name, at, notes in outline.versions if name
    ]
    return Page(
        subtitle=outline.subtitle,
        in_app_purchases=[Purchase(name, price(label), label) for name, label in pairs]
        if outline.terms
        else None,
        similar_apps=similar if outline.has_similar else None,
        versions=versions or None,
    )


# --- values of any shape


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _at(given: Any, *path: str | int) -> Any:
    """What is there, however deep; None if anything on the way is not."""
    for step in path:
        if isinstance(given, dict) and isinstance(step, str):
            given = given.get(step)
        elif isinstance(given, list) and isinstance(step, int) and step < len(given):
            given = given[step]
        else:
            return None
    return given


def _list(given: Any) -> list[Any]:
    return given if isinstance(given, list) else []


def _text(given: Any) -> str | None:
    return given if isinstance(given, str) and given else None
