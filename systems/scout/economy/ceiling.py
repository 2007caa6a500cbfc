"""The ceiling: after so many cycles a month, the crawl skips the rest and says so.

One row for each month counts them: reading it costs one row, however many cycles there were. A cycle is
estimated at five stages of 100,000 rows, which is the article's estimate and far above ours.
"""

from __future__ import annotations

import logging
from typing import Any

from systems.scout.economy.ledger import day_of
from systems.scout.part import settings

log = logging.getLogger("duework.scout")


def month_of(now: int) -> str:
    return day_of(now)[:7]


def most_cycles() -> int:
    """How many fit under the ceiling in a month."""
    given = settings()
    return given.ceiling_rows // given.rows_a_cycle


def used(read: Any, now: int) -> tuple[int, int]:
    """Cycles of this month that ran, and those that were skipped."""
    rows = read(
        "select cycles, skipped from scout_cycle_month where month = :month", month=month_of(now)
    )
    return (rows[0].cycles, rows[0].skipped) if rows else (0, 0)


def allows(tx: Any, now: int) -> bool:
    """Whether another cycle may run; it is counted with the cycle's own commit."""
    cycles, skipped = used(tx.read, now)
    under = cycles < most_cycles()
    if not under and not skipped:
        log.warning("the crawl is above its ceiling of %s rows a month", settings().ceiling_rows)
    tx.write(
        "insert into scout_cycle_month (month, cycles, skipped) values (:month, :ran, :skipped)"
        " on conflict (month) do update set cycles = scout_cycle_month.cycles + excluded.cycles,"
        " skipped = scout_cycle_month.skipped + excluded.skipped",
        month=month_of(now),
        ran=int(under),
        skipped=int(not under),
    )
    return under
