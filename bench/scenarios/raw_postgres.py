"""What can PostgreSQL itself do, with no framework and the same durability?"""

from __future__ import annotations

from time import perf_counter

import psycopg

from bench.bed import Bed
from bench.figures import Figure

QUESTION = "How fast is a bare loop over one table on PostgreSQL, one connection, rows kept?"
FIGURES = (Figure("raw_pg_loop", "raw PostgreSQL: claim 100 + settle 100", "/s"),)

SCHEMA = """
create table job (
    id bigint generated always as identity primary key,
    lane integer not null,
    task text not null,
    state text not null default 'open',
    due bigint not null,
    fence integer not null default 0,
    worker bigint,
    payload text not null,
    result text,
    settled bigint
);
create index job_ready on job (lane, due) where state = 'open' and worker is null;
create index job_leased on job (due) where worker is not null;
create index job_kept on job (due) where state <> 'open';
"""
FILL = """
insert into job (lane, task, due, payload)
select 1, 'noop', i, '{"number":1}' from generate_series(1, %s) i
"""
INSERT = "insert into job (lane, task, due, payload) values (1, 'noop', %s, '{\"number\":1}')"
CLAIM = """
update job set worker = 1, fence = fence + 1, due = 9000000
where id in (
    select id from job
    where lane = 1 and state = 'open' and worker is null and due <= 1000000
    order by due, id limit 100
    for update skip locked
)
returning id, fence, task, payload
"""
SETTLE = """
update job set state = 'done', worker = null, due = 8000000, result = 'null', settled = 7000000
from unnest(%s::bigint[], %s::int[]) as ended (id, fence)
where job.id = ended.id and job.fence = ended.fence and worker = 1 and state = 'open'
"""


def sample(bed: Bed) -> dict[str, float]:
    url = bed.postgres()
    told: dict[str, float] = bed.child(measure, url=url, rows=bed.scaled(30_000, 5000))
    bed.drop(url)
    return told


def measure(url: str, rows: int) -> dict[str, float]:
    with opened(url) as connection:
        connection.execute(FILL, (rows,))
        connection.execute("vacuum analyze job")
        return {"raw_pg_loop": rows / _loop(connection)}


def opened(url: str) -> psycopg.Connection:
    """A connection with the bare table."""
    connection = psycopg.connect(url, autocommit=True)
    connection.execute(SCHEMA)
    return connection


def _loop(connection: psycopg.Connection) -> float:
    """A commit for each claim and one for each settle."""
    start = perf_counter()
    while held := connection.execute(CLAIM, prepare=True).fetchall():
        ended = ([row[0] for row in held], [row[1] for row in held])
        connection.execute(SETTLE, ended, prepare=True)
    elapsed = perf_counter() - start
    left = connection.execute("select count(*) from job where state <> 'done'").fetchall()
    assert left == [(0,)], "every row is settled"
    return elapsed
