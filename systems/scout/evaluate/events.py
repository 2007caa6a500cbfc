"""The events between the stages: ids alone, a few kilobytes each, published with what they tell of.

    app-enriched        {track_ids}     enrich has learned something about apps
    rankings-updated    {keywords}      other apps are found for keywords, or an app that is found has changed
    clusters-ready      {cluster_ids}   clusters were made, or the demand for them has changed
    fragmentation-done  {cluster_ids}   competition and fragmentation of clusters are known

Nothing is published where there is nothing to tell.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from systems.scout import chunks

ENRICHED, RANKED = "app-enriched", "rankings-updated"
READY, FRAGMENTED = "clusters-ready", "fragmentation-done"
# Ids of one event, so that it stays below ten kilobytes; keywords are long at times.
MOST_APPS, MOST_KEYWORDS, MOST_CLUSTERS = 500, 100, 200
LONGEST = 64


class Apps(msgspec.Struct):
    track_ids: list[int]


class Keywords(msgspec.Struct):
    keywords: list[str]


class Clusters(msgspec.Struct):
    cluster_ids: list[str]


def enriched(to: Any, track_ids: Iterable[int]) -> None:
    for some in chunks.of(sorted(set(track_ids)), MOST_APPS):
        to.publish(ENRICHED, {"track_ids": some})


def ranked(to: Any, keywords: Iterable[str]) -> None:
    found = sorted(set(keywords))
    for some in chunks.of([each for each in found if len(each) <= LONGEST], MOST_KEYWORDS):
        to.publish(RANKED, {"keywords": some})
    for each in found:
        if len(each) > LONGEST:
            to.publish(RANKED, {"keywords": [each]})


def ready(to: Any, cluster_ids: Iterable[str]) -> None:
    for some in chunks.of(cluster_ids, MOST_CLUSTERS):
        to.publish(READY, {"cluster_ids": some})


def fragmented(to: Any, cluster_ids: Iterable[str]) -> None:
    for some in chunks.of(cluster_ids, MOST_CLUSTERS):
        to.publish(FRAGMENTED, {"cluster_ids": some})
