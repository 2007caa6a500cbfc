"""Which apps have a word, and which are in a genre, the best known first; a few bytes for each app.

Apps of the same theme, choice of words and addition have the same words but for their first one: they are a
group. A search chooses groups and takes the first apps of each: it takes about as long in a million apps as
in a thousand.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from heapq import nsmallest

from systems.twins.apple.making import ADDED, CHOICES, added, brand_words, chosen, traits
from systems.twins.apple.vocabulary import THEMES

# A theme, a choice of its words, and what the title adds.
Group = tuple[int, int, int]


class Index:
    """Grows with the catalogue; nothing is ever taken out."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._size = 0
        self._ratings = array("L")
        self._groups: dict[Group, list[int]] = defaultdict(list)
        self._brands: dict[str, list[int]] = defaultdict(list)
        self._group_of: list[Group] = []
        self._brand_of = array("L")
        # By genre and whether it costs something.
        self._genres: dict[tuple[int, bool], list[int]] = defaultdict(list)
        self._all: dict[bool, list[int]] = defaultdict(list)

    def grown(self, size: int) -> Index:
        """With all apps up to this number."""
        changed: dict[int, list[int]] = {}
        known: dict[Group, Group] = {}
        for number in range(self._size, size):
            found = traits(self._seed, number)
            group = (found.theme, found.choice, found.added)
            self._ratings.append(found.ratings)
            self._group_of.append(known.setdefault(group, group))
            self._brand_of.append(found.brand)
            genre = THEMES[found.theme][0]
            lists = [self._groups[group], self._all[found.paid]]
            lists += [self._brands[word] for word in brand_words(found.brand)]
            lists += [self._genres[each, found.paid] for each in (genre, found.second)]
            for each in lists:
                each.append(number)
                changed[id(each)] = each
        for each in changed.values():
            each.sort(key=self._fame)
        self._size = max(self._size, size)
        return self

    def _fame(self, number: int) -> tuple[int, int]:
        return -self._ratings[number], number

    def search(self, asked: Sequence[str], most: int) -> list[int]:
        """Numbers of apps that have all of these words, those with more of them in the title first."""
        found: dict[int, list[int]] = defaultdict(list)
        for group in _with_all(self._seed, tuple(sorted(set(asked)))):
            if group in self._groups:
                title = _titled(self._seed, group, asked)
                found[title] += self._groups[group][:most]
        for number in self._branded(asked):
            found[self._in_title(number, asked)].append(number)
        best: list[int] = []
        for title in sorted(found, reverse=True):
            best += nsmallest(most, dict.fromkeys(found[title]), key=self._fame)
        return list(dict.fromkeys(best))[:most]

    def _branded(self, asked: Iterable[str]) -> list[int]:
        """Apps whose first word is one of these, and that have the others too."""
        lists = [self._brands[word] for word in asked if word in self._brands]
        shortest: list[int] = min(lists, key=len, default=[])
        wanted = set(asked)
        return [number for number in shortest if wanted <= self._words(number)]

    def _words(self, number: int) -> frozenset[str]:
        own = brand_words(self._brand_of[number])
        return _all_words(self._seed, self._group_of[number]) | set(own)

    def _in_title(self, number: int, asked: Iterable[str]) -> int:
        own = set(brand_words(self._brand_of[number]))
        shown = _title_words(self._seed, self._group_of[number]) | own
        return sum(word in shown for word in set(asked))

    def chart(self, genre: int | None, most: int | None, *, paid: bool | None) -> list[int]:
        """The best known apps of a genre, or of all, that cost something, or nothing, or either."""
        kinds = (False, True) if paid is None else (paid,)
        lists = [self._all[k] if genre is None else self._genres[genre, k] for k in kinds]
        found = [number for each in lists for number in each[:most]]
        return sorted(found, key=self._fame)[:most]


@lru_cache(maxsize=4096)
def _with_all(seed: int, asked: tuple[str, ...]) -> list[Group]:
    """The groups that have all of these words."""
    wanted = set(asked)
    return [
        (theme, choice, more)
        for theme, (_, text, _, _) in enumerate(THEMES)
        if wanted <= set(text.split())
        for choice in range(CHOICES)
        for more in range(-1, ADDED)
        if wanted <= _all_words(seed, (theme, choice, more))
    ]


def _titled(seed: int, group: Group, asked: Iterable[str]) -> int:
    shown = _title_words(seed, group)
    return sum(word in shown for word in set(asked))


@cache
def _title_words(seed: int, group: Group) -> frozenset[str]:
    theme, choice, more = group
    return frozenset((*chosen(seed, theme, choice)[:2], *added(seed, theme, more)))


@cache
def _all_words(seed: int, group: Group) -> frozenset[str]:
    theme, choice, _ = group
    return frozenset(chosen(seed, theme, choice)) | _title_words(seed, group)
