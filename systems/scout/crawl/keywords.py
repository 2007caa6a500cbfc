"""Search terms from the names of apps, by the article's rules, for every script.

Words of three letters and more that say something; pairs of neighbours; whole titles of a few words. A single
word has five letters at least, or two where words are written without spaces.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from itertools import pairwise

STOP = frozenset(
    {
        *("the", "and", "for", "with", "your", "you", "app", "free", "pro", "lite", "plus"),
        *("premium", "new", "top", "best", "get", "now", "ios", "iphone", "ipad", "by", "my", "de"),
    }
)
SHORTEST_SINGLE = 5
SHORTEST_WORD = 3
MOST_WORDS = 5
CROSSED = 3
PAIR = 2
# Longer ones find nothing.
LONGEST = 100
# Runs of letters, with the marks that vowels are in some scripts.
LETTERS = r"(?:[^\W\d_]|[\u0300-\u036f\u0900-\u0903\u093a-\u094d\u0e31-\u0e4e])+"


def words(text: str) -> list[str]:
    """The words that count, in lower case and without accents."""
    return [each for each in _split(text) if _counts(each) and each not in STOP]


def spelled(text: str) -> str:
    """What somebody wrote as a search term: nothing is left out but signs and accents."""
    return " ".join(_split(text))[:LONGEST]


def _split(text: str) -> list[str]:
    plain = unicodedata.normalize("NFKC", text.casefold())
    return re.findall(LETTERS, "".join(map(_plain, plain)))


def _plain(letter: str) -> str:
    """Latin letters lose their accents; in other scripts a sign may make another letter."""
    base = unicodedata.normalize("NFD", letter)[0]
    return base if base.isascii() else letter


def of_app(title: str, subtitle: str = "") -> list[str]:
    """Everything that one app suggests: whole names, pairs, pairs across, single words."""
    first, second = words(title), words(subtitle)
    found: list[str] = []
    if 1 <= len(first) <= MOST_WORDS:
        found.append(" ".join(first))
    if PAIR <= len(second) <= MOST_WORDS:
        found.append(" ".join(second))
    found += _pairs(first) + _pairs(second)
    found += [f"{a} {b}" for a in first[:CROSSED] for b in second[:CROSSED] if a != b]
    found += _singles([*first, *second])
    return _once(found)


def of_titles(titles: Iterable[str]) -> list[str]:
    """What a chart suggests: from titles alone, each once."""
    found: list[str] = []
    for title in titles:
        mine = words(title)
        found += _singles(mine) + _pairs(mine)
        if PAIR <= len(mine) < MOST_WORDS:
            found.append(" ".join(mine))
    return _once(found)


def _once(found: list[str]) -> list[str]:
    return list(dict.fromkeys(each for each in found if len(each) <= LONGEST))


def _pairs(found: list[str]) -> list[str]:
    return [f"{a} {b}" for a, b in pairwise(found)]


def _singles(found: list[str]) -> list[str]:
    return [each for each in found if len(each) >= SHORTEST_SINGLE or _dense(each)]


def _counts(word: str) -> bool:
    return len(word) >= SHORTEST_WORD or (_dense(word) and len(word) > 1)


def _dense(word: str) -> bool:
    """Of a script in which a few signs are a word: Chinese, Japanese, Korean."""
    return any(
        unicodedata.name(each, "").startswith(("CJK", "HIRAGANA", "KATAKANA", "HANGUL"))
        for each in word
    )
