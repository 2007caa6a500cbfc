"""What people complain about: words and pairs that many reviews with one or two stars share.

Each complaint has how many reviews say it, of how many, and some of them to read. Words that the apps are
called after say nothing and are left out; so do words that happy people use as often.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from systems.scout.crawl import keywords
from systems.scout.desk import groups
from systems.scout.part import part

POOR = 2
SENTENCE = re.compile(r"[.,;:!?()\n]+")
# So many apps are looked at, and so many reviews of each.
APPS, REVIEWS = 10, 200
SHOWN, QUOTES = 6, 3
LEAST = 2
QUOTED = 160
# What every complaint says.
EMPTY = frozenset(
    {
        *("this", "that", "have", "has", "had", "was", "were", "not", "but", "they", "are", "all"),
        *("just", "very", "can", "cant", "don", "dont", "doesn", "does", "would", "could", "will"),
        *("when", "what", "there", "from", "been", "too", "out", "use", "used", "using", "one"),
        *(
            "apps",
            "even",
            "review",
            "stars",
            "after",
            "then",
            "than",
            "them",
            "its",
            "also",
            "only",
            "really",
            "like",
        ),
        *("how", "why", "any", "more", "time", "need", "want", "because", "about", "into", "over"),
    }
)


@dataclass(frozen=True)
class Pain:
    """A complaint: the words, how many reviews have them, and some of these."""

    words: str
    reviews: int
    of: int
    quotes: list[Any]


def terms(text: str) -> set[str]:
    """Words and pairs of neighbours that say something."""
    found: set[str] = set()
    for sentence in SENTENCE.split(text):
        said = [each for each in keywords.words(sentence) if each not in EMPTY]
        found |= {*said, *(f"{a} {b}" for a, b in pairwise(said))}
    return found


def complaints(
    poor: Sequence[Any], fine: Iterable[Any], names: Iterable[str], most: int = SHOWN
) -> list[Pain]:
    """What poor reviews share and fine ones do not, the most frequent first."""
    known = {word for name in names for word in keywords.words(name)}
    said: dict[str, list[Any]] = defaultdict(list)
    for review in poor:
        for term in terms(f"{review.title}. {review.content}"):
            if not known & set(term.split()):
                said[term].append(review)
    praise: dict[str, int] = defaultdict(int)
    for review in fine:
        for term in terms(f"{review.title}. {review.content}") & said.keys():
            praise[term] += 1
    ranked = sorted(
        (term for term in said if len(said[term]) >= LEAST and len(said[term]) > praise[term]),
        key=lambda term: (-len(said[term]), -len(term.split()), term),
    )
    return [_pain(term, said, len(poor)) for term in _apart(ranked, said)[:most]]


def _apart(ranked: list[str], said: dict[str, list[Any]]) -> list[str]:
    """Without those that share a word and all of their reviews with one before: they say the same."""
    kept: list[str] = []
    for term in ranked:
        same = (
            each
            for each in kept
            if set(each.split()) & set(term.split()) and len(said[each]) == len(said[term])
        )
        if next(same, None) is None:
            kept.append(term)
    return kept


def _pain(term: str, said: dict[str, list[Any]], of: int) -> Pain:
    return Pain(term, len(said[term]), of, said[term][:QUOTES])


def reviews_of(ids: Sequence[int]) -> tuple[list[Any], list[Any]]:
    """The newest reviews of these apps: with one or two stars, and with four or five."""
    poor: list[Any] = []
    fine: list[Any] = []
    for id_ in ids[:APPS]:
        rows = part.app.read(
            "select track_id, id, rating, title, content, written_at from scout_review"
            " where track_id = :id order by seen_at desc, id limit :most",
            id=id_,
            most=REVIEWS,
        )
        poor += [row for row in rows if row.rating <= POOR]
        fine += [row for row in rows if row.rating > POOR + 1]
    return poor, fine


def of_cluster(cluster: str) -> list[Pain]:
    """What people complain about in the best known apps of a cluster."""
    apps = groups.leaders(cluster, APPS)
    poor, fine = reviews_of([row.track_id for row in apps])
    return complaints(poor, fine, [row.track_name for row in apps])


def of_app(track_id: int, name: str) -> list[Pain]:
    poor, fine = reviews_of([track_id])
    return complaints(poor, fine, [name])


def everywhere(most: int = 10) -> list[tuple[Any, list[Pain]]]:
    """The best opportunities, each with its complaints."""
    rows = part.app.read(
        "select cluster, name, score from scout_opportunity order by score desc, cluster limit :most",
        most=most,
    )
    found = [(row, of_cluster(row.cluster)) for row in rows]
    return [each for each in found if each[1]]


def quoted(review: Any) -> str:
    """The first words of a review."""
    text = " ".join(f"{review.title} {review.content}".split())
    return text if len(text) <= QUOTED else f"{text[:QUOTED].rstrip()}…"
