"""How a person feels about an app, from -1 to 1, by rules that anybody can repeat.

    sentiment = half of (stars - 3) / 2 + half of (good words - bad words) / (good words + bad words)

Without a word of either list the stars alone count. A "not" before a word turns it around.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

WORD = re.compile(r"[\w']+")
GOOD = frozenset(
    WORD.findall(
        "amazing awesome beautiful best easy excellent fantastic fast good great happy helpful intuitive like"
        " love nice perfect recommend reliable simple smooth useful wonderful works"
    )
)
BAD = frozenset(
    WORD.findall(
        "ads annoying awful bad broken bug bugs buggy confusing crash crashes disappointing expensive freezes"
        " hate horrible lost poor refund scam slow terrible useless waste worst"
    )
)
NOT = frozenset(WORD.findall("not never no don't doesn't didn't isn't can't won't without"))


def sentiment(stars: int, text: str) -> float:
    """From what somebody gave and wrote."""
    given = (stars - 3) / 2
    good, bad = _counted(WORD.findall(text.lower().replace("\u2019", "'")))
    if not good + bad:
        return round(given, 2)
    return round(given / 2 + (good - bad) / (good + bad) / 2, 2)


def _counted(words: list[str]) -> tuple[int, int]:
    good = bad = 0
    for before, word in zip(["", *words], words, strict=False):
        turned = before in NOT
        good += (word in GOOD) != turned and word in GOOD | BAD
        bad += (word in BAD) != turned and word in GOOD | BAD
    return good, bad


def mentions(keywords: Iterable[str], texts: list[str]) -> dict[str, int]:
    """In how many texts each keyword occurs as whole words; those that occur in none are left out."""
    spaced = [f" {' '.join(WORD.findall(text.lower()))} " for text in texts]
    found = {word: sum(f" {word} " in text for text in spaced) for word in keywords}
    return {word: count for word, count in found.items() if count}
