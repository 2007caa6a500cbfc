"""The fourth stage: which keywords and apps belong together, every six hours, in a process of its own.

Keywords and the apps that are found for them form a graph; labels spread over it, weighted by rank, until
neighbours agree. A cluster is called after the keyword that most of its apps are found for, and has four
scores from 0 to 100, each the higher, the better for somebody who comes new:

    demand          log10 of all ratings of its apps, over seven
    competition     how weak the ten best known apps are: 100 less their mean competitiveness
    fragmentation   what the three best known apps leave of the ratings to others
    design          how unhappy people are: leaders below four stars, or not updated for a year
    score           35 % demand, 25 % competition, 20 % fragmentation, 20 % design
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from duework import Run
from systems.scout.evaluate import days_since, half_up
from systems.scout.opportunity import WEIGHTS, ask_for
from systems.scout.part import part

LOWEST_RANK = 15
ROUNDS = 8
# The first place is worth more than the second, but two of them more than the first.
EVEN = 5
LEAST_APPS, LEAST_KEYWORDS = 3, 2
LEADERS, GIANTS = 10, 3
BEST = 20
FINE_STARS, YEAR = 4.0, 365

# A keyword, an app, and its rank there.
Edge = tuple[str, int, int]


@dataclass(frozen=True)
class Member:
    """What a score needs of an app."""

    id: int
    ratings: int
    stars: float
    strength: float
    days: int | None


def communities(edges: Sequence[Edge]) -> list[tuple[list[str], list[int]]]:
    """Groups of keywords and apps, the largest first; the same edges make the same groups."""
    by_word: dict[str, list[tuple[int, float]]] = defaultdict(list)
    by_app: dict[int, list[tuple[str, float]]] = defaultdict(list)
    for word, app, rank in sorted(edges):
        by_word[word].append((app, 1 / (rank + EVEN)))
        by_app[app].append((word, 1 / (rank + EVEN)))
    words = {word: word for word in by_word}
    apps: dict[int, str] = {}
    for _ in range(ROUNDS):
        apps = {app: _winner((words[w], weight) for w, weight in by_app[app]) for app in by_app}
        newer = {w: _winner((apps[a], weight) for a, weight in by_word[w]) for w in by_word}
        if newer == words:
            break
        words = newer
    groups: dict[str, tuple[list[str], list[int]]] = defaultdict(lambda: ([], []))
    for word, label in words.items():
        groups[label][0].append(word)
    for app, label in apps.items():
        groups[label][1].append(app)
    whole = [
        each
        for each in groups.values()
        if len(each[0]) >= LEAST_KEYWORDS and len(each[1]) >= LEAST_APPS
    ]
    return sorted(whole, key=lambda each: (-len(each[1]), each[0]))


def _winner(votes: Iterable[tuple[str, float]]) -> str:
    """The label with the most weight; of equals the first by name."""
    sums: Counter[str] = Counter()
    for label, weight in votes:
        sums[label] += weight  # type: ignore[assignment]  # a counter of weights
    return min(sums, key=lambda label: (-sums[label], label))


def name_of(words: Iterable[str], apps: set[int], edges: Mapping[str, set[int]]) -> str:
    """The keyword for which most of the apps are found; of equals the longer."""
    return min(words, key=lambda word: (-len(edges[word] & apps), -len(word.split()), word))


def identity(name: str) -> str:
    return hashlib.blake2s(name.encode(), digest_size=6).hexdigest()


def scores(members: Sequence[Member]) -> tuple[dict[str, float], dict[str, Any]]:
    """The four scores with their sum, and what they were computed from."""
    known = sorted(members, key=lambda each: (-each.ratings, each.id))
    leaders, total = known[:LEADERS], sum(each.ratings for each in known)
    giants = sum(each.ratings for each in known[:GIANTS])
    strength = sum(each.strength for each in leaders) / len(leaders)
    unhappy = sum(each.stars < FINE_STARS for each in leaders)
    stale = sum(each.days is None or each.days > YEAR for each in leaders)
    parts = {
        "demand": half_up(min(1.0, math.log10(1 + total) / 7) * 100),
        "competition": half_up(100 - strength),
        "fragmentation": half_up(100 * (1 - giants / total) if total else 0.0),
        "design": half_up(50 * (unhappy + stale) / len(leaders)),
    }
    inputs = {
        "ratings": total,
        "of_the_three_largest": giants,
        "leaders": [each.id for each in leaders],
        "mean_strength": half_up(strength, 2),
        "leaders_below_four_stars": unhappy,
        "leaders_not_updated_for_a_year": stale,
    }
    parts["score"] = half_up(sum(WEIGHTS[name] * parts[name] for name in WEIGHTS))
    return parts, inputs


def nothing_new(run: Run) -> bool:
    """Whether no app has been scored since the last run."""
    last = run.read("select max(found_at) as at from scout_cluster")[0].at or 0
    return not run.read("select 1 as x from scout_app where evaluated_at > :at limit 1", at=last)


@part.task(
    cron="0 */6 * * *",
    idle=nothing_new,
    isolation="process",
    timeout="10m",
    queue="scout",
    owner="scout",
    why="markets move in days; four times a day is soon enough",
)
def cluster(run: Run) -> int:
    """Group what was found, score the groups, and start a debate about the best of them."""
    edges: list[Edge] = [
        (row.keyword, row.track_id, row.rank)
        for row in run.read(
            "select r.keyword, r.track_id, r.rank from scout_ranking r"
            " join scout_app a on a.track_id = r.track_id"
            " where r.rank <= :lowest and a.evaluated_at is not null",
            lowest=LOWEST_RANK,
        )
    ]
    members = members_of(run, run.now)
    found = [_described(group, edges, members) for group in communities(edges)]
    # Two groups of one name cannot be told apart later: the larger one has it.
    unique = list({each["id"]: each for each in reversed(found)}.values())[::-1]
    _store(run, unique)
    best = sorted(unique, key=lambda each: (-each["score"], each["id"]))[:BEST]
    ask_for(run, [each["id"] for each in best])
    return len(unique)


def members_of(run: Any, now: int) -> dict[int, Member]:
    rows = run.read(
        "select track_id, rating_count, average_rating, competitiveness_score, updated_date"
        " from scout_app where evaluated_at is not null"
    )
    return {
        row.track_id: Member(
            row.track_id,
            row.rating_count,
            row.average_rating,
            row.competitiveness_score,
            days_since(row.updated_date, now),
        )
        for row in rows
    }


def _described(
    group: tuple[list[str], list[int]], edges: Sequence[Edge], members: Mapping[int, Member]
) -> dict[str, Any]:
    words, apps = group
    mine, wanted = set(apps), set(words)
    found: dict[str, set[int]] = {word: set() for word in words}
    for word, app, _ in edges:
        if word in wanted:
            found[word].add(app)
    name = name_of(words, mine, found)
    parts, inputs = scores([members[app] for app in apps])
    return {
        "id": identity(name),
        "name": name,
        "words": words,
        "apps": apps,
        "inputs": inputs,
        **parts,
    }


def _store(run: Run, found: Sequence[dict[str, Any]]) -> None:
    """The clusters of this run instead of those of the last, in one commit."""
    for table in ("scout_cluster", "scout_cluster_app", "scout_cluster_keyword"):
        run.write(f"delete from {table}")  # noqa: S608 - one of three
    if not found:
        return
    run.write(
        "insert into scout_cluster (id, name, apps, keywords, demand, competition, fragmentation,"
        " design, score, inputs, found_at) values (:id, :name, :apps, :keywords, :demand,"
        " :competition, :fragmentation, :design, :score, :inputs, :now)",
        rows=[
            {
                **{name: each[name] for name in ("id", "name", "score", *WEIGHTS)},
                "apps": len(each["apps"]),
                "keywords": len(each["words"]),
                "inputs": json.dumps(each["inputs"]),
                "now": run.now,
            }
            for each in found
        ],
    )
    run.write(
        "insert into scout_cluster_app (cluster, track_id) values (:id, :app)",
        rows=[{"id": each["id"], "app": app} for each in found for app in each["apps"]],
    )
    run.write(
        "insert into scout_cluster_keyword (cluster, keyword) values (:id, :word)",
        rows=[{"id": each["id"], "word": word} for each in found for word in each["words"]],
    )
