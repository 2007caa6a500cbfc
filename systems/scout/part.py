"""Scout as a Part: its tables, its settings, and the paces between it and Apple."""

from __future__ import annotations

from typing import Any

from duework import Adaptive, Part, Rate, Tick
from systems.scout.settings import Settings

part = Part("scout", tables="tables", settings=Settings)
part.queue("scout", concurrency=8)
# Whoever scores, groups and debates; it can be paused beside the rest.
JUDGING = "scout-agents"
part.queue(JUDGING, concurrency=4)

# Everything that calls Apple waits for this one, whatever else holds it. Apple documents 20 a minute and does
# not say when its minute begins; in a stretch that is no full minute a rate may be one above itself.
A_MINUTE: int = part.settings.rate - 1
APPLE = Rate(f"{A_MINUTE}/1m", name="apple")
# Who goes first when several wait for it, 9 before 0: what is few and urgent, and what has a share of its
# own, before what never ends. What keeps the last ones from starving is in crawl/shares.py.
ORDER = {"first": 9, "lookup": 3, "chart": 2, "portfolio": 2, "page": 1, "search": 0}
# How many lookups at a time and how often: it grows with success and rests after a storm.
CONTROLLER = Adaptive(name="enrich", batch=(2, 50), interval=("10s", "2m"), cooldown="5m")
# The share of pages and reviews: one call an app, and there are more of them than of anything else.
PAGES = Rate(f"{part.settings.rate * 3 // 10}/1m", name="pages")
# In-app purchases that are asked for again.
PURCHASES = Tick(3, "1500ms", name="purchases")

# A call of which nothing was heard is made again; one that Apple refuses is put off instead.
CALL: dict[str, Any] = {
    "queue": "scout",
    "retries": 5,
    "backoff": ("10s", "1m", "5m"),
    "timeout": "1m",
}


def settings() -> Settings:
    """As this process was started with."""
    found: Settings = part.settings
    return found
