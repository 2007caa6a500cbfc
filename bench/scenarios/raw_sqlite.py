"""What can SQLite itself do, with no framework and the same durability?"""

from __future__ import annotations

import itertools
from time import perf_counter
from typing import Any

import apsw

from bench.bed import Bed, file_of
from bench.figures import Figure

QUESTION = "How fast is a bare loop over one table, WAL, synchronous=FULL, rows kept?"
FIGURES = (
    Figure("raw_loop", "raw SQLite: claim 500 + settle 500", "/s"),
    Figure("raw_bulk", "raw SQLite: 1,000 rows per commit", "/s"),
)

BATCH = 500
BULK = 1000
SCHEMA = """
create table job (
    id integer primary key,
    lane integer not null,
    task text not null,
    state text not null default 'open',
    due integer not null,
    fence integer not null default 0,
    worker integer,
    payload text not null,
    result text,
    settled integer
) strict;
create index job_ready on job (lane, due) where state = 'open' and worker is null;
create index job_leased on job (due) where worker is not null;
create index job_kept on job (due) where state <> 'open';
"""
INSERT = "insert into job (lane, task, due, payload) values (1, 'noop', ?, ?)"
CLAIM = f"""
update job set worker = 1, fence = fence + 1, due = 9000000
where id in (
    select id from job
    where lane = 1 and state = 'open' and worker is null and due <= 1000000
    order by due, id limit {BATCH}
)
returning id, fence, task, payload
"""
SETTLE = """
update job set state = 'done', worker = null, due = 8000000, result = 'null', settled = 7000000
where id = ? and fence = ? and worker = 1 and state = 'open'
"""


def sample(bed: Bed) -> dict[str, float]:
    told: dict[str, float] = bed.child(measure, url=bed.sqlite(), rows=bed.scaled(100_000, 20_000))
    return told


def measure(url: str, rows: int) -> dict[str, float]:
    connection = opened(url)
    return {"raw_bulk": rows / _bulk(connection, rows), "raw_loop": rows / _loop(connection)}


def opened(url: str) -> apsw.Connection:
    """A connection with the bare table."""
    connection = apsw.Connection(str(file_of(url)))
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "full")
    connection.execute(SCHEMA)
    return connection


def _bulk(connection: apsw.Connection, rows: int) -> float:
    start = perf_counter()
    for chunk in range(0, rows, BULK):
        connection.execute("begin immediate")
        values = [(number, '{"number":1}') for number in range(chunk, chunk + BULK)]
        connection.executemany(INSERT, values)
        connection.execute("commit")
    return perf_counter() - start


def _loop(connection: apsw.Connection) -> float:
    """Each transaction settles what the one before it claimed, and claims the next."""
    start = perf_counter()
    held: list[Any] = []
    for turn in itertools.count():
        connection.execute("begin immediate")
        if held:
            connection.executemany(SETTLE, [(row[0], row[1]) for row in held])
        held = connection.execute(CLAIM).fetchall()
        connection.execute("commit")
        if turn and not held:
            break
    elapsed = perf_counter() - start
    left = connection.execute("select count(*) from job where state <> 'done'").fetchall()
    assert left == [(0,)], "every row is settled"
    return elapsed
