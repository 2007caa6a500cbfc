"""The lines of the table of addresses, and how those are found that stand in modules of their own.

A module in `web/machine/` or `web/shapes/` has a list `PAGES`; its pages are there because the file is.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from duework.web.regions import Regions
from duework.web.visits import Handler

if TYPE_CHECKING:
    from duework.health.needs import Need

FOLDERS = ("duework.web.machine", "duework.web.shapes")
# The groups of the side bar, in this order; one that is not named here goes before the last.
GROUPS = ("", "Work", "Outside", "State", "Machine")


@dataclass(frozen=True, slots=True)
class NavItem:
    """A line of the side bar; `needs` says what it counts, in words of `app.needs()`."""

    title: str
    icon: str
    group: str = ""
    # The letter that leads there after "g".
    key: str = ""
    place: int = 50
    needs: tuple[str, ...] = ()


# The pages that are no module's.
FIRST = [
    ("/", NavItem("Overview", "overview", key="o", place=0)),
    ("/jobs", NavItem("Jobs", "jobs", key="j", place=1)),
]


@dataclass(frozen=True, slots=True)
class OwnPage:
    """An address, what answers, the scope that it needs, and how it is asked."""

    path: str
    answer: Handler
    scope: str = "read"
    method: str = "GET"
    # How it changes by itself; None if it does not.
    live: Regions | None = None
    nav: NavItem | None = None


@dataclass(frozen=True, slots=True)
class NavGroup:
    """A part of the side bar: its name, and lines of (path, item)."""

    name: str
    items: list[tuple[str, NavItem]]


@lru_cache(maxsize=1)
def found_pages() -> tuple[OwnPage, ...]:
    """The pages of the engine and of the shapes."""
    names = [
        f"{folder}.{each.name}"
        for folder in FOLDERS
        for each in pkgutil.iter_modules(importlib.import_module(folder).__path__)
    ]
    modules = [importlib.import_module(name) for name in sorted(names)]
    return tuple(page for module in modules for page in getattr(module, "PAGES", ()))


def navigation(pages: Iterable[OwnPage]) -> list[NavGroup]:
    """The side bar."""
    listed = [*FIRST, *((page.path, page.nav) for page in pages if page.nav is not None)]
    listed.sort(key=lambda each: each[1].place)
    others = dict.fromkeys(nav.group for _, nav in listed if nav.group not in GROUPS)
    order = [*GROUPS[:-1], *others, GROUPS[-1]]
    groups = [NavGroup(name, [each for each in listed if each[1].group == name]) for name in order]
    return [group for group in groups if group.items]


def asking(nav: NavItem, path: str, needs: Sequence[Need]) -> int:
    """How much of what a line is about needs somebody."""
    found = [need for need in needs if need.kind in nav.needs]
    if nav.needs[:1] != ("paused",):
        # Of two that have the same need, the one that is named in what to type next.
        found = [need for need in found if need.command.split()[1:2] == [path[1:]]]
    return sum(max(1, need.count) for need in found)
