"""Mailroom: mail of many tenants through a provider that accepts first and sends later.

duework run systems.mailroom:app --web
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from systems.mailroom import cli, keeping, outbox, pages, routes, tenant
from systems.mailroom.hooks import incoming, outgoing
from systems.mailroom.part import part
from systems.mailroom.seed import promises, seed

if TYPE_CHECKING:
    from duework import App

    app: App

__all__ = [
    "app",
    "cli",
    "incoming",
    "keeping",
    "outbox",
    "outgoing",
    "pages",
    "part",
    "promises",
    "routes",
    "seed",
    "tenant",
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
