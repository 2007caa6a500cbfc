"""Ten apps through all five stages, by one button, to see a stage that makes nothing before the crawl begins.

One chart is read for its theme and four keywords are searched for; of what they find, only the apps that most
of them share are stored, looked up, scored, grouped and debated. Nothing else comes in.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from duework import Cancel, Chain, End, Next, Page, UsageError
from systems.scout import client, first, store
from systems.scout.cluster import cluster
from systems.scout.crawl import categories
from systems.scout.enrich import feed
from systems.scout.evaluate import events
from systems.scout.part import APPLE, CALL, ORDER, part

TEN, FEWEST, MOST = 10, 3, 200
WORDS = 4


def start(apps: int = TEN) -> Chain:
    """Begin it; one that is under way already goes on."""
    if not FEWEST <= apps <= MOST:
        raise UsageError(f"a trial takes {FEWEST} to {MOST} apps")
    with part.app.transaction() as tx:
        categories.add(tx)
        chain: Chain = tx.start(trial, apps=apps)
        return chain


@part.chain(key="trial", pace=APPLE, priority=ORDER["first"], **CALL)
async def trial(page: Page, apps: int) -> Next | End | Cancel:
    """One call; the cursor has what was found so far."""
    run, found = page.run, page.cursor
    if found is None:
        titles = [each.track_name for each in await client.chart(*first.FALLBACK)]
        words = first.common(titles)[:WORDS]
        return Next(cursor={"words": words, "ranks": {}})
    ranks: dict[str, list[int]] = found["ranks"]
    left = [word for word in found["words"] if word not in ranks]
    if left:
        ids = [each.track_id for each in await client.search(left[0])]
        return Next(cursor={**found, "ranks": {**ranks, left[0]: ids}})
    ids = chosen(ranks, apps)
    if not ids:
        return Cancel("the chart suggests no keyword that finds an app")
    keep(run, ranks, ids, await client.lookup(ids))
    run.enqueue(cluster.using(key="trial", delay="10s"))
    return End(counts={"apps": len(ids)})


def chosen(ranks: dict[str, list[int]], apps: int) -> list[int]:
    """The apps that most keywords find; of equals the better placed."""
    counts = Counter(id_ for ids in ranks.values() for id_ in ids)
    return sorted(counts, key=lambda id_: -counts[id_])[:apps]


def keep(
    run: Any, ranks: dict[str, list[int]], ids: list[int], looked: dict[int, client.Found]
) -> None:
    """Store these apps alone, with their places, as looked up."""
    now = run.now
    known = {id_: looked.get(id_) or client.Found(track_id=id_) for id_ in ids}
    store.apps(run, list(known.values()), now, by="search")
    store.keywords(run, ranks, now, source="trial", priority=first.SEARCHES)
    for word, found in ranks.items():
        store.rankings(run, word, [known[id_] for id_ in found if id_ in known], now)
    feed.save(run, ids, looked, now)
    events.ranked(run, ranks)
