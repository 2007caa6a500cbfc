"""No statement of deliveries, outboxes and objects does more work because there is more in the tables.

Each has twenty thousand rows, and so have the jobs and lanes that they belong to. What is counted is
what the statement really touches: steps of SQLite's machine, pages of PostgreSQL. Statistics are as bad
as they get (never analysed), then as good.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import apsw
import pytest

from duework.db.queries import Statement
from duework.kernel.moves import MOVES
from duework.shapes.deliveries.channels import DELIVERIES
from duework.shapes.objects.store import OBJECTS
from duework.shapes.outboxes.messages import OUTBOXES
from tests.plans.crowd import analyse, numbers, roomy
from tests.support.kernel import START, Kernel

ROWS = 20_000
LATER = START + 10**9
NUMBERS = numbers(ROWS)
# Most of it is over; what is not waits for something in a far future.
FILL = (
    """insert into duework_lane (id, queue, task, priority, share)
       select i, 'q', case i % 2 when 0 then 'mail.submit' else 'another' end, 0, cast(i as text)
       from {numbers} where i % 2 = 1 or i <= 4""",
    """insert into duework_job (id, lane, task, state, due, at, payload, checksum, settled)
       select i, 1, 'another', case i % 10 when 0 then 'open' else 'done' end, :later + i, i, '[]', 0,
              case i % 10 when 0 then null else i end
       from {numbers}""",
    """insert into duework_delivery (job, channel, key, payload, state, child, settled, due)
       select i, 'email', 'k', '{{}}', 'sent', i, i, :later + i from {numbers}""",
    """insert into duework_outbox (id, outbox, key, message, state, job, queue, priority, lane,
                                   created, settled, due)
       select i, 'mail', cast(i as text), '{{}}', 'sent', i, 'q', 0,
              case i % 2 when 0 then 'tenant' else '' end, i, i, :later + i
       from {numbers}""",
    """insert into duework_object (id, kind, key, version, pages, alarm, created, changed)
       select i, case i % 2 when 0 then 'flight' else 'ledger' end, 'k' || i, 1, 1, i, i, i
       from {numbers}""",
    "insert into duework_object_page (object, number, bytes) select i, 1, {byte} from {numbers}",
    """insert into duework_object_lease (kind, key, holder, until)
       select 'flight', 'k' || i, i, :later from {numbers}""",
)
VALUES: dict[str, Any] = {
    "job": 500,
    "child": 500,
    "id": 500,
    "object": 500,
    "holder": 500,
    "poll": 501,
    "alarm": 500,
    "ids": [500, 501],
    "channel": "email",
    "outbox": "mail",
    "kind": "flight",
    "key": "k500",
    "now": START,
    "due": LATER,
    "until": LATER,
    "at": LATER,
    "expires": None,
    "wanted": 50,
    "before": 19_000,
    "bound": 50,
    "state": "sent",
    "error": "why",
    "given_up": 0,
    "was": "failed",
    "concluded": 0,
    "fence": 1,
    "sure": 1,
    "payload": "{}",
    "message": "{}",
    "queue": "q",
    "lane": "",
    "handle": "h",
    "raised": 1,
    "priority": 0,
    "number": 1,
    "pages": 1,
    "bytes": b"\0" * 8,
    "first": "k5",
    "last": "k6",
    "tasks": ["mail.submit", "mail.poll"],
}
# Where the same name is something else.
ESPECIALLY: dict[str, dict[str, Any]] = {
    "delivery.insert": {"job": 10**6},
    "delivery.decide": {"state": "failed"},
    "outbox.insert": {"id": 10**6, "key": "new", "round": 0},
    "outbox.search_lane": {"lane": "tenant"},
    "object.create": {"id": 10**6, "key": "new"},
}
SHAPES = {"delivery": DELIVERIES, "outbox": OUTBOXES, "object": OBJECTS, "moves": MOVES}
ALL: dict[str, Statement] = {
    f"{shape}.{name}": statement
    for shape, statements in SHAPES.items()
    for name, statement in vars(statements).items()
}


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def crowded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Kernel]:
    """Full tables, which no test changes for good."""
    with roomy(request, tmp_path_factory, "crowded_shapes") as kernel:
        yield filled(kernel)


def filled(kernel: Kernel) -> Kernel:
    kind = kernel.database.kind
    byte = "x'00'" if kind == "sqlite" else r"'\x00'::bytea"
    with kernel.database.transaction() as tx:
        for text in FILL:
            made = text.format(numbers=NUMBERS[kind], byte=byte)
            tx.write(made, **({"later": LATER} if ":later" in made else {}))
        if kind == "postgres":
            for table in ("job", "lane", "delivery", "outbox", "object", "object_page"):
                # Nobody tells the planner anything in the meantime.
                tx.write(f"alter table duework_{table} set (autovacuum_enabled = off)")
    return kernel


def work(kernel: Kernel, name: str) -> int:
    """What the statement touched, which is undone."""
    statement = ALL[name]
    known = VALUES | ESPECIALLY.get(name, {})
    values = {each: known[each] for each in statement.names}
    tx = kernel.database.begin()
    try:
        if kernel.database.kind == "sqlite":
            return _steps(tx, statement, values)
        if "unnest(" in statement.postgres:
            values = {key: [value] for key, value in values.items()}
        asked = f"explain (analyze, buffers, format json) {statement.postgres}"
        found = tx.query(replace(statement, postgres=asked), values)[0][0]
        top = (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]
        return int(top["Shared Hit Blocks"]) + int(top["Shared Read Blocks"])
    finally:
        kernel.database.rollback()


def _steps(tx: Any, statement: Statement, values: dict[str, Any]) -> int:
    counted: list[int] = []

    def count(event: dict[str, Any]) -> None:
        counted.append(event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"])

    tx.connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, count)
    try:
        tx.query(statement, values)
    finally:
        tx.connection.trace_v2(0, None)
    return sum(counted)


def test_no_statement_does_more_because_the_tables_are_full(crowded: Kernel) -> None:
    # One row takes some 50 steps, or 5 pages; a walk over a table 60,000 steps and more, or 100 pages.
    bound = 2000 if crowded.database.kind == "sqlite" else 60
    found: dict[str, int] = {}
    for when in ("never analysed", "analysed"):
        if when == "analysed":
            analyse(crowded)
        found |= {f"{name}, {when}": work(crowded, name) for name in ALL}

    # A page of 50 objects has an alarm and a lease for each, one of 50 channels their deliveries' jobs.
    pages = ("object.listed", "delivery.recent")
    allowed = {name: bound * (6 if name.startswith(pages) else 1) for name in found}
    assert {name: touched for name, touched in found.items() if touched > allowed[name]} == {}
