"""Rows of every system, as a run of the demo leaves them; its pages only read. Prints where to look."""

from __future__ import annotations

import json
import sys
from datetime import UTC, date, datetime, timedelta
from typing import Any

from systems import mailroom, reminders, scout, streaks
from systems.demo.app import app
from systems.demo.part import keep, note

DAY = 86_400_000
LATER = """
update duework_outbox set state = :state, error = :error, submits = 1, accepted = :now, settled = :now
where id in (select id from duework_outbox where state = 'queued' order by id limit :count)"""
SCORES = [("mailroom", 260, 258), ("reminders", 96, 96), ("streaks", 80, 80), ("strides", 410, 400)]


def today() -> date:
    return datetime.fromtimestamp(app.now() / 1000, UTC).date()


def insert(tx: Any, table: str, **values: object) -> None:
    names = ", ".join(values)
    marks = ", ".join(f":{name}" for name in values)
    tx.write(f"insert into {table} ({names}) values ({marks})", **values)


def mails() -> int:
    mailroom.seed(app, tenants=3, messages=60)
    now = app.now()
    with app.transaction() as tx:
        tx.write(LATER, state="sent", error=None, now=now, count=30)
        tx.write(LATER, state="failed", error="rejected: no such mailbox", now=now, count=4)
        tx.write(LATER, state="unsure", error="the reply was lost", now=now, count=3)
    return int(app.read("select min(id) as id from duework_outbox")[0].id)


def people() -> None:
    streaks.seed(app, 30)
    now = app.now()
    rows = app.read("select id from streaks_person order by login_key limit 20")
    counts = [number % 5 * (number % 7 > 0) for number in range(365)]
    first = (today() - timedelta(days=364)).isoformat()
    with app.transaction() as tx:
        for row in rows:
            insert(
                tx,
                "streaks_calendar",
                person=row.id,
                first=first,
                counts=json.dumps(counts),
                longest=12,
            )
            for ago in range(10):
                day = (today() - timedelta(days=ago)).isoformat()
                insert(
                    tx,
                    "streaks_day",
                    person=row.id,
                    day=day,
                    contributions=3,
                    streak=12 - ago,
                    message="Your streak is safe",
                    checked=now,
                )
                for channel, state in (("discord", "sent"), ("telegram", "unsure")):
                    message: dict[str, Any] = {
                        "person": row.id,
                        "day": day,
                        "channel": channel,
                        "job": 5,
                        "address": "1100000000000000001",
                        "text": "Your streak is safe",
                        "state": state,
                        "promised": now - ago * DAY,
                        "settled": now - ago * DAY,
                    }
                    insert(tx, "streaks_message", **message)
        tx.write(
            "update streaks_person set problem = 'GitHub refused the token' where login = 'user-003'"
        )


def athletes() -> None:
    now = app.now()
    with app.transaction() as tx:
        for number, name in enumerate(("Ada", "Björn", "Chloé")):
            insert(
                tx,
                "strides_athlete",
                id=5001 + number,
                firstname=name,
                lastname="Runner",
                joined=now,
                sync_status="completed",
                sync_outcome="done",
                last_synced_at=now,
            )
        for number in range(200):
            day = today() - timedelta(days=number)
            metres = (5_000.0, 10_000.0, 21_097.0, 42_195.0)[number % 4]
            start = now // 1000 - number * 86_400
            insert(
                tx,
                "strides_activity",
                athlete_id=5001,
                id=number,
                start=start,
                day=day.isoformat(),
                name="Morning run",
                sport="Run",
                distance=metres,
                moving_time=1800,
                seen=1,
            )
            if number % 10 == 0:
                race(tx, number, start, day.isoformat(), metres)
        uploads(tx)


def uploads(tx: Any) -> None:
    """A file of each kind on an athlete's page."""
    given = {"athlete_id": 5001, "sent": app.now(), "size": 900, "zone": "", "race": 0}
    out = [["activities/7.fit", "it is damaged"], ["activities/8.gpx", "it has no time"]]
    told = {"status": "taken", "added": 40, "left_out": 60, "reasons": json.dumps(out)}
    insert(tx, "strides_upload", id="a", name="export_12345678.zip", **given, **told)
    why = "'a/very/long/name/of/notes/without/any/space.gpx' is neither FIT, TCX nor GPX"
    insert(tx, "strides_upload", id="b", name="no.gpx", status="refused", reason=why, **given)
    insert(tx, "strides_upload", id="c", name="large.zip", done=100, total=4000, **given)


def race(tx: Any, number: int, start: int, day: str, metres: float) -> None:
    insert(
        tx,
        "strides_race",
        athlete_id=5001,
        strava_activity_id=number,
        start=start,
        date=day,
        name=f"City race {number}",
        distance=metres,
        distance_class={5_000.0: "5 km", 10_000.0: "10 km", 21_097.0: "Half"}.get(
            metres, "Marathon"
        ),
        elapsed_time=int(metres / 3.9),
        moving_time=int(metres / 4),
        event_name=f"City race {number}",
        known_by="its name has a race in it",
        created_at=start * 1000,
        seen=1,
    )


def apps() -> None:
    """Scout: what it found, and an opportunity that it debated about."""
    scout.seed(app, small_run=False)
    now = app.now()
    with app.transaction() as tx:
        for number in range(12):
            insert(
                tx,
                "scout_app",
                track_id=900 + number,
                track_name=f"Habit tracker {number}" if number else "تطبيق العادات " + "x" * 60,
                seller_name="Somebody Ltd",
                average_rating=4.2,
                rating_count=1200 * number,
                enriched_at=now if number % 3 else None,
                enrichment_source="itunes" if number % 3 else None,
                first_seen_at=now - DAY,
                last_seen_at=now,
            )
        for word in ("habit", "routine"):
            insert(
                tx, "scout_keyword", keyword=word, status="searched", source="title", created_at=now
            )
            insert(tx, "scout_ranking", keyword=word, track_id=901, rank=3, crawled_at=now)
        opportunity(tx, now)


def opportunity(tx: Any, now: int) -> None:
    parts = {"demand": 72.5, "competition": 41.0, "fragmentation": 63.0, "design": 55.0}
    facts = [
        {"part": "demand", "text": "12 apps", "apps": [901, 902], "keywords": []},
        {"part": "demand", "text": "2 keywords", "apps": [], "keywords": ["habit", "routine"]},
    ]
    claim = {"text": "People look for it.", "facts": [0]}
    voices = ("bull", "bear", "judge")
    debate = [{"who": who, "claims": [claim] if who != "bear" else []} for who in voices]
    insert(
        tx,
        "scout_opportunity",
        cluster="habit",
        name="Habit trackers",
        score=61.0,
        verdict="build",
        parts=json.dumps(parts),
        facts=json.dumps(facts),
        debate=json.dumps(debate),
        first_at=now,
        decided_at=now,
    )


def demo() -> None:
    lines = [
        {
            "system": name,
            "promised": promised,
            "delivered": delivered,
            "lost": 0,
            "twice": 0,
            "unsure": 2,
            "failed": 0,
            "on_the_way": promised - delivered,
            "examples": [],
        }
        for name, promised, delivered in SCORES
    ]
    keep(app, "score", lines)
    keep(app, "kills", 1)
    keep(app, "recovery", 2.4)
    keep(app, "lost_replies", 5)
    for system, text, kind in (
        ("mailroom", "3 tenants posted 200 mails", "info"),
        ("chaos", "a worker was killed in the middle of its jobs", "failed"),
        ("streaks", "40 people, each checked in a process of its own", "done"),
        ("mailroom", "5 replies were lost: unsure, not sent twice", "unsure"),
    ):
        note(app, system, text, kind)


if __name__ == "__main__":
    message = mails()
    reminders.seed(app, people=6, count=20)
    people()
    athletes()
    apps()
    demo()
    sys.stdout.write(json.dumps({"message": message}))
    app.close()
