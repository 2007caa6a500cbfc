"""Very many rows: whoever looks reads a bounded number of them, and a search says how far it got.

The rows are made once, by SQL. Then everything that people and programs look at is asked, and what the
database did for it is counted: steps of SQLite's machine, rows that PostgreSQL has read. A look that walks
through the table needs many times as many as it is allowed. Nothing is timed.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import apsw

from duework import App, verbs
from duework.clock import FOREVER
from duework.db.postgres.tx import PostgresTx
from duework.db.sqlite.tx import SqliteTx
from duework.health import status
from duework.kernel import operate
from proof.section import Result, Scale, Section, tell
from tests.support.postgres import server

CHUNK = 250_000
RARE = "rare"
# A row that a search looks at takes so many steps at most, and one that is counted so many.
STEPS_SEARCHED, STEPS_COUNTED, STEPS_MORE = 60, 12, 50_000
# The same in rows: one that is looked at is stepped over before, and looked up in its lane.
ROWS_SEARCHED, ROWS_COUNTED, ROWS_MORE = 4, 1, 3000
LANES = 4


@dataclass(frozen=True, slots=True)
class Size:
    """How many rows there are, a search looks at, and a count stops at."""

    rows: int
    look: int
    bound: int


SIZES: dict[Scale, Size] = {
    "short": Size(150_000, 1000, 1000),
    "full": Size(10_000_000, verbs.LOOK, status.BOUND),
}
_NUMBERS = {
    "sqlite": """(with recursive n(i) as (select :first union all select i + 1 from n where i < :last)
                  select i from n) n""",
    "postgres": "generate_series(cast(:first as bigint), :last) as n(i)",
}
# Six of ten are done, two wait, one is ready, one has failed; of the oldest a few are rare.
_FILL = """
    insert into duework_job (id, lane, task, key, state, due, at, payload, checksum, settled, error)
    select i, case when i <= 5 then 4 when i % 10 < 6 then 1 when i % 10 < 8 then 2 else 3 end,
           case when i <= 5 then 'rare' when i % 10 < 6 then 'often' when i % 10 < 8 then 'later'
                else 'mail' end,
           case when i % 1000 = 0 then 'key:' || i end,
           case when i <= 5 or i % 10 < 6 then 'done' when i % 10 = 9 then 'failed' else 'open' end,
           case when i <= 5 or i % 10 < 6 or i % 10 = 9 then :kept
                when i % 10 < 8 then :later + i else i end,
           i, '{{}}', 0,
           case when i <= 5 or i % 10 < 6 or i % 10 = 9 then :now end,
           case when i % 10 = 9 and i > 5 then 'ValueError: no' end
    from {numbers}"""
_NAMES = {1: ("default", "often"), 2: ("default", "later"), 3: ("mail", "mail"), 4: ("odd", RARE)}


@dataclass
class Meter:
    """What a database did for statements."""

    work: int = 0
    statements: int = field(default=0)

    def sqlite(self, tx: SqliteTx, run: Callable[[], Any]) -> Any:
        def profiled(event: dict[str, Any]) -> None:
            self.work += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

        tx.connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, profiled)
        try:
            return run()
        finally:
            tx.connection.trace_v2(0, None)

    def postgres(self, tx: PostgresTx, statement: Any, values: Any) -> None:
        """Rows that the same statement reads."""
        text = f"explain (analyze, format json) {statement.postgres}"
        found = _POSTGRES_QUERY(tx, replace(statement, postgres=text), values)[0][0]
        self.work += _rows((json.loads(found) if isinstance(found, str) else found)[0]["Plan"])


def _rows(plan: dict[str, Any]) -> int:
    """Rows that the leaves of a plan have read, whether they were wanted or not."""
    below = plan.get("Plans", [])
    read = 0
    if "Relation Name" in plan or "Index Name" in plan:
        each = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)
        read = round(each * plan["Actual Loops"])
    return read + sum(map(_rows, below))


_SQLITE_QUERY, _POSTGRES_QUERY = SqliteTx.query, PostgresTx.query


@contextlib.contextmanager
def metered() -> Iterator[Meter]:
    """Count what every statement costs that a look runs."""
    meter = Meter()

    def sqlite(tx: SqliteTx, statement: Any, values: Any) -> Any:
        # A statement that was prepared before goes on counting.
        fresh = replace(statement, sqlite=f"{statement.sqlite}\n-- {meter.statements}")
        meter.statements += 1
        return meter.sqlite(tx, lambda: _SQLITE_QUERY(tx, fresh, values))

    def postgres(tx: PostgresTx, statement: Any, values: Any) -> Any:
        if statement.postgres.lstrip().startswith(("select", "with", "--")):
            meter.postgres(tx, statement, values)
        return _POSTGRES_QUERY(tx, statement, values)

    with planted(SqliteTx, "query", sqlite), planted(PostgresTx, "query", postgres):
        yield meter


@contextlib.contextmanager
def planted(place: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(place, name)
    setattr(place, name, value)
    try:
        yield
    finally:
        setattr(place, name, before)


def fill(app: App, size: Size) -> None:
    """The rows, a chunk of them in each transaction."""
    now = app.now()
    with app.transaction() as tx:
        tx.write(
            "insert into duework_lane (id, queue, task, priority, due)"
            " values (:id, :queue, :task, 0, 0)",
            rows=[{"id": lane, "queue": q, "task": t} for lane, (q, t) in _NAMES.items()],
        )
    text = _FILL.format(numbers=_NUMBERS[app.wiring.engine.database.kind])
    values: dict[str, Any] = {"kept": now + 10**9, "later": now + 10**9, "now": now}
    for first in range(1, size.rows + 1, CHUNK):
        tell("rows", first, size.rows)
        last = min(first + CHUNK - 1, size.rows)
        with app.transaction() as tx:
            tx.write(text, first=first, last=last, **values)
    connection = app.connect()
    with contextlib.closing(connection):
        if app.wiring.engine.database.kind == "postgres":
            connection.autocommit = True
        connection.execute("analyze")


def looks(app: App) -> dict[str, Callable[[], Any]]:
    """What people and programs look at, by name; each is one page."""
    found: dict[str, Callable[[], Any]] = {
        "jobs": app.search_jobs,
        "an old page": lambda: app.search_jobs(before=1000),
        "by a rare task": lambda: app.search_jobs(task=RARE),
        "by a rare queue": lambda: app.search_jobs(queue="odd"),
        "by a key that nobody has": lambda: app.search_jobs(key="nobody"),
        "by task and phase": lambda: app.search_jobs(task=RARE, phase="failed"),
        "the overview": app.status,
        "what needs somebody": app.needs,
        "why": lambda: app.why(8),
        "the doctor": app.admin.doctor,
        "activity": app.admin.activity,
    }
    for phase in ("ready", "waiting", "running", "failed", "done", "cancelled"):
        found[f"{phase} jobs"] = partial(app.search_jobs, phase=phase)
    return found


def allowed(kind: str, size: Size) -> int:
    """The most that one look may cost: what it searches, what it counts, and a little more."""
    counted = 2 * LANES * size.bound + 5000
    if kind == "sqlite":
        return STEPS_SEARCHED * size.look + STEPS_COUNTED * counted + STEPS_MORE
    return ROWS_SEARCHED * size.look + ROWS_COUNTED * counted + ROWS_MORE


def costs(app: App) -> dict[str, int]:
    """What each look costs now."""
    found = {}
    for name, look in looks(app).items():
        look()
        with metered() as meter:
            look()
        found[name] = meter.work
    return found


def searched(app: App) -> tuple[list[int], int]:
    """All jobs of the rare task, each search going on where the last got to; and how many there were."""
    found: list[int] = []
    before: int | None = FOREVER
    count = 0
    while before is not None:
        page = app.search_jobs(task=RARE, before=min(before, 2**62))
        found += [job.id for job in page.jobs]
        before, count = page.before, count + 1
    return found, count


def _on(app: App, size: Size, result: Result) -> None:
    kind = app.wiring.engine.database.kind
    fill(app, size)
    limit = allowed(kind, size)
    found = costs(app)
    unit = "steps" if kind == "sqlite" else "rows read"
    result.count(f"rows on {kind}", size.rows)
    result.count("looks", len(found))
    result.counts[f"the dearest look on {kind}, {unit}"] = max(found.values())
    result.counts[f"allowed on {kind}, {unit}"] = limit
    result.violations += [
        f"{kind}: {name} took {work} {unit}, {limit} are allowed"
        for name, work in found.items()
        if work > limit
    ]
    rare, searches = searched(app)
    result.count("searches until all rare jobs were found", searches)
    if rare != [5, 4, 3, 2, 1]:
        result.violations.append(f"{kind}: going on from where it got to has found {rare}")
    for plant, (place, name, value) in _PLANTS.items():
        with planted(place, name, value):
            dear = max(costs(app).values())
        result.planted[f"{plant}, {kind}"] = dear > limit


_PLANTS: dict[str, tuple[Any, str, Any]] = {
    "a search does not stop": (operate, "_floor", lambda *_: 0),
    "a count does not stop": (status, "BOUND", 10**9),
}


def run(scale: Scale, seed: int) -> Result:
    size, result = SIZES[scale], Result(seed)
    result.floors = {"looks": 30, "searches until all rare jobs were found": 200}
    with (
        planted(verbs, "LOOK", size.look),
        planted(status, "BOUND", size.bound),
        tempfile.TemporaryDirectory() as folder,
    ):
        file = App(f"sqlite:///{Path(folder) / 'crowd.db'}", durability="process")
        with contextlib.closing(file):
            _on(file, size, result)
        with server() as running:
            served = App(running.create_database("crowd"))
            with contextlib.closing(served):
                _on(served, size, result)
    result.not_promised.append("how long a look takes: nothing is timed here")
    return result


SECTION = Section(
    "crowd",
    "Very many rows",
    "A look at jobs, by whatever filter, at the overview, at what needs somebody and at why one waits reads"
    " a bounded number of rows. A search for something rare says how far it got, and from there finds all.",
    run,
)
