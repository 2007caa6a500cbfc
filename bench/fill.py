"""Puts jobs into a database: those that will run by the API, those that only lie there by SQL."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any, Literal

import apsw
import psycopg

from bench.bed import PATIENCE, Bed, file_of, worker_env

Lying = Literal["later", "done", "head"]

YEAR_MS = 365 * 86_400_000
CHUNK = 1000

# Ids below all those that are drawn: these jobs are older.
_NUMBERS = {
    "sqlite": """
with recursive n(i) as (select {first} union all select i + 1 from n where i < {last})""",
    "postgres": "with n(i) as (select generate_series({first}::bigint, {last}))",
}
# A transaction's worth; a larger one only makes the log larger.
LAYER = 500_000
_INSERT = """
insert into duework_job (id, lane, task, state, due, at, fence, payload, checksum, result, settled)
{numbers}
select i, {lane}, '{task}', '{state}', {due}, {at}, {fence}, '{payload}', 0, {result}, {settled}
from n
"""


def ready(bed: Bed, url: str, jobs: int, *, task: str = "noop", more: tuple[Any, ...] = ()) -> None:
    """Jobs that are due, numbered from 0."""
    bed.child(enqueue, env=worker_env(url), jobs=jobs, task=task, more=list(more))
    if not url.startswith("sqlite:"):
        # Without fresh statistics PostgreSQL may choose a plan for an empty table.
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("analyze")


def enqueue(jobs: int, task: str, more: list[Any]) -> int:
    """In a process of its own: see `ready`."""
    from bench import tasks

    chosen = getattr(tasks, task)
    if task == "work":
        with tasks.app.transaction() as tx:
            tx.write(tasks.EFFECT)
    for start in range(0, jobs, CHUNK):
        chosen.enqueue_many([(n, *more) for n in range(start, min(start + CHUNK, jobs))])
    tasks.app.close()
    return jobs


def lying(bed: Bed, url: str, rows: int, kind: Lying) -> None:
    """Rows that nobody here will run: due in a year, done long ago, or of a task not known here."""
    within = max(PATIENCE, rows / 20_000)
    bed.child(lay, env=worker_env(url), within=within, rows=rows, kind=kind)


def lay(rows: int, kind: Lying) -> int:
    """In a process of its own: see `lying`."""
    from bench import tasks

    url = os.environ["BENCH_URL"]
    other = tasks.app.task(name="bench.other")(tasks.noop.definition.function)
    first = other.using(delay=YEAR_MS / 1000).enqueue(0)
    tasks.app.close()
    now = time.time_ns() // 1_000_000
    values = {
        "task": "bench.other",
        "state": "done" if kind == "done" else "open",
        "due": {"later": f"{now + YEAR_MS} + i", "done": f"{now + YEAR_MS} + i"}.get(
            kind, f"{now - YEAR_MS} + i"
        ),
        "at": now,
        "fence": int(kind == "done"),
        "payload": '{"number":0}',
        "result": "'null'" if kind == "done" else "null",
        "settled": f"{now} + i" if kind == "done" else "null",
    }
    lane = f"(select lane from duework_job where id = {first.id})"
    if url.startswith("sqlite:"):
        connection = apsw.Connection(str(file_of(url)), flags=apsw.SQLITE_OPEN_READWRITE)
        for numbers in _layers("sqlite", rows):
            connection.execute(_INSERT.format(numbers=numbers, lane=lane, **values))
        connection.execute("pragma wal_checkpoint(truncate)")
        connection.close()
    else:
        with psycopg.connect(url, autocommit=True) as server:
            for numbers in _layers("postgres", rows):
                server.execute(_INSERT.format(numbers=numbers, lane=lane, **values).encode())
            server.execute("vacuum analyze")
    return rows


def _layers(kind: str, rows: int) -> Iterator[str]:
    for first in range(1, rows + 1, LAYER):
        yield _NUMBERS[kind].format(first=first, last=min(first + LAYER - 1, rows))
