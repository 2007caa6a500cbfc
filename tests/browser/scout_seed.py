"""A scout that has run for some weeks, with everything that its pages can show; prints where to look."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import Any

from systems import scout
from systems.scout import app
from systems.scout.desk import changes, reports, stars, words
from systems.scout.desk.shown import report_body
from systems.scout.tests.found import DAY, an_app, cluster, insert, judged

LONG = "Unbroken" + "x" * 70
NAMES = ("Sleep timer", "Night sounds", "Shift planner", "Rota diary", "تطبيق النوم", LONG)
COMPLAINTS = (
    (1, "The calendar breaks at night and I lost a week of entries"),
    (2, "Calendar breaks whenever the clocks change. Too many adverts"),
    (1, "Too many adverts. The calendar breaks, support never answers"),
    (2, "Support never answers, and the widget is blank"),
    (5, "Lovely sounds, I sleep well"),
)
MARKETS = (("night shift planner", 78.0), ("pill reminder list", 74.0), ("choir practice", 69.0))


def apps(tx: Any, now: int) -> None:
    rows = []
    for number in range(1, 61):
        name = NAMES[number % len(NAMES)]
        rows.append(
            an_app(number, now - DAY, track_name=f"{name} {number}", rating_count=number**3)
        )
    insert(tx, "scout_app", rows)
    spots = [("topfreeapplications", 6013), ("topgrossingapplications", 6013)]
    for collection, category in spots:
        for ago in range(30):
            rank = 4 + (ago * 7 + category + len(collection)) % 23
            history = {"collection": collection, "category": category, "track_id": 60}
            insert(
                tx,
                "scout_chart_history",
                [{**history, "snapshot_at": now - ago * DAY, "rank": rank}],
            )
        now_there = {"collection": collection, "category": category, "snapshot_at": now}
        insert(tx, "scout_chart", [{**now_there, "track_id": 60, "rank": 4}])
    for ago in range(30):
        point = {"track_id": 60, "snapshot_at": now - ago * DAY, "average_rating": 4.4}
        insert(tx, "scout_snapshot", [{**point, "rating_count": 216_000 - ago * 900}])


def reviews(tx: Any, now: int) -> None:
    for id_ in (1, 2, 3, 60):
        insert(
            tx,
            "scout_review",
            [
                {
                    "track_id": id_,
                    "id": f"r{place}",
                    "rating": stars_,
                    "title": "Hm",
                    "content": text,
                }
                | {"sentiment": -0.5, "seen_at": now, "written_at": "2026-10-01T10:00:00-07:00"}
                for place, (stars_, text) in enumerate(COMPLAINTS)
            ],
        )
    version = {"track_id": 60, "version": "4.1", "released_at": "2026-10-02", "seen_at": now}
    insert(tx, "scout_version", [{**version, "notes": "Calendar repaired"}])
    inputs = {
        "rating_count": 216_000,
        "average_rating": 4.4,
        "days_since_update": 12,
        "best_place": 4,
    }
    score = {"track_id": 60, "agent": "competitiveness", "score": 84.2, "at": now}
    insert(tx, "scout_ledger", [{**score, "inputs": json.dumps(inputs)}])


def keywords(tx: Any, now: int) -> None:
    rows = [
        {
            "keyword": f"{word} {n}",
            "status": state,
            "source": "category_scan",
            "created_at": now - n,
        }
        for n in range(12)
        for word, state in (("shift", "pending"), ("sleep", "searched"), ("rota", "failed"))
    ]
    insert(tx, "scout_keyword", [*rows, {**rows[1], "keyword": "sleep timer"}])
    words.follow(tx, "sleep timer", now - 20 * DAY)
    for ago in range(20):
        for place, id_ in enumerate((60, 54, 48, 42)):
            row = {"keyword": "sleep timer", "at": now - ago * DAY, "track_id": id_}
            insert(tx, "scout_rank_history", [{**row, "rank": 1 + (place + ago // 5) % 4}])
    ranks = [
        {"keyword": "sleep timer", "track_id": id_, "rank": rank, "crawled_at": now}
        for rank, id_ in enumerate((60, 54, 48, 42, 1), start=1)
    ]
    insert(tx, "scout_ranking", ranks)


def markets(tx: Any, now: int) -> None:
    for place, (name, score) in enumerate(MARKETS):
        cluster(tx, now - place * DAY, f"m{place}", name, score=score, demand=83.0 - place)
        for ago in range(1, 20):
            point = {
                "cluster": f"m{place}",
                "at": now - ago * DAY,
                "score": score - ago / (place + 1),
            }
            insert(tx, "scout_score_history", [{**point, "place": place + 1}])
    judged(tx, now, "m9", LONG, verdict="leave", score=31.0)
    more(tx, now)
    changes.compare(tx, now)
    tx.write("update scout_opportunity set score = score + 3 where cluster = 'm1'")
    changes.compare(tx, now + 1)
    stars.star(tx, "opportunity", "m0", now, "to build")
    stars.star(tx, "app", "60", now, "rivals")
    stars.star(tx, "app", "59", now)


def more(tx: Any, now: int) -> None:
    """What judges, debates and bills leave behind."""
    parts = {"demand": 83.0, "competition": 60.0, "fragmentation": 50.0, "design": 40.0}
    for ago in range(8):
        run = {"cluster": "m0", "at": now - ago * DAY, "name": "x", "apps": 3, "keywords": 2}
        insert(
            tx, "scout_cluster_snapshot", [{**run, **parts, "score": 78.0 - ago, "overlap": 1.0}]
        )
    asked = {"kind": "cluster", "subject": "m0", "agent": "demand", "score": 83.0, "at": now}
    insert(tx, "scout_agent_ledger", [{**asked, "inputs": json.dumps({"ratings": 60})}])
    near = {"cluster": "m0", "other": "m1", "share": 0.12}
    insert(tx, "scout_cluster_relation", [near])
    insert(
        tx,
        "scout_cluster_lineage",
        [{"cluster": "m0", "at": now, "event": "split", "other": "m1", "overlap": 0.6}],
    )
    idea = {"cluster": "m0", "keyword": "sleep timer", "place": 1, "score": 71.0, "at": now}
    insert(
        tx,
        "scout_concept",
        [{**idea, "text": "A sleep timer that stops by itself", "inputs": "{}"}],
    )
    debate = {"id": 7, "cluster": "m0", "name": "night shift planner", "analyst": "rules"}
    facts = [{"part": "demand", "text": "60 ratings over 3 apps", "apps": [1, 2], "keywords": []}]
    insert(
        tx,
        "scout_debate_report",
        [{**debate, "parts": "{}", "facts": json.dumps(facts), "score": 78.0, "started_at": now}],
    )
    claim = [{"text": "people rate these apps a lot", "facts": [0], "answers": []}]
    said = {"debate": 7, "place": 1, "who": "bull", "analyst": "rules", "at": now}
    insert(tx, "scout_debate_message", [{**said, "claims": json.dumps(claim)}])
    for ago in range(7):
        day = datetime.fromtimestamp((now - ago * DAY) / 1000, UTC).date().isoformat()
        for service, cost in (("llm", 3_100_000), ("http", 400_000), ("rows", 250_000)):
            row = {"day": day, "service": service, "what": "x", "calls": 900, "units_in": 5}
            insert(tx, "scout_cost_day", [{**row, "units_out": 5, "cost": cost + ago * 90_000}])


def seed() -> dict[str, str]:
    """All of it; the end of a report's link."""
    scout.seed(app, small_run=False)
    now = app.now()
    with app.transaction() as tx:
        apps(tx, now)
        reviews(tx, now)
        keywords(tx, now)
        markets(tx, now)
        tx.write(
            "update scout_category set scanned_at = :now, apps_found = 200 where tier = 'high'",
            now=now - DAY,
        )
        tx.write(
            "update scout_category set failures = 3, retry_at = :at where id = 6018",
            at=now + DAY,
        )
    with app.transaction() as tx:
        return {"report": reports.make(tx, report_body("m0"), now)}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(seed()))
    app.close()
