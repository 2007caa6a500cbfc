"""Groups and their identity, pure: the same each time, recognised when some of the data have changed."""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import pytest

from systems.scout.cluster import graph as graphs
from systems.scout.cluster import identity, making
from systems.scout.cluster.graph import Edge
from systems.scout.cluster.identity import Known, Lineage
from systems.scout.evaluate.markets import Member

NOW = 1_772_366_460_000


def niches(count: int, size: int, *, changed: float = 0.0, seed: int = 1) -> list[Edge]:
    """Keywords of so many niches, of which each finds apps of its own, and some of others."""
    draw, other = random.Random(seed), random.Random(7 + seed)  # noqa: S311 - repeatable
    edges = []
    for number in range(count * size):
        niche, found = number % count, set[int]()
        while len(found) < 12:
            near = (niche + 1) % count if draw.random() < 0.1 else niche
            far = draw.random() < 0.1
            found.add(
                draw.randrange(count * 100) if far else near * 100 + int(100 * draw.random() ** 2)
            )
        for rank, app in enumerate(sorted(found, key=lambda _: draw.random()), start=1):
            swapped = other.random() < changed
            edges.append(
                (f"word {number:05d}", other.randrange(count * 100) if swapped else app, rank)
            )
    return list({(word, app): (word, app, rank) for word, app, rank in edges}.values())


def made(edges: list[Edge], before: Known, now: int = NOW) -> making.Made:
    graph = graphs.build(edges)
    members = {app: Member(app, 100, 4.0, 50.0, 10) for app in graph.apps}
    return making.make(graph, members, {}, before, now)


def known(found: making.Made) -> Known:
    """What the next run knows of this one."""
    return Known(
        {each.id: each.name for each in found.clusters},
        {word: each.id for each in found.clusters for word in each.words},
        {app: each.id for each in found.clusters for app in each.apps},
    )


@pytest.mark.rows("001-T23")
def test_niches_are_found_whatever_the_order_of_rankings() -> None:
    edges = niches(12, 30)
    found = made(edges, Known())
    pure = sum(
        Counter(int(word[5:]) % 12 for word in each.words).most_common(1)[0][1]
        for each in found.clusters
    )
    assert pure > 0.95 * 360
    assert 10 <= len(found.clusters) <= 16
    random.Random(3).shuffle(edges)  # noqa: S311 - repeatable
    assert made(edges, Known()) == found


@pytest.mark.rows("001-136")
def test_clusters_keep_their_identity_when_a_twentieth_of_the_rankings_has_changed() -> None:
    found = made(niches(12, 30), Known())
    before = known(found)
    names = {each.id: each.name for each in found.clusters}
    for run in (1, 2, 3):
        later = made(niches(12, 30, changed=0.05, seed=1 + run // 2), before, NOW + run)
        kept = {each.id for each in later.clusters} & names.keys()
        assert len(kept) >= 0.9 * len(names)
        words = {word: each.id for each in later.clusters for word in each.words}
        same = sum(words.get(word) == id_ for word, id_ in before.words.items())
        assert same > 0.9 * len(before.words)
        assert all(each.name == names[each.id] for each in later.clusters if each.id in kept)
        before, names = known(later), {each.id: each.name for each in later.clusters}


@pytest.mark.rows("001-136")
def test_no_keyword_and_no_app_is_in_two_clusters_and_neighbours_are_known() -> None:
    found = made(niches(6, 20), Known())
    words = Counter(word for each in found.clusters for word in each.words)
    apps = Counter(app for each in found.clusters for app in each.apps)
    assert max(words.values()) == max(apps.values()) == 1
    ids = {each.id for each in found.clusters}
    assert len(ids) == len(found.clusters)
    for each in found.clusters:
        shares = [share for _, share in each.near]
        assert shares == sorted(shares, reverse=True)
        assert 0 < len(shares) <= making.NEIGHBOURS
        assert {other for other, _ in each.near} <= ids - {each.id}


A, B = "a" * 12, "b" * 12


def before(**clusters: tuple[str, str]) -> Known:
    """`before(A=("x y", "1 2"))`: what clusters had."""
    known = Known()
    for id_, (words, apps) in clusters.items():
        known.names[id_] = words.split()[0]
        known.words |= dict.fromkeys(words.split(), id_)
        known.apps |= dict.fromkeys(map(int, apps.split()), id_)
    return known


def groups(*given: tuple[str, str]) -> list[identity.Group]:
    return [(words.split(), [int(app) for app in apps.split()]) for words, apps in given]


@pytest.mark.rows("001-136")
@pytest.mark.parametrize(
    ("had", "has", "old", "events"),
    [
        ({"A": ("x y z", "1 2 3")}, [("x y z", "1 2 4")], ["A"], []),
        ({"A": ("x y z", "1 2 3")}, [("p q", "7 8 9")], [None], ["born", "ended"]),
        (
            {"A": ("v w x y z", "1 2 3 4 5")},
            [("v w x", "1 2 3"), ("y z", "4 5")],
            ["A", None],
            ["split"],
        ),
        (
            {"A": ("x y z", "1 2 3"), "B": ("p", "7")},
            [("x y z p", "1 2 3 7")],
            ["A"],
            ["merged"],
        ),
        ({}, [("x y", "1 2 3")], [None], ["born"]),
        ({"A": ("x y", "1 2 3")}, [], [], ["ended"]),
    ],
)
def test_a_cluster_goes_on_splits_merges_is_born_or_ends(
    had: dict[str, tuple[str, str]],
    has: list[tuple[str, str]],
    old: list[str | None],
    events: list[str],
) -> None:
    found = identity.match(groups(*has), before(**had))
    assert found.old == old
    ids = [each or f"new{at}" for at, each in enumerate(found.old)]
    lines = identity.history(ids, found)
    assert [each.event for each in lines] == events
    for each in lines:
        assert (each.other == "A") == (each.event in {"split", "merged"})


@pytest.mark.rows("001-136")
def test_a_name_that_comes_back_has_its_id_and_two_of_one_name_are_two() -> None:
    first = identity.new_id("sleep", [], NOW)
    assert identity.new_id("sleep", [], NOW + 9) == first
    second = identity.new_id("sleep", [first], NOW)
    assert second != first
    lines = identity.history([first], identity.match(groups(("x", "1")), Known()))
    assert lines == [Lineage(first, "born", "", 0.0)]
    counts = defaultdict(int, {"sleep": 3, "sleep sounds": 3, "rest": 9})
    assert identity.name_of(["sleep", "sleep sounds"], counts) == "sleep sounds"
    assert identity.name_of(["sleep", "rest"], counts, "sleep") == "sleep"
    assert identity.name_of(["sleep", "rest"], counts, "gone") == "rest"
    assert identity.digest(["a", "b"], [2, 1]) == identity.digest(["b", "a"], [1, 2])
    assert identity.digest(["a"], [1]) != identity.digest(["a"], [1, 2])


@pytest.mark.rows("001-T23")
def test_labels_only_ever_raise_the_quality_and_nothing_is_a_graph_too() -> None:
    graph = graphs.build(niches(8, 20))
    alone = list(range(len(graph.words)))
    begun = graphs.quality(graph, alone, [-1] * len(graph.apps))
    found = graphs.partition(graph)
    assert found.quality > 0.3 > begun
    again = graphs.partition(graph, dict(zip(graph.words, found.words, strict=True)))
    assert again.quality >= found.quality - 1e-9
    assert graphs.partition(graphs.build([])).quality == 0.0
