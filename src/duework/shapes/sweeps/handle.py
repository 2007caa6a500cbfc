"""Sweeps as users see them: `@app.sweep(query, …)`, start, stop, reset and status."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from duework.averbs import Verbs, averb
from duework.durations import Duration, milliseconds
from duework.errors import NotFound, UsageError
from duework.kernel.failures.retry import Backoff, Exponential, delays
from duework.kernel.paces import portions, wishes
from duework.kernel.tasks import TIRELESS, check_count, gates
from duework.shapes.shape import CHUNK, Hooks, Shape, in_chunks
from duework.shapes.sweeps import SHAPE, verbs
from duework.shapes.sweeps.rounds import SweepRounds
from duework.shapes.sweeps.verbs import OWNER, SWEEPS, SweepItem, SweepRow

if TYPE_CHECKING:
    from duework.db.database import Tx
    from duework.kernel.engine import Engine
    from duework.kernel.job import Ending, LockedJob
    from duework.kernel.paces.pace import Pace
    from duework.part import Part
    from duework.task import Task
    from duework.wiring import Wiring

# Items that went wrong long ago, and were not found since, are forgotten.
OLD_MS = 7 * 86_400_000
BOUND = 10_000
PAGE = 1000


class SweepStatus(msgspec.Struct, frozen=True):
    """A sweep as it was when it was looked at."""

    name: str
    state: str
    # Groups are counted as they commit: rounds that found something, items that went well and wrong.
    rounds: int
    done: int
    failed: int
    # Items that are left alone for now, counted up to a bound.
    waiting: int
    # In milliseconds: the last group, and the next look.
    last_at: int | None
    next_at: int | None
    job: int | None
    # Why the last round failed as a whole, if it did: the query, for example.
    error: str | None = None
    # What its own adaptive pace says: batch, interval, success.
    pace: dict[str, Any] | None = None

    @property
    def running(self) -> bool:
        return self.state == "running"


class Sweep(Hooks):
    """A function that does what a query finds, on its App. A plain call stays a plain call."""

    shape: ClassVar[Shape] = SHAPE

    def __init__(self, rounds: SweepRounds, function: Callable[..., Any], *, starts: bool) -> None:
        self._wiring: Wiring | None = None
        self.rounds = rounds
        self.starts = starts
        self.task: Task[..., Any, Any]
        self.__wrapped__ = function
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", "sweep")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<sweep {self.name}>"

    @property
    def name(self) -> str:
        """Under which it is found, after that of its Part if it has one."""
        return self.task.name

    def bind(self, wiring: Wiring) -> None:
        """It belongs to this App from now on."""
        self._wiring = wiring
        wiring.registry.know_paces(self.rounds.gates)

    @property
    def engine(self) -> Engine:
        return self._verbs.engine

    @property
    def _verbs(self) -> SweepVerbs:
        if self._wiring is None:
            raise UsageError(f"{self.name} belongs to a Part that no App has included yet")
        return self._wiring.find(SweepVerbs)

    def arm(self) -> None:
        """Write its row and its sweeper, if they are not there."""
        policy, engine = self.task.definition.policy, self.engine
        state = "running" if self.starts else "stopped"
        place = (policy.queue, policy.priority, None, 0, 0, 0, None, 0)
        row = SweepRow(self.name, state, None, *place)

        def verb(tx: Tx, rows: list[SweepRow]) -> Sequence[None]:
            for each in rows:
                verbs.declare(tx, each, engine)
            return [None for _ in rows]

        engine.writer.call(verb, [row])

    def start(self) -> SweepStatus:
        """Let it run, and look at once."""
        self.arm()
        return self._verbs.start(self.name)

    def stop(self) -> SweepStatus:
        """Begin no more groups until `start`; one that runs is completed."""
        self.arm()
        return self._verbs.stop(self.name)

    def reset(self) -> SweepStatus:
        """Forget what went wrong and what its own paces have learned, and count anew."""
        self.arm()
        return self._verbs.reset(self.name)

    def status(self) -> SweepStatus:
        """How it goes."""
        return self._verbs.get(self.name)

    def failing(self, limit: int = 50) -> list[SweepItem]:
        """Items that are left alone for now, the next ones first."""
        return self._verbs.failing(self.name, limit)

    astart = averb(start)
    astop = averb(stop)
    areset = averb(reset)
    astatus = averb(status)
    afailing = averb(failing)


class Sweeps(Hooks):
    """Every App has it: what an operator does to a sweeper, and the housekeeping."""

    shape: ClassVar[Shape] = SHAPE

    def bind(self, wiring: Wiring) -> None:
        self._wiring = wiring

    def settled(self, tx: Tx, job: LockedJob, ending: Ending) -> None:
        """The sweeper was cancelled by somebody: its sweep is stopped."""
        if ending.kind != "done":
            verbs.interrupted(tx, (job.owner or "").removeprefix(OWNER), job.id)

    def prune(self) -> None:
        in_chunks(self._wiring.engine, self._prune)

    def _prune(self, tx: Tx, items: list[None]) -> Sequence[int]:
        now = self._wiring.engine.clock.now()
        values = {"now": now, "old": now - OLD_MS, "wanted": CHUNK}
        return [len(tx.query(SWEEPS.over, values)) for _ in items]


class SweepVerbs(Verbs):
    """What an App can do with sweeps, whether or not this process knows their code."""

    def __init__(self, wiring: Wiring) -> None:
        super().__init__(wiring)
        self.hooks = Sweeps()

    def search(self, *, after: str = "", limit: int = 100) -> list[SweepStatus]:
        """Sweeps by name; go on with `after=` the last one."""
        with self.engine.database.reading() as tx:
            rows = tx.query(SWEEPS.search, {"after": after, "wanted": min(limit, PAGE)})
            return [self._status(tx, SweepRow(*row)) for row in rows]

    def get(self, name: str) -> SweepStatus:
        """One sweep; `NotFound` if there is none."""
        with self.engine.database.reading() as tx:
            for row in tx.query(SWEEPS.sweep, {"name": name}):
                return self._status(tx, SweepRow(*row))
        raise NotFound(f"there is no sweep {name!r}")

    def _status(self, tx: Tx, row: SweepRow) -> SweepStatus:
        now = self.now()
        values = {"sweep": row.name, "now": now, "bound": BOUND}
        waiting = int(tx.query(SWEEPS.count_failing, values)[0][0])
        found = [] if row.job is None else self.wiring.jobs.get_many([row.job])
        job = found[0] if found and row.state == "running" else None
        counts = (row.rounds, row.done, row.failed, waiting, row.last_at)
        pace = f"{row.name}:adaptive"
        shown = portions.shown(tx, pace, self.registry.paces.get(pace), now=now)
        seen = (None, None) if job is None else (job.due, job.error)
        return SweepStatus(row.name, row.state, *counts, seen[0], row.job, seen[1], shown)

    def failing(self, name: str, limit: int = 50) -> list[SweepItem]:
        """Items of a sweep that are left alone for now, the next ones first."""
        with self.engine.database.reading() as tx:
            return list(verbs.failing(tx, name, now=self.now(), limit=min(limit, PAGE)))

    def start(self, name: str) -> SweepStatus:
        """Let a sweep run, and look at once."""
        engine = self.engine
        return self._do(name, lambda tx: verbs.start(tx, name, engine))

    def stop(self, name: str) -> SweepStatus:
        """Begin no more groups of a sweep until `start`; one that runs is completed."""
        return self._do(name, lambda tx: verbs.stop(tx, name))

    def reset(self, name: str) -> SweepStatus:
        """Forget what went wrong in a sweep and what its own paces have learned, and count anew."""
        engine = self.engine
        own = [each for each in self.registry.paces if each.startswith(f"{name}:")]

        def verb(tx: Tx) -> None:
            for pace in own:
                kind = self.registry.paces[pace].kind
                engine.change_pace(tx, [(pace, kind, wishes.reset)])
            verbs.reset(tx, name)

        return self._do(name, verb)

    def _do(self, name: str, function: Callable[[Tx], None]) -> SweepStatus:
        def verb(tx: Tx, items: list[None]) -> Sequence[None]:
            function(tx)
            return items

        self.engine.writer.call(verb, [None])
        return self.get(name)

    asearch = averb(search)
    aget = averb(get)
    afailing = averb(failing)
    astart = averb(start)
    astop = averb(stop)
    areset = averb(reset)


def declare_sweep(  # noqa: PLR0913 - each is an option of its own
    part: Part,
    query: str | Callable[..., Any],
    *,
    parallel: int = 1,
    pace: Pace | Sequence[Pace] = (),
    every: Duration = "10s",
    retries: int | None = None,
    backoff: Backoff | None = None,
    timeout: Duration = "1m",
    start: bool = True,
    name: str | None = None,
    queue: str = "default",
    priority: int = 0,
) -> Callable[[Callable[..., Any]], Sweep]:
    """Register a function that does what a query finds: `@app.sweep("select id from app where …")`.

    The query has no limit; the columns are the function's arguments, the first one names the row. It may be a
    function `(read, n, random)` that gives rows. `parallel` items make a group, which commits as one. `every`
    is how often it looks if there is nothing to do; an `Adaptive` pace chooses that, and how many it takes.
    """
    check_count("parallel", parallel, 1)
    if not callable(query) and (not isinstance(query, str) or "select" not in query.lower()):
        raise UsageError(
            f"a sweep has a query, or a function (read, n, random): not {query!r:.100}"
        )

    def decorate(function: Callable[..., Any]) -> Sweep:
        rounds = SweepRounds(function, query, lambda: made.engine)
        made = Sweep(rounds, function, starts=start)
        rounds.parallel, rounds.every_ms = parallel, milliseconds(every)
        rounds.timeout_s = milliseconds(timeout) / 1000
        rounds.delay = _delay(backoff or Exponential(first="1m", cap="6h"), retries)
        place = {"queue": queue, "priority": priority, "timeout": "1d"}
        label = name or made.__name__
        made.task = part.contents.register(rounds.runner(), {**TIRELESS, **place, "name": label})
        rounds.name = made.name
        rounds.gates = gates(made.name, pace, _no_argument)
        part.contents.adopt(made)
        return made

    return decorate


def _no_argument(name: str) -> Any:
    raise UsageError(f"a sweep's paces are for all of its items: leave per={name!r} out")


def _delay(backoff: Backoff, retries: int | None) -> Callable[[int], int | None]:
    wait = delays(backoff)
    if retries is not None:
        check_count("retries", retries, 0)

    def delay(failures: int) -> int | None:
        if retries is not None and failures > retries:
            return None
        # In the middle of the jitter: the same in every process.
        return wait(failures, 0.5)

    return delay
