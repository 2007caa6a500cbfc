"""What is scanned: the store's categories in three collections each, with the tier that says how often."""

from __future__ import annotations

from typing import Any

COLLECTIONS = ("topfreeapplications", "toppaidapplications", "topgrossingapplications")

HIGH = {6013: "Health & Fitness", 6015: "Finance", 6007: "Productivity", 6002: "Utilities"}
HIGH |= {6017: "Education", 6020: "Medical", 6012: "Lifestyle", 6008: "Photo & Video"}
MEDIUM = {6000: "Business", 6023: "Food & Drink", 6003: "Travel", 6004: "Sports", 6011: "Music"}
MEDIUM |= {6010: "Navigation", 6001: "Weather", 6024: "Shopping", 6005: "Social Networking"}
MEDIUM |= {6016: "Entertainment", 6027: "Graphics & Design", 6026: "Developer Tools"}
LOW = {6018: "Books", 6006: "Reference", 6009: "News", 6021: "Magazines & Newspapers"}
LOW |= {6014: "Games", 7003: "Casual games", 7012: "Puzzle games", 7014: "Role playing games"}
LOW |= {7017: "Strategy games", 7019: "Word games", 6061: "Kids"}
TIERS = {"high": HIGH, "medium": MEDIUM, "low": LOW}


def add(to: Any) -> None:
    """31 categories in three collections; those that are there stay as they are."""
    rows = [
        {"id": id_, "collection": collection, "name": name, "tier": tier, "place": place}
        for tier, categories in TIERS.items()
        for place, (id_, name) in enumerate(categories.items())
        for collection in COLLECTIONS
    ]
    to.write(
        "insert into scout_category (id, collection, name, tier, sort_order)"
        " values (:id, :collection, :name, :tier, :place)"
        " on conflict (id, collection) do nothing",
        rows=rows,
    )
