"""Whether pages still say what they should: of each field, how many of the apps with a page have it.

Apple changes its pages without a word. A field that falls below its threshold is told to whoever runs this.
"""

from __future__ import annotations

from typing import Any

# In percent of the apps whose page was read.
THRESHOLDS = {
    "content_rating": 95,
    "description": 90,
    "developer": 90,
    "languages": 85,
    "screenshots": 80,
    "similar": 70,
    "histogram": 60,
}
TOTAL = "total"
# When an app has it; a list without an entry is none.
HAS = {
    "content_rating": "a.content_rating is not null",
    "description": "length(a.description) > 10",
    "developer": "a.developer_id is not null",
    "languages": "a.languages <> '[]'",
    "screenshots": "a.screenshots > 0",
    "similar": "a.similar_apps <> '[]'",
    "histogram": "a.rating_histogram is not null",
}
COLUMNS = ", ".join(
    f"case when {condition} then 1 else 0 end as has_{field}" for field, condition in HAS.items()
)


def counted(sums: dict[str, int], rows: list[Any]) -> dict[str, int]:
    """The sums with these rows; only apps whose page was read count."""
    read = [row for row in rows if row.enrichment_source == "scraper"]
    found = {field: sum(getattr(row, f"has_{field}") for row in read) for field in THRESHOLDS}
    return {
        **{field: sums.get(field, 0) + count for field, count in found.items()},
        TOTAL: sums.get(TOTAL, 0) + len(read),
    }


def alerts(sums: dict[str, int]) -> list[str]:
    """A line for each field that is below its threshold; none if no page was read."""
    total = sums.get(TOTAL, 0)
    return [
        f"{field}: {100 * sums[field] // total}% (threshold: {threshold}%)"
        for field, threshold in THRESHOLDS.items()
        if total and 100 * sums[field] < threshold * total
    ]


def store(tx: Any, day: int, sums: dict[str, int]) -> None:
    """The figures of a day, for people to look at."""
    if sums.get(TOTAL):
        tx.write(
            "insert into scout_quality (day, field, covered, total, threshold)"
            " values (:day, :field, :covered, :total, :threshold) on conflict (day, field)"
            " do update set covered = excluded.covered, total = excluded.total",
            rows=[
                {
                    "day": day,
                    "field": field,
                    "covered": sums[field],
                    "total": sums[TOTAL],
                    "threshold": threshold,
                }
                for field, threshold in THRESHOLDS.items()
            ],
        )
