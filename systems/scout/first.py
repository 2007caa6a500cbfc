"""The first opportunity in ten minutes: a small run through all five stages, without waiting for a cycle.

One chart, two lookups and a few searches, a call a page, before all others;
then scores, clusters and the debate.
"""

from __future__ import annotations

from typing import Any

from duework import Chain, End, Next, Page
from systems.scout import client
from systems.scout.cluster import cluster
from systems.scout.crawl import categories, cycle, gaps
from systems.scout.crawl import keywords as words
from systems.scout.crawl.tiers import order
from systems.scout.enrich import feed
from systems.scout.evaluate import evaluate
from systems.scout.part import APPLE, CALL, part, settings

LOOKUPS, SEARCHES = 2, 12
FALLBACK = ("topfreeapplications", 6013)


def start() -> Chain:
    """Begin it; one that is under way already goes on."""
    with part.app.transaction() as tx:
        categories.add(tx)
        chain: Chain = tx.start(pipeline)
        return chain


@part.chain(key="first", pace=APPLE, priority=9, **CALL)
async def pipeline(page: Page) -> Next | End:
    """One call; the cursor says what comes next."""
    run, left = page.run, page.cursor
    if left is None:
        return await _chart(run)
    if left["ids"]:
        ids, rest = left["ids"][0], left["ids"][1:]
        feed.save(run, ids, await client.lookup(ids), run.now)
        return Next(cursor={**left, "ids": rest})
    if left["words"]:
        word, more = left["words"][0], left["words"][1:]
        found = await client.search(word)
        cycle.searched(run, word, found, run.now)
        _look_up(run, [each.track_id for each in found])
        return Next(cursor={**left, "words": more}) if more else _conclude(run)
    return _conclude(run)


async def _chart(run: Any) -> Next:
    due = gaps.next_category(run.read, run.now, order(0))
    collection, category = (due.collection, due.id) if due else FALLBACK
    found = await client.chart(collection, category)
    cycle.charted(run, collection, category, found, run.now)
    size = settings().lookup
    ids = [each.track_id for each in found[: LOOKUPS * size]]
    names = [each.track_name for each in found[:SEARCHES]]
    pairs = [each for each in words.of_titles(names) if " " in each][:SEARCHES]
    return Next(
        cursor={"ids": [ids[at : at + size] for at in range(0, len(ids), size)], "words": pairs}
    )


def _look_up(run: Any, ids: list[int]) -> None:
    """Apps that a search found go before those of charts."""
    if ids:
        run.write(
            "update scout_app set enrich_priority = 50 where track_id = :id and enriched_at is null",
            rows=[{"id": id_} for id_ in ids],
        )


def _conclude(run: Any) -> End:
    """Score and group what there is, when the last lookups have had a minute."""
    feed.wake(run)
    run.enqueue(evaluate.using(key="evaluate", delay="1m"))
    run.enqueue(cluster.using(key="first", delay="2m"))
    return End()
