"""What a demonstration needs of scout: categories to begin with, and what it says it has stored."""

from __future__ import annotations

import msgspec

from duework import App
from systems.scout import first
from systems.scout.crawl import categories


class Promise(msgspec.Struct, frozen=True):
    """An app that was found is promised to be enriched, once; to be compared with Apple's own list."""

    track_id: int
    # waiting, sent, or failed where Apple says nothing of it.
    state: str
    enrichments: int


def seed(app: App, *, small_run: bool = True) -> int:
    """The categories, and a small run through all stages at once; how many charts there are to scan."""
    with app.transaction() as tx:
        categories.add(tx)
    if small_run:
        first.start()
    return int(app.read("select count(*) as n from scout_category")[0].n)


def promises(app: App) -> list[Promise]:
    """Every app that was found, and how far it is."""
    rows = app.read(
        "select track_id, enriched_at, enrichment_source, enrichments from scout_app"
        " order by track_id"
    )
    return [
        Promise(row.track_id, _state(row.enriched_at, row.enrichment_source), row.enrichments)
        for row in rows
    ]


def _state(enriched: int | None, source: str | None) -> str:
    if enriched is None:
        return "waiting"
    return "failed" if source == "failed" else "sent"
