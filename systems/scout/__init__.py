"""Scout: finds apps, learns about them, scores and groups them, and says where an opportunity is.

duework run systems.scout:app --web
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from systems.scout import cli, cluster, first, pages, routes, upkeep
from systems.scout.crawl import cycle
from systems.scout.desk import acts, commands
from systems.scout.economy import faces as costs
from systems.scout.opportunity import faces as debates
from systems.scout.part import part
from systems.scout.reading import opportunities
from systems.scout.seed import promises, seed

if TYPE_CHECKING:
    from duework import App

    app: App

__all__ = [
    "acts",
    "app",
    "cli",
    "cluster",
    "commands",
    "costs",
    "cycle",
    "debates",
    "first",
    "opportunities",
    "pages",
    "part",
    "promises",
    "routes",
    "seed",
    "upkeep",
]


def __getattr__(name: str) -> Any:
    """`app` is made when it is asked for: where others include the part, it is theirs."""
    if name != "app":
        raise AttributeError(name)
    from duework import App

    made = App()
    made.include(part)
    globals()["app"] = made
    return made
