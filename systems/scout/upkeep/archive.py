"""Apps that nobody has seen for 90 days leave the database: as a blob first, and only then as rows.

A lookup counts as seeing it, so that these are apps that are sold no more. The blob has a key that a
repetition uses again; the rows go with the commit of the sweep's group, and not if the app was seen since.
"""

from __future__ import annotations

import json
from typing import Any

from duework import Run
from systems.scout.crawl.tiers import DAY
from systems.scout.part import part, settings

UNSEEN = (
    "select track_id from scout_app where last_seen_at < :before and enriching is null"
    " and scraping is null order by last_seen_at limit :most"
)
# What belongs to an app, by its id.
ATTRIBUTES = (
    "scout_review",
    "scout_version",
    "scout_snapshot",
    "scout_mention",
    "scout_ranking",
    "scout_ledger",
)


def key(track_id: int) -> str:
    return f"archive/app/{track_id}.json"


def unseen(read: Any, most: int, random: Any) -> list[Any]:  # noqa: ARG001 - nothing is drawn
    """The ones first that were not seen for longest."""
    before = part.app.now() - settings().keep * DAY
    found: list[Any] = read(UNSEEN, before=before, most=most)
    return found


@part.sweep(unseen, parallel=8, every="6h", queue="scout")
async def archive(run: Run, track_id: int) -> None:
    """One app."""
    content = gathered(run.read, track_id)
    if content is None:
        return
    await part.app.blobs.aput(key(track_id), content, content_type="application/json")
    run.write(
        "delete from scout_app where track_id = :id and last_seen_at < :before",
        id=track_id,
        before=run.now - settings().keep * DAY,
    )
    for table in ATTRIBUTES:
        run.write(
            f"delete from {table} where track_id = :id and not exists"  # noqa: S608 - one of ours
            " (select 1 from scout_app a where a.track_id = :id)",
            id=track_id,
        )


def gathered(read: Any, track_id: int) -> str | None:
    """Everything of an app, as JSON; None if it is not there any more."""
    [*rows] = read("select * from scout_app where track_id = :id", id=track_id)
    if not rows:
        return None
    more = {
        table: [
            row._asdict()
            for row in read(f"select * from {table} where track_id = :id", id=track_id)  # noqa: S608 - one of ours
        ]
        for table in ATTRIBUTES
    }
    return json.dumps({"scout_app": rows[0]._asdict(), **more})


def archived(track_id: int) -> dict[str, Any] | None:
    """What was known of an app that is archived."""
    content = part.app.blobs.get(key(track_id))
    return None if content is None else json.loads(content)
