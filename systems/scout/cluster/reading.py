"""What a run reads: rankings, scored apps and the clusters of the last run, page by page.

A process of its own gets its rows over a pipe; a page is about a megabyte, and begins where the last ended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from systems.scout.cluster.graph import Edge
from systems.scout.cluster.identity import Known
from systems.scout.evaluate.markets import Member, member

Read = Callable[..., list[Any]]

PAGE = 20_000
LOWEST_RANK = 15

RANKINGS = (
    "select r.keyword, r.track_id, r.rank, r.crawled_at from scout_ranking r"
    " join scout_app a on a.track_id = r.track_id"
    " where (r.keyword, r.track_id) > (:word, :app) and r.rank <= :lowest"
    " and a.competitiveness_score is not null order by r.keyword, r.track_id limit :most"
)
APPS = (
    "select track_id, rating_count, average_rating, competitiveness_score, updated_date"
    " from scout_app where track_id > :after and competitiveness_score is not null"
    " order by track_id limit :most"
)
CLUSTER_APPS = (
    "select cluster, track_id from scout_cluster_app"
    " where (cluster, track_id) > (:cluster, :app) order by cluster, track_id limit :most"
)
CLUSTER_KEYWORDS = (
    "select cluster, keyword from scout_cluster_keyword"
    " where (cluster, keyword) > (:cluster, :word) order by cluster, keyword limit :most"
)


@dataclass
class Rankings:
    """A stream of rankings, which notes when each keyword was searched for and how many there were."""

    read: Read
    searched: dict[str, int] = field(default_factory=dict)
    count: int = 0

    def __iter__(self) -> Iterator[Edge]:
        word, app = "", -1
        while rows := self.read(RANKINGS, word=word, app=app, lowest=LOWEST_RANK, most=PAGE):
            for row in rows:
                self.searched[row.keyword] = row.crawled_at
                yield row.keyword, row.track_id, row.rank
            self.count += len(rows)
            word, app = rows[-1].keyword, rows[-1].track_id


def members(read: Read, wanted: set[int], now: int) -> dict[int, Member]:
    """The apps that were scored, of those that are wanted."""
    found: dict[int, Member] = {}
    after = -1
    while rows := read(APPS, after=after, most=PAGE):
        found.update((row.track_id, member(row, now)) for row in rows if row.track_id in wanted)
        after = rows[-1].track_id
    return found


def known(read: Read) -> Known:
    """The clusters as they are stored."""
    names = {row.id: row.name for row in read("select id, name from scout_cluster order by id")}
    found = Known(names)
    cluster, app = "", -1
    while rows := read(CLUSTER_APPS, cluster=cluster, app=app, most=PAGE):
        found.apps.update((row.track_id, row.cluster) for row in rows if row.cluster in names)
        cluster, app = rows[-1].cluster, rows[-1].track_id
    cluster, word = "", ""
    while rows := read(CLUSTER_KEYWORDS, cluster=cluster, word=word, most=PAGE):
        found.words.update((row.keyword, row.cluster) for row in rows if row.cluster in names)
        cluster, word = rows[-1].cluster, rows[-1].keyword
    return found


def states(read: Read) -> dict[str, Any]:
    """Hash, boost and age of each cluster."""
    rows = read("select cluster, members, hot, born_at from scout_cluster_state")
    return {row.cluster: row for row in rows}


def mean_search(words: list[str], searched: dict[str, int]) -> tuple[int, int]:
    """The sum of the times at which these were searched for, and how many they are."""
    times = [searched[word] for word in words if word in searched]
    return sum(times), len(times)


def by_label(labels: list[int]) -> dict[int, list[int]]:
    """The nodes of each label."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for node, label in enumerate(labels):
        found[label].append(node)
    return found
