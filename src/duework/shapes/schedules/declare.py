"""What an App can do with schedules, and how a decorator declares one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from duework.averbs import averb
from duework.db.database import Tx
from duework.errors import NotFound, UsageError
from duework.handles import Job
from duework.kernel.engine import Engine
from duework.kernel.tasks import Registry
from duework.shapes.schedules.handle import Declared, Schedule, schedule_row, split
from duework.shapes.schedules.plan import PAGE, edit_row, new_plan
from duework.shapes.schedules.row import Row
from duework.shapes.schedules.verbs import ScheduleVerbs
from duework.shapes.shape import H
from duework.task import Task


class DeclaresSchedules:
    """What App and Part have in common: options of a schedule in the decorator of a task."""

    if TYPE_CHECKING:

        def _register(
            self, function: Callable[..., Any], options: dict[str, Any]
        ) -> Task[..., Any, Any]: ...

        def adopt(self, hooks: H) -> H: ...

    def _define(self, function: Callable[..., Any], options: dict[str, Any]) -> Task[..., Any, Any]:
        """Register a function, and its schedule if the options have one."""
        plain, planned = split(options)
        task = self._register(function, plain)
        if planned:
            self.adopt(Declared(task, planned))
        return task

    @staticmethod
    def new_schedule(task: Any, options: dict[str, Any], now: int) -> Row:
        """A schedule that is to be written in a transaction; mistakes are found before it begins."""
        chosen = dict(options)
        args, key = chosen.pop("args", ()), chosen.pop("key", None)
        return schedule_row(task, args, key, chosen, now)


class Scheduling:
    """Schedules at run time, on an App."""

    if TYPE_CHECKING:
        registry: Registry

        @property
        def engine(self) -> Engine: ...

        def job(self, identifier: int) -> Job[Any]: ...

    def schedule(
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

    def schedules(self, prefix: str = "", *, after: str = "", limit: int = PAGE) -> list[Schedule]:
        """Schedules by key, those with a prefix; go on with `after=` the last key."""
        if limit < 1:
            raise UsageError("limit= is 1 or more")
        with self.engine.database.reading() as tx:
            rows = ScheduleVerbs(self.engine).page(tx, prefix, after, min(limit, PAGE))
        return [self._seen(row) for row in rows]

    def find_schedule(self, key: str) -> Schedule:
        """One schedule; `NotFound` if there is none."""
        return self._seen(self._row(key))

    aschedule = averb(schedule)
    aschedules = averb(schedules)
    afind_schedule = averb(find_schedule)

    def _row(self, key: str) -> Row:
        with self.engine.database.reading() as tx:
            row = ScheduleVerbs(self.engine).find(tx, [key]).get(key)
        if row is None or row.state == "deleted":
            raise NotFound(f"there is no schedule {key!r}")
        return row

    def _on_schedule(self, verb: Callable[..., Row], key: str, *more: Any) -> Schedule:
        return self._in_book(lambda book, tx: verb(book, tx, key, *more))

    def _fire_now(self, key: str) -> Job[Any]:
        engine = self.engine

        def verb(tx: Tx, items: list[str]) -> Sequence[int]:
            return [ScheduleVerbs(engine).fire_now(tx, each) for each in items]

        return self.job(engine.writer.call(verb, [key])[0])

    def _in_book(self, function: Callable[[ScheduleVerbs, Tx], Row]) -> Schedule:
        engine = self.engine

        def verb(tx: Tx, items: list[None]) -> Sequence[Row]:
            return [function(ScheduleVerbs(engine), tx) for _ in items]

        return self._seen(engine.writer.call(verb, [None])[0])

    def _seen(self, row: Row) -> Schedule:
        values = {**asdict(row), "idle": bool(row.idle), "edited": bool(row.edited)}
        del values["from_now"]
        return Schedule(**{**values, "decorated": bool(row.decorated)}, _app=self)

    def _schedule_change(
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

        change(self._row(key))
        return change
