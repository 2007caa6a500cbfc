"""The first opportunity in ten minutes: a small run through all five stages, without waiting for a cycle.

One chart, a few searches and the lookups of what they found, a call a page, before all others;
then scores, clusters and the debate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from duework import Chain, End, Next, Page
from systems.scout import client
from systems.scout.cluster import cluster
from systems.scout.crawl import categories, charts, gaps, keywords, search
from systems.scout.crawl.tiers import order
from systems.scout.enrich import feed
from systems.scout.evaluate import score_waiting
from systems.scout.part import APPLE, CALL, ORDER, part, settings

SEARCHES, LOOKUPS = 16, 8
THEMES, PAIR = 4, 2
FALLBACK = ("topfreeapplications", 6013)


def start() -> Chain:
    """Begin it; one that is under way already goes on."""
    with part.app.transaction() as tx:
        categories.add(tx)
        chain: Chain = tx.start(pipeline)
        return chain


@part.chain(key="first", pace=APPLE, priority=ORDER["first"], **CALL)
async def pipeline(page: Page) -> Next | End:
    """One call; the cursor says what comes next."""
    run, left = page.run, page.cursor
    if left is None:
        return await _chart(run)
    if left["words"]:
        word, more = left["words"][0], left["words"][1:]
        found = await client.search(word)
        search.searched(run, word, found, run.now)
        seen = dict.fromkeys([*left["seen"], *(each.track_id for each in found)])
        return Next(cursor={**left, "words": more, "seen": list(seen)})
    size = settings().lookup
    if left["seen"] and left["lookups"]:
        ids = left["seen"][:size]
        feed.save(run, ids, await client.lookup(ids), run.now)
        fewer = {"seen": left["seen"][size:], "lookups": left["lookups"] - 1}
        return Next(cursor={**left, **fewer})
    return _conclude(run)


async def _chart(run: Any) -> Next:
    due = gaps.next_category(run.read, run.now, order(0))
    collection, category = (due.collection, due.id) if due else FALLBACK
    found = await client.chart(collection, category)
    charts.charted(run, collection, category, found, run.now)
    terms = common(each.track_name for each in found)
    return Next(cursor={"words": terms, "seen": [], "lookups": LOOKUPS})


def common(titles: Iterable[str]) -> list[str]:
    """Pairs around the words that most titles share: they find the same apps, and so belong together."""
    counts = Counter(term for title in titles for term in keywords.of_titles([title]))
    ranked = sorted(counts, key=lambda term: (-counts[term], term))
    found: list[str] = []
    for word in [term for term in ranked if " " not in term][:THEMES]:
        pairs = [term for term in ranked if len(parts := term.split()) == PAIR and word in parts]
        found += pairs[: SEARCHES // THEMES]
    return list(dict.fromkeys(found))


def _conclude(run: Any) -> End:
    """Score and group what there is; everything that was looked up is committed already."""
    score_waiting(run, run.now)
    feed.wake(run)
    run.enqueue(cluster.using(key="first", delay="10s"))
    return End()
