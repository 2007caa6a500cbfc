"""Communities of keywords and apps: a graph with two sides, and labels that raise its modularity.

Weights are whole numbers, so that the same rankings give the same groups in whatever order they come. One
side is labelled while the other stands still, in turns: each node takes the label that its neighbours give
most weight to, less what chance would give to a group of that size. When no turn changes much, whole groups
are moved in the same way, and the turns begin again. Pure Python and arrays: 2.8 million rankings take some
minutes and less than a gigabyte.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

# A keyword, an app, and its rank there.
Edge = tuple[str, int, int]

# The first place is worth more than the second, but two of them more than the first.
SCALE, EVEN = 5040, 5
# Chance is that of all rankings together, or of so much weight if there are more: a market does not grow
# because others are known. It is what about 2,000 keywords with fifteen apps each have.
CROWD = 13_000_000
# And of so much at least: a few keywords that belong together are one group though there is no other.
FEW = 150_000
ROUNDS, LEVELS = 12, 6
# A turn that changes fewer than one of so many labels is the last.
STILL = 2000
# New groups take the place of those that grew from the last run only if they are so much better.
CLEARLY = 1.02


@dataclass(frozen=True)
class Side:
    """One side of the graph: the neighbours of each node one after the other, with their weights."""

    start: array[int]
    others: array[int]
    weights: array[int]
    strength: array[int]

    def __len__(self) -> int:
        return len(self.strength)

    def of(self, node: int) -> Iterator[tuple[int, int]]:
        """Neighbours and weights."""
        begin, end = self.start[node], self.start[node + 1]
        return zip(self.others[begin:end], self.weights[begin:end], strict=True)


@dataclass(frozen=True)
class Graph:
    """Keywords and apps in their order, and who is found where."""

    words: list[str]
    apps: list[int]
    by_word: Side
    by_app: Side
    total: int

    @property
    def crowd(self) -> int:
        """The weight that chance is measured by."""
        return max(FEW, min(self.total, CROWD))


@dataclass(frozen=True)
class Partition:
    """A label for every keyword and every app, and how good that is."""

    words: list[int]
    apps: list[int]
    quality: float


def weight(rank: int) -> int:
    """What a place is worth."""
    return SCALE // (rank + EVEN)


def build(edges: Iterable[Edge]) -> Graph:
    """The graph of these rankings; the order in which they come makes no difference."""
    word_ids: dict[str, int] = {}
    app_ids: dict[int, int] = {}
    left, right, weights = array("i"), array("i"), array("i")
    for word, app, rank in edges:
        left.append(word_ids.setdefault(word, len(word_ids)))
        right.append(app_ids.setdefault(app, len(app_ids)))
        weights.append(weight(rank))
    words, apps = sorted(word_ids), sorted(app_ids)
    _renumber(left, [word_ids[each] for each in words])
    _renumber(right, [app_ids[each] for each in apps])
    by_word = _side(len(words), left, right, weights)
    by_app = _side(len(apps), right, left, weights)
    return Graph(words, apps, by_word, by_app, sum(weights))


def _renumber(nodes: array[int], order: Sequence[int]) -> None:
    places = array("i", bytes(4 * len(order)))
    for place, node in enumerate(order):
        places[node] = place
    for at, node in enumerate(nodes):
        nodes[at] = places[node]


def _side(count: int, nodes: array[int], others: array[int], weights: array[int]) -> Side:
    start, strength = array("i", bytes(4 * (count + 1))), array("q", bytes(8 * count))
    for node, value in zip(nodes, weights, strict=True):
        start[node + 1] += 1
        strength[node] += value
    for node in range(count):
        start[node + 1] += start[node]
    free = start[:-1]
    neighbours, theirs = array("i", bytes(4 * len(nodes))), array("i", bytes(4 * len(nodes)))
    for node, other, value in zip(nodes, others, weights, strict=True):
        at = free[node]
        neighbours[at], theirs[at], free[node] = other, value, at + 1
    return Side(start, neighbours, theirs, strength)


def partition(graph: Graph, before: Mapping[str, int] | None = None) -> Partition:
    """The best labels; those of the last run, brought up to date, unless new ones are clearly better."""
    fresh = improve(graph, list(range(len(graph.words))))
    if not before:
        return fresh
    kept = improve(graph, _labels_from(graph, before))
    return fresh if fresh.quality > CLEARLY * kept.quality else kept


def _labels_from(graph: Graph, before: Mapping[str, int]) -> list[int]:
    """The labels of the last run as small numbers; a new keyword has one of its own."""
    known: dict[int, int] = {}
    found = [
        known.setdefault(before[word], len(known)) if word in before else -1 for word in graph.words
    ]
    return [label if label >= 0 else len(known) + at for at, label in enumerate(found)]


def improve(graph: Graph, words: list[int]) -> Partition:
    """Labels in turns, then groups as a whole, until neither helps."""
    words, apps = _in_turns(graph, words)
    for _ in range(LEVELS):
        moved = _merged(graph, words, apps)
        if moved is None:
            break
        words, apps = _in_turns(graph, moved)
    return Partition(words, apps, quality(graph, words, apps))


def _in_turns(graph: Graph, words: list[int]) -> tuple[list[int], list[int]]:
    apps = _relabel(graph.by_app, graph.by_word.strength, words, graph.crowd)
    for _ in range(ROUNDS):
        newer = _relabel(graph.by_word, graph.by_app.strength, apps, graph.crowd)
        changed = sum(a != b for a, b in zip(words, newer, strict=True))
        words = newer
        apps = _relabel(graph.by_app, graph.by_word.strength, words, graph.crowd)
        if changed * STILL <= len(words):
            break
    return words, apps


def _relabel(side: Side, theirs: array[int], labels: Sequence[int], crowd: int) -> list[int]:
    """The best label for each node of a side, while the other side stands still."""
    sizes: defaultdict[int, int] = defaultdict(int)
    for label, value in zip(labels, theirs, strict=True):
        sizes[label] += value
    chance = {label: size / crowd for label, size in sizes.items()}
    others, weights, start, found = side.others, side.weights, side.start, []
    for node, strength in enumerate(side.strength):
        begin, end = start[node], start[node + 1]
        votes: dict[int, int] = {}
        for other, value in zip(others[begin:end], weights[begin:end], strict=True):
            label = labels[other]
            votes[label] = votes.get(label, 0) + value
        best, most = -1, 0.0
        for label, value in votes.items():
            gain = value - strength * chance[label]
            if best < 0 or gain > most or (gain == most and label < best):
                best, most = label, gain
        found.append(best)
    return found


def quality(graph: Graph, words: Sequence[int], apps: Sequence[int]) -> float:
    """The modularity: how much more weight is inside groups than chance would put there, from 0 to 1."""
    if not graph.total:
        return 0.0
    inside = 0
    left: defaultdict[int, int] = defaultdict(int)
    right: defaultdict[int, int] = defaultdict(int)
    for word, label in enumerate(words):
        left[label] += graph.by_word.strength[word]
        inside += sum(value for app, value in graph.by_word.of(word) if apps[app] == label)
    for app, label in enumerate(apps):
        right[label] += graph.by_app.strength[app]
    expected = sum(left[label] * right[label] for label in left) / graph.crowd
    return (inside - expected) / graph.total


# --- groups as a whole


def _merged(graph: Graph, words: Sequence[int], apps: Sequence[int]) -> list[int] | None:
    """The labels of keywords after groups have joined others; None if none has."""
    links = between(graph, words, apps)
    left: defaultdict[int, int] = defaultdict(int)
    right: defaultdict[int, int] = defaultdict(int)
    for word, label in enumerate(words):
        left[label] += graph.by_word.strength[word]
    for app, label in enumerate(apps):
        right[label] += graph.by_app.strength[app]
    group = _join(links, left, right, graph.crowd)
    if all(group[label] == label for label in group):
        return None
    return [group[label] for label in words]


def between(graph: Graph, words: Sequence[int], apps: Sequence[int]) -> dict[int, dict[int, int]]:
    """How much weight leads from each group to others."""
    links: defaultdict[int, defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))
    for word, label in enumerate(words):
        mine = links[label]
        for app, value in graph.by_word.of(word):
            if (other := apps[app]) != label:
                mine[other] += value
                links[other][label] += value
    return {label: dict(found) for label, found in links.items()}


def _join(
    links: Mapping[int, Mapping[int, int]],
    left: Mapping[int, int],
    right: Mapping[int, int],
    crowd: int,
) -> dict[int, int]:
    """Which group each group belongs to, once none gains by moving to a neighbour's."""
    group = {label: label for label in links}
    words, apps = dict(left), dict(right)
    for _ in range(ROUNDS):
        moves = 0
        for label in sorted(links):
            votes: dict[int, int] = {}
            for other, value in links[label].items():
                votes[group[other]] = votes.get(group[other], 0) + value
            mine, here = (left.get(label, 0), right.get(label, 0)), group[label]
            words[here] = words.get(here, 0) - mine[0]
            apps[here] = apps.get(here, 0) - mine[1]
            best, most = here, _gain(votes.get(here, 0), mine, words[here], apps[here], crowd)
            for other in sorted(votes):
                gain = _gain(votes[other], mine, words.get(other, 0), apps.get(other, 0), crowd)
                if gain > most:
                    best, most = other, gain
            words[best] = words.get(best, 0) + mine[0]
            apps[best] = apps.get(best, 0) + mine[1]
            moves += best != here
            group[label] = best
        if not moves:
            break
    return group


def _gain(links: int, mine: tuple[int, int], words: int, apps: int, crowd: int) -> float:
    return links - (mine[0] * apps + mine[1] * words) / crowd
