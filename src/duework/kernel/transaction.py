"""A transaction as users see it: their own SQL, and the jobs that go with it, in one commit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from duework.db.database import Changes, Tx
from duework.kernel.engine import Engine
from duework.kernel.job import Enqueued


class Transaction:
    """Given by `app.transaction()`, to `run.commit` functions and to `@task.settled`."""

    def __init__(self, tx: Tx, engine: Engine) -> None:
        self._tx = tx
        self._engine = engine

    def read(self, sql: str, /, **values: Any) -> list[Any]:
        """Rows, with attribute and index access; sees this transaction's own writes."""
        return self._tx.read(sql, **values)

    def write(
        self, sql: str, /, rows: Sequence[Mapping[str, Any]] | None = None, **values: Any
    ) -> Changes:
        """Insert, update or delete, once or for each of `rows`."""
        return self._tx.write(sql, rows, **values)

    def enqueue(self, task: Any, /, *args: Any, **kwargs: Any) -> Enqueued:
        """Enqueue a task, or `task.using(…)`, in this transaction."""
        now = self._engine.steps.steady()
        job = task.using()._new_job(args, kwargs, now)  # noqa: SLF001 - ours
        return self._engine.enqueue(self._tx, [job])[0]

    def batch(self, task: Any, items: Iterable[Any], /, **options: Any) -> Enqueued:
        """Make a batch in this transaction; the id is the batch's. Takes what `app.batch` takes."""
        now = self._engine.clock.now()
        new = task.using()._new_batch(items, now, **options)  # noqa: SLF001 - ours
        return self._engine.batch(self._tx, [new])[0]

    def start(self, chain: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Start a chain, or `chain.using(…)`, in this transaction."""
        new = chain.using()._new_chain(args, kwargs, self._engine.clock.now())  # noqa: SLF001 - ours
        return self._write("chain", new)

    def schedule(self, task: Any, /, **options: Any) -> None:
        """Make or change a schedule in this transaction; options as `app.schedule`."""
        now = self._engine.clock.now()
        self._write("schedule", task.declared_by.new_schedule(task, options, now))

    def submit(self, outbox: Any, message: Any, /) -> None:
        """Queue a message of an outbox, or of `outbox.using(…)`, in this transaction."""
        self._write("message", outbox.using()._new(message, self._engine.clock.now()))  # noqa: SLF001 - ours

    def _write(self, name: str, item: Any) -> Any:
        """Let a shape write something of its own."""
        return self._engine.registry.writes[name].verb(self._tx, [item])[0]
