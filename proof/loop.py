"""An event loop whose time is a number and whose order is drawn from a seed.

Nothing waits: when nobody is ready, time jumps to the next timer. Whoever is ready runs in an order
that the seed decides, except that callbacks of one node keep their own order, as asyncio promises them.
A node is known by its context, so all that belongs to it can be held: for a while, as when its process
is stopped, or for good, as when it is killed.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import defaultdict
from contextvars import ContextVar
from typing import Any

# Whose callback runs; empty for the world around the nodes.
whose: ContextVar[str] = ContextVar("whose", default="")


class Stuck(Exception):
    """Nobody is ready and no timer is set: everybody waits for ever."""


class SimLoop(asyncio.BaseEventLoop):
    """Runs callbacks in virtual time; one thread, no input and no output."""

    # What the base class keeps: callbacks that may run, and timers as a heap.
    _ready: Any
    _scheduled: Any

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._virtual = 0.0
        self._order = random.Random(seed)
        # Callbacks of nodes that are held.
        self._held: dict[str, list[Any]] = {}
        self.steps = 0

    def time(self) -> float:
        return self._virtual

    def hold(self, name: str) -> None:
        """Let nothing of this node run until `release`."""
        self._held.setdefault(name, [])

    def release(self, name: str) -> None:
        self._ready.extend(self._held.pop(name, []))

    def release_all(self) -> None:
        for name in list(self._held):
            self.release(name)

    def add_reader(self, *_: Any) -> None:  # type: ignore[override]  # whatever it is called with
        """There is nothing to read here."""

    def remove_reader(self, *_: Any) -> bool:
        return False

    def _write_to_self(self) -> None:
        """Nobody sleeps in a selector."""

    def _process_events(self, _: Any) -> None:
        """There are none."""

    def _run_once(self) -> None:
        self._take_due()
        while not self._ready:
            while self._scheduled and self._scheduled[0].cancelled():
                heapq.heappop(self._scheduled)
            if not self._scheduled:
                raise Stuck("nobody is ready and no timer is set")
            self._virtual = max(self._virtual, self._scheduled[0].when())
            self._take_due()
        for handle in self._drawn():
            name = handle._context.get(whose, "")
            if name in self._held:
                self._held[name].append(handle)
            elif not handle.cancelled():
                self.steps += 1
                handle._run()

    def _take_due(self) -> None:
        while self._scheduled and self._scheduled[0].when() <= self._virtual:
            handle = heapq.heappop(self._scheduled)
            handle._scheduled = False
            if not handle.cancelled():
                self._ready.append(handle)

    def _drawn(self) -> list[Any]:
        """All that is ready: nodes take turns at random, each in its own order."""
        ready = list(self._ready)
        self._ready.clear()
        if len(ready) < 2:
            return ready
        lines: dict[str, list[Any]] = defaultdict(list)
        for handle in ready:
            lines[handle._context.get(whose, "")].append(handle)
        if len(lines) == 1:
            return ready
        names = [name for name, line in lines.items() for _ in line]
        self._order.shuffle(names)
        rest = {name: iter(line) for name, line in lines.items()}
        return [next(rest[name]) for name in names]
