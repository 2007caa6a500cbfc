"""Rows as scout leaves them, without a run: apps, keywords, a cluster, a judged opportunity, reviews."""

from __future__ import annotations

import json
from typing import Any

from duework import App

DAY = 86_400_000
PARTS = {
    "demand": 80.0,
    "competition": 60.0,
    "fragmentation": 50.0,
    "design": 40.0,
    "score": 61.0,
}


def insert(tx: Any, table: str, rows: list[dict[str, Any]]) -> None:
    names = list(rows[0])
    marks = ", ".join(f":{name}" for name in names)
    tx.write(f"insert into {table} ({', '.join(names)}) values ({marks})", rows=rows)  # noqa: S608 - a test's own names


def an_app(number: int, now: int, **more: Any) -> dict[str, Any]:
    return {
        "track_id": number,
        "track_name": f"Sleep timer {number}",
        "seller_name": "Somebody Ltd",
        "average_rating": 4.0,
        "rating_count": number * 10,
        "primary_genre": "Finance" if number % 2 else "Health & Fitness",
        "enriched_at": now,
        "enrichment_source": "itunes",
        "competitiveness_score": 50.0,
        "evaluated_at": now,
        "first_seen_at": now - number,
        "last_seen_at": now,
        **more,
    }


def found(app: App, now: int, apps: int = 12) -> None:
    """A dozen apps that two keywords find, in a cluster that was judged."""
    with app.transaction() as tx:
        insert(tx, "scout_app", [an_app(number, now) for number in range(1, apps + 1)])
        words = ("sleep timer", "night sounds")
        insert(
            tx,
            "scout_keyword",
            [
                {"keyword": word, "status": "searched", "source": "title", "created_at": now}
                for word in words
            ],
        )
        insert(
            tx,
            "scout_ranking",
            [
                {"keyword": word, "track_id": id_, "rank": id_, "crawled_at": now}
                for word in words
                for id_ in (1, 2, 3)
            ],
        )
        cluster(tx, now)


def cluster(tx: Any, now: int, id_: str = "c1", name: str = "sleep timer", **parts: Any) -> None:
    """A cluster of three apps and its opportunity."""
    given = {**PARTS, **parts}
    inputs = {"ratings": 60, "of_the_three_largest": 60, "leaders": [3, 2, 1]}
    row = {"id": id_, "name": name, "apps": 3, "keywords": 2, **given}
    insert(tx, "scout_cluster", [{**row, "inputs": json.dumps(inputs), "found_at": now}])
    insert(tx, "scout_cluster_app", [{"cluster": id_, "track_id": each} for each in (1, 2, 3)])
    insert(tx, "scout_cluster_keyword", [{"cluster": id_, "keyword": "sleep timer"}])
    judged(tx, now, id_, name, **given)


def judged(tx: Any, now: int, id_: str, name: str, verdict: str = "build", **parts: Any) -> None:
    facts = [
        {"part": "demand", "text": "60 ratings over 3 apps", "apps": [1, 2], "keywords": []},
        {"part": "demand", "text": "1 keyword", "apps": [], "keywords": ["sleep timer"]},
    ]
    claim = {"text": "people rate these apps a lot", "facts": [0], "part": "demand"}
    debate = [
        {"who": "bull", "claims": [claim]},
        {"who": "bear", "claims": []},
        {"who": "judge", "claims": [{"text": "61: build", "facts": [], "part": "score"}]},
    ]
    given = {**PARTS, **parts}
    insert(
        tx,
        "scout_opportunity",
        [
            {
                "cluster": id_,
                "name": name,
                "score": given["score"],
                "verdict": verdict,
                "parts": json.dumps(given),
                "facts": json.dumps(facts),
                "debate": json.dumps(debate),
                "first_at": now,
                "decided_at": now,
            }
        ],
    )


def reviews(app: App, now: int, texts: list[tuple[int, str]], track_id: int = 3) -> None:
    """Reviews of an app, as (stars, text)."""
    with app.transaction() as tx:
        insert(
            tx,
            "scout_review",
            [
                {
                    "track_id": track_id,
                    "id": f"r{place}",
                    "rating": rating,
                    "title": "",
                    "content": text,
                    "sentiment": 0.0,
                    "seen_at": now,
                }
                for place, (rating, text) in enumerate(texts)
            ],
        )
