"""How fast ratings grow: (ratings now - ratings then) / days, where then is 3 to 10 days before.

Counted from when Apple said so, and not from when the day's work ran: an app that was not asked again has no
new snapshot, and its velocity does not fall to nothing because nobody looked.
"""

from __future__ import annotations

from typing import Any

from systems.scout.crawl.tiers import DAY
from systems.scout.evaluate import half_up

NEAR, FAR = 3 * DAY, 10 * DAY
AT_ONCE = 50
# The oldest snapshot in the window, by the key of its table.
THEN = (
    "from scout_snapshot s where s.track_id = a.track_id and s.snapshot_at >= a.enriched_at - :far"
    " and s.snapshot_at <= a.enriched_at - :near order by s.snapshot_at limit 1"
)


def velocity(now_count: int, then_count: int, days: float) -> float:
    """Ratings a day, to two digits; less than a day counts as one."""
    return half_up((now_count - then_count) / max(days, 1.0), 2)


def snapshots(tx: Any, rows: list[Any]) -> None:
    """What was counted, under the time at which it was: once, however often this runs."""
    if rows:
        tx.write(
            "insert into scout_snapshot (track_id, snapshot_at, rating_count, average_rating)"
            " values (:id, :at, :count, :stars) on conflict do nothing",
            rows=[
                {
                    "id": row.track_id,
                    "at": row.enriched_at,
                    "count": row.rating_count,
                    "stars": row.average_rating,
                }
                for row in rows
            ],
        )


def velocities(tx: Any, rows: list[Any], now: int) -> int:
    """Of the apps that have a snapshot to compare with; how many."""
    known = [row for row in rows if row.then_at is not None]
    values = [
        {
            "id": row.track_id,
            "speed": velocity(
                row.rating_count, row.then_count, (row.enriched_at - row.then_at) / DAY
            ),
            "then": row.then_count,
            "now": now,
        }
        for row in known
    ]
    for start in range(0, len(values), AT_ONCE):
        tx.write(
            "update scout_app set rating_velocity_7d = :speed, rating_count_7d_ago = :then,"
            " rating_velocity_updated_at = :now where track_id = :id",
            rows=values[start : start + AT_ONCE],
        )
    return len(values)
