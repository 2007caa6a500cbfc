"""Twins: real servers on loopback that behave like the upstreams, fail on demand and keep books.

    with twins(h.clock, "resend", "hooks") as t:
        post_to(t.resend.url)
        assert t.resend.ledger.counts("key") == {"order-881": 1}

`python -m systems.twins --all` runs them for people who build clients.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

from systems.twins.acs import Acs
from systems.twins.apple import Apple
from systems.twins.chat import Chat
from systems.twins.discord import Discord
from systems.twins.github import GitHub
from systems.twins.hooks import Hooks
from systems.twins.kit.app import Twin
from systems.twins.kit.clock import Clock, Now
from systems.twins.kit.serve import Served
from systems.twins.resend import Resend
from systems.twins.smtp import Smtp
from systems.twins.strava import Strava
from systems.twins.telegram import Telegram

T = TypeVar("T", bound=Twin)

__all__ = [
    "KINDS",
    "Acs",
    "Apple",
    "Chat",
    "Discord",
    "GitHub",
    "Hooks",
    "Resend",
    "Smtp",
    "Strava",
    "Telegram",
    "Twin",
    "Twins",
    "twins",
]

KINDS: dict[str, type[Twin]] = {
    kind.name: kind
    for kind in (
        Hooks,
        GitHub,
        Discord,
        Telegram,
        Acs,
        Resend,
        Smtp,
        Strava,
        Apple,
        Chat,
    )
}


class Twins(Served):
    """Twins that are up, by their names."""

    def _the(self, kind: type[T]) -> T:
        for twin in self.all:
            if isinstance(twin, kind):
                return twin
        raise LookupError(f"{kind.name} was not asked for")

    @property
    def hooks(self) -> Hooks:
        return self._the(Hooks)

    @property
    def github(self) -> GitHub:
        return self._the(GitHub)

    @property
    def discord(self) -> Discord:
        return self._the(Discord)

    @property
    def telegram(self) -> Telegram:
        return self._the(Telegram)

    @property
    def acs(self) -> Acs:
        return self._the(Acs)

    @property
    def resend(self) -> Resend:
        return self._the(Resend)

    @property
    def smtp(self) -> Smtp:
        return self._the(Smtp)

    @property
    def strava(self) -> Strava:
        return self._the(Strava)

    @property
    def apple(self) -> Apple:
        return self._the(Apple)

    @property
    def chat(self) -> Chat:
        return self._the(Chat)


def twins(
    clock: Now | Clock | None,
    *names: str,
    seed: int = 0,
    https: Collection[str] = (),
    port: int = 0,
) -> Twins:
    """The named twins on this clock, to be used as a context; no name means all of them."""
    for name in (*names, *https):
        if name not in KINDS:
            raise ValueError(f"there is no twin {name!r}; there are {', '.join(KINDS)}")
    chosen = [KINDS[name](clock, seed=seed) for name in names or KINDS]
    return Twins(chosen, https=https, port=port)
