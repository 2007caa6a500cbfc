"""What a running attempt can ask of the process around it: the time, rows, and a place for effects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from duework.clock import monotonic
from duework.codec import encode
from duework.db.database import Tx
from duework.errors import UsageError
from duework.kernel.engine import Engine
from duework.kernel.job import Claimed, Effect, NewJob
from duework.kernel.transaction import Transaction

PROGRESS_SECONDS = 0.5
NOTE_LIMIT = 500


class WorkerHost:
    """The `Host` of everything that one worker runs; progress waits here to be written."""

    def __init__(
        self,
        engine: Engine,
        worker: int,
        ring: Callable[[], None],
        sign: Callable[[int, int], None],
    ) -> None:
        self._engine = engine
        self._worker = worker
        self._ring = ring
        self._progress: dict[int, tuple[Any, ...]] = {}
        self._written_at = 0.0
        # Notes, for those who survive this process, whether anything of a send has left.
        self._sign = sign

    def now(self) -> int:
        return self._engine.clock_watch.checked_now()

    def read(self, sql: str, values: Mapping[str, Any]) -> list[Any]:
        with self._engine.database.reading() as tx:
            return tx.read(sql, **values)

    def secret(self, name: str) -> str:
        if (opened := self._engine.side.open_secret) is None:
            raise UsageError("secrets need an App")
        return opened(name)

    def object(self, of: Any, key: str) -> Any:
        if (found := self._engine.side.find_object) is None:
            raise UsageError("objects need an App")
        return found(of, key)

    def resource(self, resource: Any) -> Any:
        return self._engine.resources.get(resource)

    def effect_of(self, jobs: Sequence[NewJob]) -> Effect:
        def enqueue(tx: Tx) -> None:
            self._engine.enqueue(tx, list(jobs))

        return enqueue

    def effect_as(self, name: str, item: Any) -> Effect:
        """What a shape writes of its own; an item that comes from another process is plain data."""
        known = self._engine.registry.writes[name]
        made = item if isinstance(item, known.item) else msgspec.convert(item, known.item)

        def write(tx: Tx) -> None:
            known.verb(tx, [made])

        return write

    def transaction(self, tx: Tx) -> Transaction:
        return Transaction(tx, self._engine)

    def progress(self, job: Claimed, done: float, total: float | None, note: str) -> None:
        text = encode({"done": done, "total": total, "note": note[:NOTE_LIMIT]})
        self._progress[job.id] = (text, job.id, job.fence, self._worker)
        self._ring()

    def sign(self, job: Claimed, sign: int) -> None:
        self._sign(job.id, sign)

    def progress_due_in(self) -> float | None:
        """Seconds until what was said is to be written; None if nothing was."""
        if not self._progress:
            return None
        return max(0.0, self._written_at + PROGRESS_SECONDS - monotonic())

    def take_progress(self) -> list[tuple[Any, ...]]:
        """Rows to write now, the last word of each job; not more often than people can read."""
        if self.progress_due_in() != 0:
            return []
        self._written_at = monotonic()
        rows, self._progress = list(self._progress.values()), {}
        return sorted(rows, key=lambda row: row[1])
