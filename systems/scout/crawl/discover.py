"""What else a developer has made: asked for ten developers a call.

It is one of four ways to find apps, beside charts, searches, and the apps that Apple shows on the page of
another, which enrichment reads.
"""

from __future__ import annotations

from typing import Any

from duework import Run
from systems.scout import client, store
from systems.scout.crawl import gaps, keywords, log, shares
from systems.scout.crawl.tiers import DAY
from systems.scout.enrich import feed
from systems.scout.part import APPLE, CALL, ORDER, part

# A developer is asked about again after so long, and after a failure.
AGAIN, LATER = 30 * DAY, DAY


@part.task(queue="scout", priority=ORDER["portfolio"])
def expand(run: Run, cycle: int = 0) -> int:
    """Start calls about developers that are due."""
    run.commit(lambda tx: start(tx, run.now, cycle))
    return 0


def start(tx: Any, now: int, cycle: int) -> int:
    """Take developers and make a job of each ten; how many developers."""
    size = shares.DEVELOPERS
    room = shares.PORTFOLIOS * size
    waiting = tx.read(
        "select 1 as x from scout_developer where expanding is not null limit :most", most=room
    )
    ids = gaps.developers(tx.read, now, max(0, room - len(waiting)))
    if ids:
        tx.write(
            "update scout_developer set expanding = :now where developer_id = :id",
            rows=[{"now": now, "id": id_} for id_ in ids],
        )
    for begin in range(0, len(ids), size):
        tx.enqueue(portfolio, ids[begin : begin + size], cycle)
    return len(ids)


@part.task(pace=APPLE, priority=ORDER["portfolio"], **CALL)
async def portfolio(run: Run, developers: list[int], cycle: int = 0) -> int:
    """The apps of some developers."""
    found = await client.portfolio(developers)
    run.commit(lambda tx: expanded(tx, developers, found, run.now, cycle))
    return len(found)


def expanded(
    tx: Any, developers: list[int], found: list[client.Found], now: int, cycle: int = 0
) -> int:
    """Their apps and the keywords of new ones, in one commit; how many are new."""
    unknown = store.unknown(tx.read, found)
    new = store.apps(tx, found, now, by="portfolio")
    words = keywords.of_titles(each.track_name for each in unknown)
    store.keywords(tx, words, now, source="portfolio", depth=1)
    counts = {id_: sum(each.developer_id == id_ for each in found) for id_ in developers}
    tx.write(
        "update scout_developer set expanded_at = :now, due_at = :again, expanding = null,"
        " failures = 0, apps_found = :n where developer_id = :id",
        rows=[{"now": now, "again": now + AGAIN, "n": n, "id": id_} for id_, n in counts.items()],
    )
    log.add(tx, cycle, developers_expanded=len(developers), apps_discovered=new)
    if unknown:
        feed.wake(tx)
    return new


@portfolio.settled
def not_expanded(tx: Any, job: Any, outcome: str) -> None:
    """Developers that could not be asked about come back later, each time after longer."""
    if outcome != "done":
        tx.write(
            "update scout_developer set expanding = null, failures = failures + 1,"
            " due_at = :now + :later * cast(failures + 1 as bigint) where developer_id = :id",
            rows=[
                {"now": part.app.now(), "later": LATER, "id": id_}
                for id_ in job.arguments["developers"]
            ],
        )
