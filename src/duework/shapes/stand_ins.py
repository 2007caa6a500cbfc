"""What a test puts in the place of other people's systems: outboxes and channels, by their names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from duework.errors import UsageError
from duework.shapes.deliveries.channels import Senders
from duework.shapes.deliveries.handle import DeliveryShape
from duework.shapes.outboxes.handle import OutboxShape
from duework.shapes.outboxes.runner import OutboxRunner
from duework.shapes.shape import Hooks


class StandIns:
    """Outboxes by name, and channels as `DELIVERY.CHANNEL`."""

    def __init__(
        self, outboxes: Mapping[str, Any], channels: Mapping[str, Callable[..., Any]]
    ) -> None:
        self._outboxes = outboxes
        self._channels = channels
        self._undo: list[Callable[[], None]] = []

    def take_place(self, shapes: Sequence[Hooks]) -> None:
        """Be called from now on, all or none of them."""
        runners = {each.name: each.runner for each in shapes if isinstance(each, OutboxShape)}
        senders = {
            task: (each.senders, channel)
            for each in shapes
            if isinstance(each, DeliveryShape)
            for task, channel in each.names.items()
        }
        _check("outbox", self._outboxes, runners)
        _check("channel", self._channels, senders)
        for name, fake in self._outboxes.items():
            if not callable(getattr(fake, "submit", None)):
                raise UsageError(f"outbox {name}: {fake!r:.100} has no method submit(message, key)")
        for name, fake in self._channels.items():
            if not callable(fake):
                raise UsageError(f"channel {name}: {fake!r:.100} cannot be called")
        for name, fake in self._outboxes.items():
            self._set(runners[name], "stand_in", fake)
        for name, fake in self._channels.items():
            sending, channel = senders[name]
            self._set(sending, "stand_ins", {**sending.stand_ins, channel: fake})

    def give_back(self) -> None:
        """Let the others be called again, as it was before."""
        while self._undo:
            self._undo.pop()()

    def _set(self, place: OutboxRunner | Senders, name: str, value: Any) -> None:
        self._undo.append(partial(setattr, place, name, getattr(place, name)))
        setattr(place, name, value)


def _check(what: str, given: Iterable[str], known: Iterable[str]) -> None:
    if unknown := sorted(set(given).difference(known)):
        there = ", ".join(sorted(known)) or "none"
        raise UsageError(f"there is no {what} {', '.join(unknown)}; there are: {there}")
