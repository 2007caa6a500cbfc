"""Which of the new groups is which of the old clusters: by what they share, so that a cluster keeps its id.

A pair belongs together when they share at least 30 % of the keywords and apps of both; the best pairs first.
A group without an old cluster is split off, if half of it comes from one, or born; a cluster without a new
group is merged, if half of it went into one, or has ended.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

LEAST, MOSTLY = 0.3, 0.5

# Keywords and apps.
Group = tuple[list[str], list[int]]


@dataclass
class Known:
    """The clusters of the last run: their names, and which one keywords and apps were in."""

    names: dict[str, str] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    apps: dict[int, str] = field(default_factory=dict)

    def sizes(self) -> Counter[str]:
        return Counter(self.words.values()) + Counter(self.apps.values())


@dataclass(frozen=True)
class Lineage:
    """Something that happened to a cluster: born, split, merged, ended; from or into another."""

    cluster: str
    event: str
    other: str
    overlap: float


@dataclass(frozen=True)
class Matched:
    """For each new group the old cluster that it is, if any, and how much they share; the rest as history."""

    old: list[str | None]
    overlap: list[float]
    # For those that are new: the one that they come from, if any.
    parent: list[tuple[str, float] | None]
    # What became of clusters that no group is: the number of the group that has most of them, if any.
    gone: dict[str, tuple[int, float] | None]


def match(groups: Sequence[Group], known: Known) -> Matched:
    """Pair what is alike; the same groups in the same order give the same pairs."""
    sizes = known.sizes()
    shared = [_shared(each, known) for each in groups]
    pairs = sorted(
        (-count / (sizes[id_] + len(group[0]) + len(group[1]) - count), id_, number)
        for number, (group, found) in enumerate(zip(groups, shared, strict=True))
        for id_, count in found.items()
    )
    old: list[str | None] = [None] * len(groups)
    overlap, taken = [0.0] * len(groups), set[str]()
    for less, id_, number in pairs:
        if -less >= LEAST and old[number] is None and id_ not in taken:
            old[number], overlap[number] = id_, -less
            taken.add(id_)
    parent = [
        None if old[number] is not None else _parent(group, found)
        for number, (group, found) in enumerate(zip(groups, shared, strict=True))
    ]
    gone = {id_: _heir(id_, sizes[id_], shared) for id_ in sorted(known.names) if id_ not in taken}
    return Matched(old, overlap, parent, gone)


def _shared(group: Group, known: Known) -> Counter[str]:
    found = Counter(known.words[word] for word in group[0] if word in known.words)
    found.update(known.apps[app] for app in group[1] if app in known.apps)
    return found


def _parent(group: Group, found: Counter[str]) -> tuple[str, float] | None:
    size = len(group[0]) + len(group[1])
    best = min(found, key=lambda id_: (-found[id_], id_), default=None)
    if best is None or found[best] < MOSTLY * size:
        return None
    return best, found[best] / size


def _heir(id_: str, size: int, shared: Sequence[Counter[str]]) -> tuple[int, float] | None:
    if not size or not shared:
        return None
    best = min(range(len(shared)), key=lambda number: (-shared[number][id_], number))
    share = shared[best][id_] / size
    return (best, share) if share >= MOSTLY else None


def new_id(name: str, taken: Iterable[str], at: int) -> str:
    """An id for a new cluster: of its name, so that one that comes back has it again."""
    plain = _hash(name)
    return plain if plain not in set(taken) else _hash(f"{name} {at}")


def history(ids: Sequence[str], found: Matched) -> list[Lineage]:
    """What is to be written down of this run: nothing of clusters that only went on."""
    lines = []
    for number, id_ in enumerate(ids):
        if found.old[number] is None:
            other, share = found.parent[number] or ("", 0.0)
            lines.append(Lineage(id_, "split" if other else "born", other, round(share, 4)))
    for id_, heir in found.gone.items():
        if id_ not in ids:
            into, share = (ids[heir[0]], heir[1]) if heir else ("", 0.0)
            lines.append(Lineage(id_, "merged" if into else "ended", into, round(share, 4)))
    return lines


def digest(words: Sequence[str], apps: Sequence[int]) -> str:
    """Whether two lists of members are the same."""
    text = "\n".join([*sorted(words), "", *map(str, sorted(apps))])
    return _hash(text)


def name_of(words: Iterable[str], counts: Mapping[str, int], before: str | None = None) -> str:
    """The keyword that finds most of the apps; of equals the longer. A name that still fits is kept."""
    listed = list(words)
    if before in set(listed):
        assert before is not None
        return before
    return min(listed, key=lambda word: (-counts[word], -len(word.split()), word))


def _hash(text: str) -> str:
    return hashlib.blake2s(text.encode(), digest_size=6).hexdigest()
