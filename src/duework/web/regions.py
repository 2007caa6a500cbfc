"""Regions of a page: which there are, how often they are sent, and how they are cut out by their ids."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html.parser import HTMLParser

_VOID = frozenset("area base br col embed hr img input link meta source wbr".split())  # noqa: SIM905


# What stands on every page, by the least seconds between two sendings; None goes along with others.
SHELL: dict[str, float | None] = {"nav-": 2.0, "zone": None}
JOBS = frozenset({"jobs", "paces"})


@dataclass(frozen=True, slots=True)
class Regions:
    """Least seconds between two sendings by id, or by how an id begins; None goes along with others."""

    topics: frozenset[str]
    seconds: Mapping[str, float | None]

    def name(self, identifier: str) -> str | None:
        if identifier in self.seconds:
            return identifier
        start = identifier.partition("-")[0] + "-"
        return start if start in self.seconds else None

    def interval(self, identifier: str) -> float | None:
        return self.seconds[self.name(identifier) or identifier]

    @property
    def least(self) -> float:
        return min(each for each in self.seconds.values() if each is not None)


def regions(*topics: str, **seconds: float) -> Regions:
    """Those of a page besides what stands on every one; it changes with jobs, too."""
    return Regions(JOBS | set(topics), {"verdict": 1.0, **seconds, **SHELL})


def cut(html: str, wanted: Callable[[str], bool]) -> dict[str, str]:
    """The elements whose ids are wanted, whole; one that is not there is left out."""
    return _Elements(html, wanted).found


class _Elements(HTMLParser):
    def __init__(self, html: str, wanted: Callable[[str], bool]) -> None:
        super().__init__(convert_charrefs=False)
        self.found: dict[str, str] = {}
        self._html = html
        self._wanted = wanted
        self._starts = [0]
        for line in html.split("\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._open: list[tuple[str, str | None, int]] = []
        self.feed(html)
        self.close()

    def _place(self) -> int:
        line, column = self.getpos()
        return self._starts[line - 1] + column

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _VOID:
            named = dict(attrs).get("id")
            known = named if named is not None and self._wanted(named) else None
            self._open.append((tag, known, self._place()))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element without content."""

    def handle_endtag(self, tag: str) -> None:
        if tag not in {opened for opened, _, _ in self._open}:
            return
        # What was left open inside ends with it.
        opened, named, start = self._open.pop()
        while opened != tag:
            opened, named, start = self._open.pop()
        if named is not None:
            end = self._html.index(">", self._place()) + 1
            self.found.setdefault(named, self._html[start:end])
