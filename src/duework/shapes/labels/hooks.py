"""What the engine calls of labels: the housekeeping."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from duework.kernel.labels.verbs import forget_gone
from duework.shapes.labels import SHAPE
from duework.shapes.shape import CHUNK, Hooks, Shape

if TYPE_CHECKING:
    from duework.db.database import Tx
    from duework.wiring import Wiring

# Chunks of one round: a table of any size is gone through bit by bit.
CHUNKS = 20


class Labels(Hooks):
    """Takes away what jobs have carried that are gone."""

    shape: ClassVar[Shape] = SHAPE

    def bind(self, wiring: Wiring) -> None:
        self._wiring = wiring
        self._after = 0

    def prune(self) -> None:
        writer = self._wiring.engine.writer
        for _ in range(CHUNKS):
            verb = partial(_forget, after=self._after)
            self._after = writer.call(verb, [None], patience=None)[0]
            if not self._after:
                return


def _forget(tx: Tx, items: Sequence[None], after: int) -> list[int]:
    return [forget_gone(tx, after, CHUNK) for _ in items]
