"""Schedules as users see them: `app.schedule(…)`, `@app.task(cron=…)`, and what can be done with one."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

import msgspec

from duework.averbs import averb
from duework.clock import as_datetime
from duework.codec import decode
from duework.db.database import Tx
from duework.durations import Duration, milliseconds
from duework.errors import Error, UsageError
from duework.handles import Job
from duework.kernel.error_text import describe
from duework.kernel.job import OWN_QUEUE, Ending, LockedJob
from duework.kernel.run import Run, buffer_of
from duework.kernel.tasks import TIRELESS, Definition, Policy, Writes
from duework.shapes.graph import Node
from duework.shapes.schedules import SHAPE
from duework.shapes.schedules.calendar import Kind, When, zone
from duework.shapes.schedules.plan import KEY_LIMIT, OPTIONS, TIMES, new_plan, storable
from duework.shapes.schedules.row import Missed, Overlap, Row, State
from duework.shapes.schedules.verbs import FIRE_TASK, OWNER, ScheduleVerbs
from duework.shapes.shape import Hooks, Shape, in_thread
from duework.task import Task

if TYPE_CHECKING:
    from duework.shapes.schedules.declare import Scheduling
    from duework.typed.options import ScheduleOptions
    from duework.wiring import Wiring

Check = Callable[..., Any]

# How long a check may take before the tick is run without its answer.
CHECK_SECONDS = 30.0


def _key(key: object) -> str:
    if not isinstance(key, str) or not 0 < len(key) <= KEY_LIMIT or not storable(key):
        raise UsageError(
            f"a schedule's key is a text of 1 to {KEY_LIMIT} characters, not {key!r:.100}"
        )
    return key


def schedule_row(
    task: Any, args: Sequence[Any], key: str | None, options: Mapping[str, Any], now: int
) -> Row:
    """The row of a schedule that code asks for; nothing is written yet."""
    if not isinstance(task, Task):
        raise UsageError(f"schedule() takes a task, not {task!r:.100}")
    if isinstance(args, (str, bytes)) or not isinstance(args, Sequence):
        raise UsageError(f"args= is a tuple of arguments, such as (7,): not {args!r:.100}")
    if key is None and args:
        raise UsageError("a schedule with arguments needs a key=, to be found again")
    payload = task.definition.arguments.encode(tuple(args), {})
    name = _key(task.name if key is None else key)
    return new_plan(options).row(task.definition, name, payload, now)


def split(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A decorator's options: those of the task, and those of its schedule."""
    planned = {name: options[name] for name in options.keys() & (OPTIONS | {"idle"})}
    if planned and not planned.keys() & TIMES:
        names = ", ".join(f"{name}=" for name in sorted(planned))
        raise UsageError(f"{names} need one of cron=, every=, rrule= and at=")
    return {name: value for name, value in options.items() if name not in planned}, planned


class Declared(Hooks):
    """A schedule that a decorator declares: its key is the task's name."""

    shape: ClassVar[Shape] = SHAPE

    def __init__(self, task: Task[..., Any, Any], options: dict[str, Any]) -> None:
        self.task = task
        self.check: Check | None = options.pop("idle", None)
        if self.check is not None and not callable(self.check):
            raise UsageError("idle= is a function that returns whether there is nothing to do")
        self.plan = new_plan(options)
        # Mistakes are found where they are made.
        self.row(0)

    def declared(self) -> list[Node]:
        """When it fires what."""
        plan = self.plan
        kinds = ("cron", "every", "rrule", "at")
        says = [f"{kind} {value}" for kind in kinds if (value := getattr(plan, kind)) is not None]
        name = self.task.name
        return [Node("schedule", name, ", ".join(says), (f"task:{name}",))]

    def row(self, now: int) -> Row:
        definition = self.task.definition
        payload = definition.arguments.encode((), {})
        row = self.plan.row(definition, self.task.name, payload, now)
        row.idle, row.decorated = int(self.check is not None), 1
        row.declared = f"{row.declared}{row.idle}"
        return row

    def bind(self, wiring: Wiring) -> None:
        """The check is known to processes that know the task."""
        if self.check is not None:
            wiring.registry.add(_firing(f"{FIRE_TASK}:{self.task.name}", wiring, self.check))


class Schedules(Hooks):
    """Every App has it: fires what is due, and declares what decorators say."""

    shape: ClassVar[Shape] = SHAPE

    def bind(self, wiring: Wiring) -> None:
        self._wiring = wiring
        wiring.registry.add(_firing(FIRE_TASK, wiring, None))

    def writes(self) -> Mapping[str, Writes]:
        return {"schedule": Writes(Row, self._put)}

    def _put(self, tx: Tx, rows: list[Row]) -> Sequence[Row]:
        return ScheduleVerbs(self._wiring.engine).put(tx, rows, default=False)

    def arm(self) -> None:
        """Write the schedules of decorators; take away those that are no longer declared."""
        wiring = self._wiring
        engine = wiring.engine
        declared = [each for each in wiring.shapes if isinstance(each, Declared)]
        names = {each.task.name for each in declared}
        others = sorted(set(wiring.registry.names()) - names)
        if not declared and not self._decorated(others):
            return

        rows = [each.row(engine.clock.now()) for each in declared]

        def verb(tx: Tx, items: list[None]) -> Sequence[None]:
            book = ScheduleVerbs(engine)
            book.put(tx, rows, default=True)
            book.mend(tx, sorted(names))
            book.withdraw(tx, others)
            return items

        engine.writer.call(verb, [None])

    def _decorated(self, names: list[str]) -> bool:
        """Whether a decorator once declared one of these, so that there is something to take away."""
        engine = self._wiring.engine
        with engine.database.reading() as tx:
            return any(row.decorated for row in ScheduleVerbs(engine).find(tx, names).values())

    def settled(self, tx: Tx, job: LockedJob, ending: Ending) -> None:
        """The job that fires was cancelled by somebody: the schedule is paused."""
        if ending.kind in {"cancelled", "failed"}:
            key = (job.owner or "").removeprefix(OWNER)
            ScheduleVerbs(self._wiring.engine).interrupted(tx, key, job.id, ending.error)


def _firing(name: str, wiring: Wiring, check: Check | None) -> Definition:
    """The engine's own task behind schedules: one fire, and with it others that are due."""

    async def fire(run: Run, key: str) -> None:
        idle, note = (False, None) if check is None else await _is_idle(check, run)
        # After a failure alone: whatever it was, it must not hold up the others for ever.
        group = check is None and run.attempt == 1
        job = run.job.id

        def effect(tx: Tx) -> None:
            ScheduleVerbs(wiring.engine).fire(tx, key, job, group=group, idle=idle, note=note)

        buffer_of(run).add(effect)

    fire.__qualname__ = f"<{name}>"
    definition = Definition(name, fire, Policy(queue=OWN_QUEUE, **TIRELESS))
    if check is None:
        # It never waits, so one slot does, which is none of the user's.
        definition.pool = "own"
    return definition


async def _is_idle(check: Check, run: Run) -> tuple[bool, str | None]:
    """Whether there is nothing to do. A check that fails says nothing, and the task is run."""
    given = (run,) if inspect.signature(check).parameters else ()
    try:
        is_async = inspect.iscoroutinefunction(check)
        answer = check(*given) if is_async else in_thread(check, *given)
        return bool(await asyncio.wait_for(answer, CHECK_SECONDS)), None
    except Exception as error:  # noqa: BLE001 - a border: the user's own check
        return False, f"the idle check failed: {describe(error)}"


class Schedule(msgspec.Struct, frozen=True):
    """A schedule as it was when it was looked at; `refresh()` looks again."""

    key: str
    task: str
    queue: str
    priority: int
    payload: str
    kind: Kind
    rule: str
    start: int
    tz: str
    missed: Missed
    missed_limit: int
    overlap: Overlap
    idle: bool
    state: State
    # The planned time that is next, and when it will be fired, in milliseconds.
    slot: int | None
    due: int | None
    job: int | None
    last_slot: int | None
    last_at: int | None
    last_job: int | None
    # fired, overlap, missed or idle.
    last_outcome: str | None
    fires: int
    idles: int
    skips: int
    declared: str | None
    decorated: bool
    edited: bool
    owner: str
    why: str
    error: str | None
    created: int
    # No slot is later than this, in milliseconds.
    ends: int | None
    # How many slots it fires, and how many of them it has fired.
    count: int | None
    counted: int
    _scheduling: Any = None

    def __repr__(self) -> str:
        return f"<schedule {self.key} {self.when} {self.state}>"

    @property
    def when(self) -> str:
        """In words: `cron 0 9 * * * Europe/London`."""
        return str(self._when)

    @property
    def _when(self) -> When:
        return When(self.kind, self.rule, self.start, self.tz, self.ends)

    @property
    def paused(self) -> bool:
        return self.state == "paused"

    @property
    def due_at(self) -> datetime | None:
        return None if self.due is None else as_datetime(self.due)

    @property
    def arguments(self) -> Any:
        """The stored arguments by name, as plain data."""
        return decode(self.payload)

    def next(self, count: int = 1) -> list[datetime]:
        """The next times by its rule, in its zone; none if it is paused or has ended."""
        if self.count is not None:
            count = min(count, self.count - self.counted)
        if self.slot is None or count < 1:
            return []
        slots = [self.slot, *self._when.upcoming(self.slot, count - 1)]
        return [as_datetime(slot).astimezone(zone(self.tz)) for slot in slots]

    def refresh(self) -> Schedule:
        """The schedule as it is now; `NotFound` if it was deleted."""
        return self._of().get(self.key)

    def pause(self) -> Schedule:
        """Fire no more until `resume`."""
        return self._of().change(ScheduleVerbs.pause, self.key)

    def resume(self) -> Schedule:
        """Go on with the next slot from now; those that passed meanwhile are not made up for."""
        return self._of().change(ScheduleVerbs.resume, self.key)

    def postpone(self, length: Duration) -> Schedule:
        """Fire the next slot that much later; the plan stays as it is."""
        return self._of().change(ScheduleVerbs.postpone, self.key, milliseconds(length))

    def edit(
        self, /, *, args: Sequence[Any] | None = None, **options: Unpack[ScheduleOptions]
    ) -> Schedule:
        """Change what `app.schedule` takes; a decorator does not change it back."""
        edit = self._of().edit(self.key, args, dict(options))
        return self._of().change(ScheduleVerbs.edit, self.key, edit)

    def fire_now(self) -> Job[Any]:
        """One job at once, beside the plan, whatever still runs."""
        return self._of().fire_now(self.key)

    def delete(self) -> None:
        """Fire no more, and forget it. What it has fired stays."""
        self._of().change(ScheduleVerbs.delete, self.key)

    arefresh = averb(refresh)
    apause = averb(pause)
    aresume = averb(resume)
    apostpone = averb(postpone)
    aedit = averb(edit)
    afire_now = averb(fire_now)
    adelete = averb(delete)

    def _of(self) -> Scheduling:
        if self._scheduling is None:
            raise Error("this schedule is not bound to an App")
        scheduling: Scheduling = self._scheduling
        return scheduling
