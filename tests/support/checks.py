"""Every invariant: the kernel's, and those of the engine's own shapes; and a harness that ends with them.

They are asked in one statement: a test that asks after each of a hundred crashes would else spend its time
on the way to the server.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from duework.clock import FOREVER
from duework.db.database import Tx
from duework.db.queries import Statement
from duework.health.verify import verify
from duework.kernel.checks import KERNEL_CHECKS
from duework.shapes import SHAPES
from duework.testing import Harness

EVERY = [*KERNEL_CHECKS, *(check for shape in SHAPES for check in shape.checks())]


def _any_of(texts: list[str]) -> str:
    """The names of the statements that return something."""
    return "\nunion all ".join(
        f"select '{check.name}' where exists (\n{text}\n)"
        for check, text in zip(EVERY, texts, strict=True)
    )


_BROKEN = Statement(
    "broken",
    _any_of([check.statement.sqlite for check in EVERY]),
    _any_of([check.statement.postgres for check in EVERY]),
    ("bound", "forever"),
)


def broken_checks(tx: Tx) -> list[str]:
    """The names of all invariants that do not hold, as `verify` finds them."""
    found = [str(row[0]) for row in tx.query(_BROKEN, {"bound": 1, "forever": FOREVER})]
    return found + [each.name for each in verify(tx, ()) if each.violations]


def is_sound(harness: Harness) -> None:
    with harness.app.wiring.engine.database.reading() as tx:
        assert not broken_checks(tx), [each for each in verify(tx, EVERY) if each.violations]


@contextmanager
def sound_at_the_end(harness: Harness, *tables: str) -> Iterator[Harness]:
    """A harness with tables of a test's own; in the end no invariant is broken."""
    with harness.app.transaction() as tx:
        for text in tables:
            tx.write(text)
    yield harness
    is_sound(harness)
