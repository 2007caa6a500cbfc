"""A round of a sweep: find items, take what the paces give, run them in groups, commit each group.

After a crash items run one at a time, and which one is written down before: if the process dies again, that
item is put off as one that failed, and the round goes on without it.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from duework.errors import UsageError
from duework.kernel import moves
from duework.kernel.error_text import describe, said
from duework.kernel.outcomes import Cancel, Fail, Outcome, Retry, Snooze, Throttled
from duework.kernel.paces.admission import AddressedReport
from duework.kernel.paces.portions import look, take_now
from duework.kernel.run import Run, buffer_of
from duework.kernel.surroundings.buffer import Buffer
from duework.kernel.tasks import leads_with
from duework.shapes.shape import doing, in_thread
from duework.shapes.sweeps import verbs
from duework.shapes.sweeps.verbs import SWEEPS, EndedItem, SweepGroup, SweepItem, SweepRow

if TYPE_CHECKING:
    from duework.db.database import Tx
    from duework.kernel.engine import Engine
    from duework.kernel.job import Effect
    from duework.kernel.paces.admission import Gate

# What a round takes if no pace says how many.
MOST = 100
# Backed-off items that a function of the user's is asked for beside those it is to find.
BESIDE = 1000
# It looks at least so often, also while its paces admit nothing: somebody may have changed them.
LONGEST_MS = 300_000
# What a sweep is at, in its row.
ROUND, ALONE = "round", "="
REPORTED = {"completed", "failed", "permanent", "throttled"}


def wrapped(query: str, column: str) -> str:
    """The user's query without what is put off, and then limited.

    By a look at one row for each that the query gives, and no join: its own order and its index stay.
    """
    # A comment at its end goes on no further than its line.
    text = query.strip().rstrip(";") + "\n"
    skipped = f"i.sweep = :sweep and i.key = cast(q.{column} as text)"
    # The text is the code's own, and so is the name of the column: an argument of its function.
    return (
        f"select q.* from ({text}) q where coalesce((select i.next_try from"  # noqa: S608
        f" duework_sweep_item i where {skipped}), 0) <= :now limit :wanted"
    )


class ItemRun(Run):
    """The run of one item: in the attempt of the sweeper, with effects and a key of its own."""

    def __init__(self, run: Run, key: str) -> None:
        super().__init__(run.job, buffer_of(run).host, Buffer())
        self._item = key

    @property
    def key(self) -> str:
        """The same whenever this item is tried."""
        return self._item

    def _flow(self) -> Any:
        """Records are of a job, and all items share one."""
        raise UsageError(
            "an item of a sweep has no steps: let run.enqueue(task, …) begin a job that has"
        )

    def effects(self) -> tuple[Effect, ...]:
        """End its buffering: what is to be written with its group."""
        buffer = buffer_of(self)
        return buffer.close(buffer.host.effect_of)


class SweepRounds:
    """How one sweep finds and does its work."""

    def __init__(
        self,
        function: Callable[..., Any],
        source: str | Callable[..., Any],
        engine: Callable[[], Engine],
    ) -> None:
        self._function = function
        self._takes_run = leads_with(function, Run)
        self.columns = list(inspect.signature(function).parameters)[int(self._takes_run) :]
        if not self.columns:
            raise UsageError(
                "a sweep's function takes what its query selects: (run: Run, track_id: int)"
            )
        self._source = wrapped(source, self.columns[0]) if isinstance(source, str) else source
        self._engine = engine
        self.name = ""
        self.parallel = 1
        self.every_ms = 0
        self.timeout_s: float | None = None
        self.gates: tuple[Gate, ...] = ()
        self.delay: Callable[[int], int | None] = lambda _: 0
        # What the last round of this process did: a query that finds it at once again has not noticed.
        self._just_done: set[str] = set()

    def runner(self) -> Callable[..., Any]:
        """The function behind the job that sweeps."""

        async def sweep(run: Run) -> Snooze | None:
            return await self._round(run)

        return sweep

    async def _round(self, run: Run) -> Snooze | None:
        engine = self._engine()
        row, most, idle_ms, items = await in_thread(self._find, run)
        if row is None or row.state != "running" or row.job != run.job.id or _moved(row, run):
            buffer_of(run).add(lambda tx: verbs.leave(tx, self.name, run.job.id, engine))
            return None
        if items and self.gates and most:
            [most] = await engine.writer.acall(self._take, [len(items)], patience=None)
        chosen, blocked = items[:most], 0
        if row.current is not None and row.current != ROUND:
            chosen = await self._blame(run, row.current.removeprefix(ALONE), chosen)
        self._just_done = set()
        if chosen or row.current is not None:
            await self._begin(run, ROUND)
            # The last round was not completed: one of its items may be why.
            blocked = await self._groups(run, chosen, alone=row.current is not None)
            buffer_of(run).add(doing(SWEEPS.ends, {"name": self.name, "job": run.job.id}))
        wait = max(await asyncio.to_thread(self._wait, len(items), idle_ms), blocked)
        if run.job.failures:
            at = engine.clock.now() + wait
            buffer_of(run).add(lambda tx: moves.move(tx, [(run.job.id, at)]) and None)
        return Snooze(wait / 1000)

    # --- finding

    def _find(self, run: Run) -> tuple[SweepRow | None, int, int, list[Any]]:
        """Its row, how many the paces would admit, how long it waits if there is nothing, and the items."""
        engine, now = self._engine(), run.now
        with engine.database.reading() as tx:
            rows = [SweepRow(*row) for row in tx.query(SWEEPS.sweep, {"name": self.name})]
            most, interval, _ = look(tx, self.gates, MOST, now=now)
            found = _each_once(self._items(tx, run, most)) if rows and most else {}
        items = [found[key] for key in found if key not in self._just_done]
        return (rows[0] if rows else None), most, interval or self.every_ms, items

    def _items(self, tx: Tx, run: Run, most: int) -> list[Any]:
        if isinstance(self._source, str):
            values = {"sweep": self.name, "now": run.now, "wanted": most}
            return tx.read(self._source, **values)
        bound = {"sweep": self.name, "now": run.now, "bound": BESIDE}
        beside = int(tx.query(SWEEPS.count_failing, bound)[0][0])
        rows = [_listed(row) for row in self._source(tx.read, most + beside, run.random)]
        keys = [_key(row[0]) for row in rows]
        known = [
            SweepItem(*row) for row in tx.query(SWEEPS.items, {"sweep": self.name, "keys": keys})
        ]
        away = {item.key for item in known if item.next_try > run.now}
        return [row for row, key in zip(rows, keys, strict=True) if key not in away][:most]

    def _take(self, tx: Tx, wanted: list[int]) -> Sequence[int]:
        now = self._engine().clock.now()
        return [take_now(tx, self.gates, each, now=now) for each in wanted]

    def _wait(self, found: int, idle_ms: int) -> int:
        """Until the next round: when the paces admit again, or a while if there was nothing to do."""
        engine = self._engine()
        now = engine.clock.now()
        with engine.database.reading() as tx:
            _, _, again = look(tx, self.gates, MOST, now=now)
        return min(LONGEST_MS, max(0, again - now, 0 if found else idle_ms))

    # --- doing

    async def _groups(self, run: Run, chosen: list[Any], *, alone: bool) -> int:
        """How long to leave everything alone after them, since one of them was throttled."""
        size = 1 if alone else self.parallel
        for place in range(0, len(chosen), size):
            if run.cancelled:
                return 0
            group = chosen[place : place + size]
            if alone:
                await self._begin(run, f"{ALONE}{_key(group[0][0])}")
            ended = await asyncio.gather(*(self._one(run, each) for each in group))
            ended = await self._commit(run, list(ended), first=place == 0)
            if self.every_ms:
                self._just_done |= {each.key for each in ended if each.word == "completed"}
            throttled = [each.wait_ms or 0 for each in ended if each.word == "throttled"]
            if throttled or not await self._goes_on(run):
                return max(throttled, default=0)
        return 0

    async def _goes_on(self, run: Run) -> bool:
        def look() -> bool:
            with self._engine().database.reading() as tx:
                rows = [SweepRow(*row) for row in tx.query(SWEEPS.sweep, {"name": self.name})]
            return bool(rows) and rows[0].state == "running" and rows[0].job == run.job.id

        return await asyncio.to_thread(look)

    async def _begin(self, run: Run, what: str) -> None:
        def verb(tx: Tx, items: list[dict[str, Any]]) -> Sequence[None]:
            for values in items:
                tx.query(SWEEPS.begins, values)
            return [None for _ in items]

        values = {"name": self.name, "job": run.job.id, "current": what}
        await self._engine().writer.acall(verb, [values], patience=None)

    async def _blame(self, run: Run, current: str, chosen: list[Any]) -> list[Any]:
        """If it ran alone when the process died it is put off, and the others go on."""
        if not await asyncio.to_thread(self._crashed, run):
            # The worker was stopped, or the database was away: that says nothing of the item.
            return chosen
        await self._commit(
            run, [EndedItem(current, "failed", error="its process died of it")], first=False
        )
        return [each for each in chosen if _key(each[0]) != current]

    def _crashed(self, run: Run) -> bool:
        with self._engine().database.reading() as tx:
            return moves.crashed_before(tx, run.job.id, run.job.fence)

    async def _one(self, run: Run, row: Any) -> EndedItem:
        key = _key(row[0])
        own = ItemRun(run, f"{self.name}:{key}")
        values = dict(zip(self.columns, row, strict=False))
        try:
            answer = await asyncio.wait_for(self._called(own, values), self.timeout_s)
        except Exception as error:  # noqa: BLE001 - whatever it raises is how the item ended
            answer = error
            buffer_of(own).closed = True
        if isinstance(answer, (Outcome, Exception)):
            return _ended(key, answer)
        return EndedItem(key, effects=own.effects())

    async def _called(self, own: Run, values: dict[str, Any]) -> Any:
        given = (own,) if self._takes_run else ()
        if inspect.iscoroutinefunction(self._function):
            return await self._function(*given, **values)
        return await in_thread(functools.partial(self._function, *given, **values))

    async def _commit(self, run: Run, ended: list[EndedItem], *, first: bool) -> list[EndedItem]:
        engine = self._engine()
        group = SweepGroup(self.name, run.job.id, run.job.fence, ended, self.delay, first)
        [written] = await engine.writer.acall(self._write, [group], patience=None)
        reports = [
            AddressedReport(gate.name, gate.pace, each.word, each.wait_ms or 0)
            for each in written
            for gate in self.gates
            if each.word in REPORTED and (gate.pace.kind == "adaptive" or each.word == "throttled")
        ]
        if reports:
            await engine.writer.acall(engine.apply_reports, reports, patience=None)
        return written

    def _write(self, tx: Tx, groups: list[SweepGroup]) -> Sequence[list[EndedItem]]:
        return [verbs.commit(tx, group, self._engine()) for group in groups]


def _moved(row: SweepRow, run: Run) -> bool:
    """Whether the code has another queue or priority for it by now."""
    return (row.queue, row.priority) != (run.job.queue, run.job.priority)


def _each_once(rows: Sequence[Any]) -> dict[str, Any]:
    """Rows by their keys, as they came: a join may give one several times."""
    found: dict[str, Any] = {}
    for row in rows:
        found.setdefault(_key(row[0]), row)
    return found


def _listed(row: Any) -> Any:
    return row if isinstance(row, Sequence) and not isinstance(row, str) else (row,)


def _key(value: Any) -> str:
    if not isinstance(value, int | str) or isinstance(value, bool):
        raise UsageError(
            f"the first column of a sweep is a number or a text, its key: not {value!r:.100}"
        )
    return str(value)


def _ended(key: str, answer: BaseException) -> EndedItem:
    """What an error or an outcome makes of an item."""
    text = said(answer) if isinstance(answer, Outcome) else describe(answer)
    match answer:
        case Snooze():
            return EndedItem(key, "snoozed", error=text, wait_ms=answer.after_ms)
        case Throttled():
            return EndedItem(key, "throttled", error=text, wait_ms=answer.after_ms)
        case Fail() | Cancel():
            return EndedItem(key, "permanent", error=text)
        case Retry(after_ms=after):
            return EndedItem(key, "failed", error=text, wait_ms=after)
        case _:
            return EndedItem(key, "failed", error=text)
