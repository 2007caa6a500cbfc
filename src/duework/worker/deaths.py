"""Which other workers are dead: their leases are to be written off, or were."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from duework.kernel.engine import Engine
from duework.kernel.machine import processes
from duework.kernel.machine.processes import Process
from duework.worker.started import forget


class Deaths:
    """What one worker knows of the deaths of others."""

    def __init__(self, engine: Engine, me: int) -> None:
        self._engine = engine
        self._me = me
        # Found, and not yet written off; and those that were.
        self.found: set[int] = set()
        self._written_off: set[int] = set()

    def look(self, workers: Sequence[Process], watch: Callable[[Process], None] | None) -> None:
        """Tell the dead from the living; `watch` is called with those that live, to see them die."""
        # Once the last of its leases was written off, what a dead one was running is not needed.
        for gone in self._written_off.difference(process.id for process in workers):
            self._written_off.discard(gone)
            forget(gone)
        for process in workers:
            if process.id == self._me:
                continue
            if processes.verdict(process, near=self._engine.near) in {"dead", "rebooted"}:
                self.declare(process.id)
            elif watch is not None:
                watch(process)

    def declare(self, worker: int) -> None:
        """Write off its leases, next time; no process claims for it until then."""
        self.found.add(worker)
        if self._engine.doorbell is not None:
            self._engine.doorbell.take_down(worker)

    def written_off(self, workers: Sequence[int]) -> None:
        """A round that knew of these deaths has committed."""
        self.found.difference_update(workers)
        self._written_off.update(workers)
