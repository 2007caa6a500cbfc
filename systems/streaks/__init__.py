"""Streaks: tells people each day whether their GitHub streak is safe, at their own hour.

`duework run systems.streaks:app` runs it alone; an App of several systems includes `part`.
"""

from __future__ import annotations

from typing import Any

from duework import App
from systems.streaks import accounts, channels, check, choose, cli, mine, pages, profile, routes
from systems.streaks.part import part
from systems.streaks.promises import Promise, promises
from systems.streaks.seed import seed

__all__ = [
    "Promise",
    "accounts",
    "app",
    "channels",
    "check",
    "choose",
    "cli",
    "mine",
    "pages",
    "part",
    "profile",
    "promises",
    "routes",
    "seed",
]

app: App
# How many people are checked at once by one worker.
PROCESSES = 8


def __getattr__(name: str) -> Any:
    """The App of this system alone, made when it is first asked for: others include the part."""
    if name != "app":
        raise AttributeError(name)
    made = App(processes=PROCESSES)
    made.include(part)
    globals()["app"] = made
    return made
