"""What every section of the proof is: work under faults, counts of both, and planted bugs that it caught."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

Scale = Literal["short", "full"]

# The descriptor on which a section that runs in a process of its own says how far it is.
WIRE = "DUEWORK_PROOF_WIRE"


@dataclass
class Result:
    """What one section saw: it holds if nothing was violated, floors reached, plants caught."""

    seed: int = 0
    # What happened, in the order to print: jobs acknowledged, kills, images, errors that really hit.
    counts: dict[str, int | float | str] = field(default_factory=dict)
    # The least of a count that makes the run worth something.
    floors: dict[str, int] = field(default_factory=dict)
    # A bug put in on purpose, and whether this section found it.
    planted: dict[str, bool] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    # What a weaker mode lost, what was not tried, and why.
    notes: list[str] = field(default_factory=list)
    # What nobody should take from this section.
    not_promised: list[str] = field(default_factory=list)

    def count(self, name: str, more: int = 1) -> None:
        """Add to a count."""
        before = self.counts.get(name, 0)
        assert isinstance(before, int), f"{name} is not a count"
        self.counts[name] = before + more

    def problems(self) -> list[str]:
        """Why this section does not hold; empty if it does."""
        few = [
            f"only {self.counts.get(name, 0)} {name}, wanted {least}"
            for name, least in self.floors.items()
            if float(self.counts.get(name, 0)) < least
        ]
        missed = [
            f"planted and not found: {name}" for name, found in self.planted.items() if not found
        ]
        return [*self.violations, *few, *missed]


@dataclass(frozen=True)
class Section:
    """One kind of fault."""

    name: str
    title: str
    # What is promised under this fault, in a sentence or two.
    promise: str
    run: Callable[[Scale, int], Result]


def tell(what: str, done: int = 0, total: int = 0) -> None:
    """Say how far a section is; heard by the runner, and by nobody in a test."""
    wire = os.environ.get(WIRE)
    if wire is not None:
        line = json.dumps({"what": what, "done": done, "total": total}) + "\n"
        os.write(int(wire), line.encode())
