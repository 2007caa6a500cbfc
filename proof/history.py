"""What happened, written down by triggers in the very transactions that made it happen.

`record(app)` lets the database note every claim, every end of a lease, every change of a state and every
effect, in one table with one number that counts up; the engine knows nothing of it. On SQLite the number
is the order of commits; on PostgreSQL it is the order of each job's changes, and of the claims of a queue
with a limit, since those wait for each other.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from duework import App

_COLUMNS = (
    "job, task, key, was_state, was_fence, was_worker, was_due, state, fence, worker, due, lane"
)
_TABLE = """create table hist (seq {serial}, job bigint not null, task text, key text,
    was_state text, was_fence bigint, was_worker bigint, was_due bigint,
    state text, fence bigint, worker bigint, due bigint, lane bigint)"""
# An extension moves the due time of a held job and nothing else: it is not written down.
_CHANGED = """new.fence <> old.fence or new.state <> old.state or new.lane <> old.lane
    or coalesce(new.worker, 0) <> coalesce(old.worker, 0) or (new.worker is null and new.due <> old.due)"""
_OF = {
    "insert": "new.id, new.task, new.key, '', 0, null, 0,"
    " new.state, new.fence, new.worker, new.due, new.lane",
    "update": "new.id, new.task, new.key, old.state, old.fence, old.worker, old.due,"
    " new.state, new.fence, new.worker, new.due, new.lane",
    "delete": "old.id, old.task, old.key, old.state, old.fence, old.worker, old.due,"
    " 'deleted', old.fence, null, 0, old.lane",
}
_EFFECT = "new.job, null, null, '', 0, null, 0, 'effect', new.fence, null, new.n, 0"


class Change(NamedTuple):
    """One row of the history: a job's row before and after, or an effect (state 'effect')."""

    seq: int
    job: int
    task: str | None
    key: str | None
    was_state: str
    was_fence: int
    was_worker: int | None
    was_due: int
    state: str
    fence: int
    worker: int | None
    due: int
    lane: int

    @property
    def is_claim(self) -> bool:
        return self.worker is not None and (
            self.fence != self.was_fence or self.worker != self.was_worker
        )

    @property
    def is_end(self) -> bool:
        """The end of a lease, by a settle or by being written off."""
        return self.was_worker is not None and self.worker is None


@dataclass
class Op:
    """Something a client asked for: `ok`, surely not (`fail`), or nobody knows (`info`)."""

    n: int
    kind: str = "info"
    job: int | None = None
    key: str | None = None
    existed: bool = False


@dataclass
class Job:
    """A row at the end."""

    id: int
    task: str
    state: str
    n: int
    failures: int
    crashes: int
    fence: int
    key: str | None
    queue: str


@dataclass
class History:
    """Everything the checker is given."""

    changes: list[Change]
    jobs: dict[int, Job]
    # (job, fence) -> outcome, of attempts that did not end well, and who made them.
    attempts: dict[tuple[int, int], tuple[str, int | None]]
    balance: int
    ops: list[Op] = field(default_factory=list)
    # What tasks noted: what, job, fence.
    notes: list[dict[str, Any]] = field(default_factory=list)
    # Sums of all accounts, seen while it went on.
    balances: list[int] = field(default_factory=list)
    # Whether the number of a change is the order of commits over all jobs.
    ordered: bool = True
    # Leases may have been lost or handed back: something was done to the workers.
    disturbed: bool = True
    # How long a lease is, in milliseconds.
    lease: int = 0


def record(app: App) -> None:
    """From now on everything is written down."""
    kind = app.wiring.engine.database.kind
    with app.transaction() as tx:
        for statement in _sqlite() if kind == "sqlite" else _postgres():
            tx.write(statement)


def _sqlite() -> list[str]:
    statements = [_TABLE.format(serial="integer primary key autoincrement")]
    for verb, values in _OF.items():
        when = f"when {_CHANGED}" if verb == "update" else ""
        statements.append(
            f"create trigger hist_{verb} after {verb} on duework_job for each row {when}"
            f" begin insert into hist ({_COLUMNS}) values ({values}); end"
        )
    statements.append(
        "create trigger hist_effect after insert on effect for each row"
        f" begin insert into hist ({_COLUMNS}) values ({_EFFECT}); end"
    )
    return statements


def _postgres() -> list[str]:
    statements = [_TABLE.format(serial="bigserial primary key")]
    for verb, values in {**_OF, "effect": _EFFECT}.items():
        statements.append(
            f"create function hist_{verb}() returns trigger language plpgsql as $$ begin"
            f" insert into hist ({_COLUMNS}) values ({values}); return null; end $$"
        )
    for verb in _OF:
        when = f"when ({_CHANGED})" if verb == "update" else ""
        statements.append(
            f"create trigger hist_{verb} after {verb} on duework_job for each row {when}"
            f" execute function hist_{verb}()"
        )
    statements.append(
        "create trigger hist_effect after insert on effect for each row"
        " execute function hist_effect()"
    )
    return statements


def total(app: App) -> int:
    return int(app.read("select sum(balance) as total from account")[0].total)


def gather(app: App) -> History:
    """Everything that the database knows; what clients and tasks noted is added by the caller."""
    jobs = {
        row.id: Job(
            *(row.id, row.task, row.state, json.loads(row.payload)["n"], row.failures, row.crashes),
            *(row.fence, row.key, row.queue),
        )
        for row in app.read(
            "select j.id, j.task, j.state, j.payload, j.failures, j.crashes, j.fence, j.key, l.queue"
            " from duework_job j join duework_lane l on l.id = j.lane where l.queue <> 'duework'"
        )
    }
    changes = [
        Change(*row)
        for row in app.read(f"select seq, {_COLUMNS} from hist order by seq")
        if row.state == "effect" or row.job in jobs
    ]
    attempts = {
        (row.job, row.fence): (row.outcome, row.worker)
        for row in app.read("select job, fence, outcome, worker from duework_attempt")
    }
    return History(
        *(changes, jobs, attempts, total(app)),
        ordered=app.wiring.engine.database.kind == "sqlite",
    )
