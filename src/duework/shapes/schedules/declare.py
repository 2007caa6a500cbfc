"""What an App can do with schedules, and the row of one that is to be written in a transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from duework.averbs import Verbs
from duework.db.database import Tx
from duework.errors import NotFound, UsageError
from duework.handles import Job
from duework.shapes.schedules.handle import Schedule, schedule_row
from duework.shapes.schedules.plan import PAGE, edit_row, new_plan
from duework.shapes.schedules.row import Row
from duework.shapes.schedules.verbs import ScheduleVerbs
from duework.task import Task


def new_schedule(task: Any, options: dict[str, Any], now: int) -> Row:
    """A schedule that is to be written in a transaction; mistakes are found before it begins."""
    chosen = dict(options)
    args, key = chosen.pop("args", ()), chosen.pop("key", None)
    return schedule_row(task, args, key, chosen, now)


class Scheduling(Verbs):
    """Schedules at run time, on an App."""

    def put(
        self,
        task: Task[..., Any, Any],
        /,
        *,
        args: Sequence[Any] = (),
        key: str | None = None,
        **options: Any,
    ) -> Schedule:
        """Let a task be fired by cron=, every=, rrule= or at=. Safe to repeat, on every node.

        The same again changes nothing; something else under the same key replaces it.
        """
        row = schedule_row(task, args, key, options, self.engine.clock.now())
        return self._in_book(lambda book, tx: book.put(tx, [row], default=False)[0])

    def search(self, prefix: str = "", *, after: str = "", limit: int = PAGE) -> list[Schedule]:
        """Schedules by key, those with a prefix; go on with `after=` the last key."""
        if limit < 1:
            raise UsageError("limit= is 1 or more")
        with self.engine.database.reading() as tx:
            rows = ScheduleVerbs(self.engine).page(tx, prefix, after, min(limit, PAGE))
        return [self._seen(row) for row in rows]

    def get(self, key: str) -> Schedule:
        """One schedule; `NotFound` if there is none."""
        return self._seen(self.find_row(key))

    def find_row(self, key: str) -> Row:
        with self.engine.database.reading() as tx:
            row = ScheduleVerbs(self.engine).find(tx, [key]).get(key)
        if row is None or row.state == "deleted":
            raise NotFound(f"there is no schedule {key!r}")
        return row

    def change(self, verb: Callable[..., Row], key: str, *more: Any) -> Schedule:
        """Apply a verb to one schedule; the schedule as it is then."""
        return self._in_book(lambda book, tx: verb(book, tx, key, *more))

    def fire_now(self, key: str) -> Job[Any]:
        """One job at once, beside the plan."""
        engine = self.engine

        def verb(tx: Tx, items: list[str]) -> Sequence[int]:
            return [ScheduleVerbs(engine).fire_now(tx, each) for each in items]

        return self.wiring.jobs.get(engine.writer.call(verb, [key])[0])

    def _in_book(self, function: Callable[[ScheduleVerbs, Tx], Row]) -> Schedule:
        engine = self.engine

        def verb(tx: Tx, items: list[None]) -> Sequence[Row]:
            return [function(ScheduleVerbs(engine), tx) for _ in items]

        return self._seen(engine.writer.call(verb, [None])[0])

    def _seen(self, row: Row) -> Schedule:
        values = {**asdict(row), "idle": bool(row.idle), "edited": bool(row.edited)}
        del values["from_now"]
        return Schedule(**{**values, "decorated": bool(row.decorated)}, _scheduling=self)

    def edit(
        self, key: str, args: Sequence[Any] | None, options: dict[str, Any]
    ) -> Callable[[Row], None]:
        """What `edit` does to a row; checked before the transaction on the row as it is now."""
        plan = new_plan(options)
        if args is None and not options:
            raise UsageError(
                "edit() needs something to change: cron=, tz=, args=, missed= and so on"
            )

        def change(row: Row) -> None:
            if args is not None:
                row.payload = self.registry.find(row.task).arguments.encode(tuple(args), {})
            edit_row(row, plan, options, self.engine.clock.now())

        change(self.find_row(key))
        return change
