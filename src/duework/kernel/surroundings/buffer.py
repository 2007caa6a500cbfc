"""What an attempt has asked for beside its call: effects that wait for its settle, and what it has used.

`Run` writes into it, the worker takes it out at the end, and shapes add to it what their rows need.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from duework.errors import UsageError
from duework.kernel.job import Effect, NewJob

_NOTHING: Mapping[str, int] = {}


class Buffer:
    """The side of a run that is not the user's."""

    __slots__ = ("closed", "effects", "spent", "stopped", "taken")

    def __init__(self) -> None:
        self.effects: list[Effect | NewJob] = []
        # What its claim took of quotas, by their names, and what it said that it has used.
        self.taken: Mapping[str, int] = _NOTHING
        self.spent: dict[str, int] = {}
        # It is to stop; and nothing can be added any more.
        self.stopped = False
        self.closed = False

    def add(self, effect: Effect | NewJob) -> None:
        """Write this with the settle, or not at all."""
        if self.closed:
            raise UsageError("this attempt has ended; nothing can be added to it")
        self.effects.append(effect)

    def close(self, effect_of: Callable[[Sequence[NewJob]], Effect]) -> tuple[Effect, ...]:
        """End the buffering; the effects in order, neighbouring enqueues as one."""
        self.closed = True
        if not self.effects:
            return ()
        effects: list[Effect] = []
        jobs: list[NewJob] = []
        for each in self.effects:
            if isinstance(each, NewJob):
                jobs.append(each)
                continue
            if jobs:
                effects.append(effect_of(jobs))
                jobs = []
            effects.append(each)
        if jobs:
            effects.append(effect_of(jobs))
        return tuple(effects)
