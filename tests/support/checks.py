"""Every invariant: the kernel's, and those of the engine's own shapes; and a harness that ends with them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from duework.health.verify import verify
from duework.kernel.checks import KERNEL_CHECKS
from duework.shapes import SHAPES
from duework.testing import Harness

EVERY = [*KERNEL_CHECKS, *(check for shape in SHAPES for check in shape.checks())]


@contextmanager
def sound_at_the_end(harness: Harness, *tables: str) -> Iterator[Harness]:
    """A harness with tables of a test's own; in the end no invariant is broken."""
    with harness.app.transaction() as tx:
        for text in tables:
            tx.write(text)
    yield harness
    with harness.app.wiring.engine.database.reading() as tx:
        broken = [each for each in verify(tx, EVERY) if each.violations]
    assert broken == []
