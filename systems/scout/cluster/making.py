"""From rankings to clusters with names, ids, scores and neighbours: pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from systems.scout.cluster import graph as graphs
from systems.scout.cluster import identity, reading
from systems.scout.cluster.graph import Edge, Graph, Partition
from systems.scout.cluster.identity import Group, Known, Lineage
from systems.scout.evaluate import markets

LEAST_APPS, LEAST_KEYWORDS = 3, 2
NEIGHBOURS = 5


@dataclass(frozen=True)
class Cluster:
    """One cluster of this run."""

    id: str
    name: str
    words: list[str]
    apps: list[int]
    parts: dict[str, float]
    inputs: dict[str, Any]
    # The inputs of each part, for the ledger.
    given: dict[str, dict[str, Any]]
    overlap: float
    # The nearest others, and the share of its weight that leads there.
    near: list[tuple[str, float]]

    @property
    def score(self) -> float:
        return self.parts["score"]


@dataclass(frozen=True)
class Made:
    """Everything that a run has found."""

    clusters: list[Cluster]
    history: list[Lineage]
    quality: float
    keywords: int


def communities(edges: Sequence[Edge]) -> list[Group]:
    """Groups of keywords and apps, the largest first; the same edges make the same groups."""
    graph = graphs.build(edges)
    return [group for _, group in groups(graph, graphs.partition(graph))]


def groups(graph: Graph, found: Partition) -> list[tuple[int, Group]]:
    """The groups that are large enough, with their labels, the largest first."""
    words, apps = reading.by_label(found.words), reading.by_label(found.apps)
    whole = [
        (label, ([graph.words[at] for at in mine], [graph.apps[at] for at in apps[label]]))
        for label, mine in words.items()
        if len(mine) >= LEAST_KEYWORDS and len(apps.get(label, ())) >= LEAST_APPS
    ]
    return sorted(whole, key=lambda each: (-len(each[1][1]), each[1][0]))


def make(
    graph: Graph,
    members: Mapping[int, markets.Member],
    searched: dict[str, int],
    before: Known,
    now: int,
) -> Made:
    """Group, recognise, name and score."""
    numbers = {id_: number for number, id_ in enumerate(sorted(before.names))}
    labels = {word: numbers[id_] for word, id_ in before.words.items()}
    found = graphs.partition(graph, labels)
    labelled = groups(graph, found)
    matched = identity.match([group for _, group in labelled], before)
    counts = _inside(graph, found)
    names = [
        identity.name_of(words, counts, before.names.get(old or ""))
        for (_, (words, _)), old in zip(labelled, matched.old, strict=True)
    ]
    ids = _ids(names, matched.old, now)
    near = _near(graph, found, {label: ids[at] for at, (label, _) in enumerate(labelled)})
    clusters = []
    for at, (_, (words, apps)) in enumerate(labelled):
        days = markets.mean_days(*reading.mean_search(words, searched), now)
        parts, inputs, given = markets.scores(
            [members[app] for app in apps if app in members], days
        )
        shown = (ids[at], names[at], words, apps, parts, inputs, given)
        clusters.append(Cluster(*shown, matched.overlap[at], near.get(ids[at], [])))
    return Made(clusters, identity.history(ids, matched), found.quality, len(graph.words))


def _inside(graph: Graph, found: Partition) -> dict[str, int]:
    """For each keyword how many of its apps are in its own group."""
    return {
        graph.words[word]: sum(found.apps[app] == label for app, _ in graph.by_word.of(word))
        for word, label in enumerate(found.words)
    }


def _ids(names: Sequence[str], old: Sequence[str | None], now: int) -> list[str]:
    taken = {each for each in old if each is not None}
    ids = []
    for name, known in zip(names, old, strict=True):
        ids.append(known or identity.new_id(name, taken, now))
        taken.add(ids[-1])
    return ids


def _near(
    graph: Graph, found: Partition, ids: Mapping[int, str]
) -> dict[str, list[tuple[str, float]]]:
    """The groups that share most with each."""
    weights = dict.fromkeys(ids, 0)
    for word, label in enumerate(found.words):
        if label in weights:
            weights[label] += graph.by_word.strength[word]
    near: dict[str, list[tuple[str, float]]] = {}
    for label, links in graphs.between(graph, found.words, found.apps).items():
        if label not in ids:
            continue
        best = sorted(
            ((value, other) for other, value in links.items() if other in ids),
            key=lambda each: (-each[0], ids[each[1]]),
        )[:NEIGHBOURS]
        near[ids[label]] = [
            (ids[other], round(value / (weights[label] + weights[other]), 4))
            for value, other in best
        ]
    return near
