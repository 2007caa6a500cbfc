"""What the pages read: by an index, and no more because there is more in the tables.

The overview in every range, the list of jobs in every phase, one job and `/metrics` are opened, and each
statement that they run is asked for its plan and run again, counted: in steps of SQLite's machine, in pages
of PostgreSQL. There are 60,000 jobs and a week of minutes of twenty tasks. Statistics are as bad as they
get, then as good.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from starlette.testclient import TestClient

from duework import App
from duework.db.queries import Statement
from duework.health.activity import RANGES
from duework.kernel.minutes.counters import KEEP_MS, MINUTE, MINUTES
from duework.web.pages import PHASES
from duework.web.tokens import Tokens
from tests.plans.crowd import analyse, numbers, pages_of, roomy, steps_of
from tests.support.kernel import Kernel

pytestmark = pytest.mark.xdist_group("plans")

TASKS, JOBS_, WEEK = 20, 60_000, KEEP_MS // MINUTE
PATHS = [
    *(f"/?range={over}" for over in RANGES),
    *("/jobs", "/jobs?task=t1", "/jobs?queue=q", "/jobs?key=nobody", "/jobs?before=500"),
    *(f"/jobs?phase={phase}" for phase in PHASES),
    *("/jobs/500", "/metrics"),
]
LANES = """
    insert into duework_lane (id, queue, task, priority) select i, 'q', 't' || i, 0 from {numbers}"""
# A third is done, a third waits, and a third is ready; some have failed.
FILL = """
       insert into duework_job (id, lane, task, state, due, at, payload, checksum, settled)
       select i, i % 20 + 1, 't' || (i % 20 + 1),
              case when i % 30 = 0 then 'failed' when i % 3 = 0 then 'done' else 'open' end,
              case i % 3 when 0 then :later + i when 1 then :now - i else :now + i end,
              i, '[]', 0, case i % 3 when 0 then i end
       from {numbers}"""
MINUTES_OF = """
    insert into duework_minute
    select {span}, {start}, 'q', 't' || n.i, 1, 1, 0, 0, 0, 5, 5, 1, 0, 0, 0, 0, 0
    from {numbers} cross join {times}"""


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def crowded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Kernel]:
    with roomy(request, tmp_path_factory, "paged") as kernel:
        if kernel.database.kind == "postgres":
            for table in ("duework_job", "duework_minute"):
                off = f"alter table {table} set (autovacuum_enabled = off)"
                kernel.run(lambda tx, off=off: tx.write(off))
        fill(kernel)
        yield kernel


def fill(kernel: Kernel) -> None:
    kind, app = kernel.database.kind, App(kernel.database.url)
    now = app.now() // (15 * MINUTE) * 15 * MINUTE
    app.close()
    with kernel.database.transaction() as tx:
        tx.write(LANES.format(numbers=numbers(TASKS)[kind]))
        tx.write(FILL.format(numbers=numbers(JOBS_)[kind]), now=now, later=now + 10**9)
        for span, times in ((1, WEEK), (15, WEEK // 15), (0, 1)):
            ago = f"{now} - m.i * {span * MINUTE}" if span else "0"
            other = f"(select * from {numbers(times)[kind]}) m"
            few = numbers(TASKS)[kind]
            tx.write(MINUTES_OF.format(span=span, start=ago, numbers=few, times=other))


class Seen:
    """The statements that were run, each with the values of its costliest kind."""

    def __init__(self) -> None:
        self.all: list[tuple[Statement, dict[str, Any]]] = []


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    from duework.db.postgres.tx import PostgresTx
    from duework.db.sqlite.tx import SqliteTx

    made = Seen()
    for kind in (SqliteTx, PostgresTx):

        def noting(self: Any, statement: Any, values: Any, _run: Any = kind.query) -> Any:
            # That one reads no rows; on SQLite it is nothing but a comment.
            if statement.name != "in_order":
                made.all.append((statement, dict(values)))
            return _run(self, statement, values)

        monkeypatch.setattr(kind, "query", noting)
    return made


def opened(kernel: Kernel, seen: Seen) -> dict[str, list[tuple[Statement, dict[str, Any]]]]:
    """What each page ran."""
    app = App(kernel.database.url)
    try:
        bearer = {"authorization": f"Bearer {secret(app)}"}
        client = TestClient(app.asgi(), base_url="http://localhost")
        found = {}
        for path in PATHS:
            seen.all.clear()
            answer = client.get(path, headers=bearer)
            assert answer.status_code == 200, (path, answer.text)
            found[path] = list(seen.all)
        return found
    finally:
        app.close()


def secret(app: App) -> str:
    tokens = Tokens(app)
    return tokens.add(f"reader-{len(tokens.all())}", "read")


def plan(kernel: Kernel, text: Statement, values: dict[str, Any]) -> list[str]:
    asked = replace(
        text,
        sqlite=f"explain query plan {text.sqlite}",
        postgres=f"explain (costs off) {text.postgres}",
    )
    with kernel.reading() as tx:
        return [str(row[-1]) for row in tx.query(asked, values)]


def walks(lines: list[str]) -> list[str]:
    """Lines that go through a whole table that grows."""
    return [
        line
        for line in lines
        if re.match(r"SCAN (duework_job|duework_minute|j|w)$", line)
        or re.search(r"Seq Scan on (duework_job|duework_minute)\b", line)
    ]


def cost(kernel: Kernel, text: Statement, values: dict[str, Any]) -> int:
    if kernel.database.kind == "postgres":
        return pages_of(kernel, text, values)
    return steps_of(kernel, lambda: kernel.run(lambda tx: tx.query(text, values)))


# A count that stops at 100,000 counts 40,000 open jobs here; a week of quarter hours is 13,440 rows.
MOST = {"sqlite": 1_000_000, "postgres": 3_000}
COUNTS = {"summary": 80_000}
# A planner without statistics may walk through so few rows; of a million test_plans.py tells.
UNSURE = {"held_by_worker", "search_floor"}


@pytest.mark.parametrize("analysed", [False, True])
def test_every_statement_of_a_page_goes_by_an_index(
    crowded: Kernel, seen: Seen, analysed: bool
) -> None:
    if analysed:
        analyse(crowded)
    pages = opened(crowded, seen)

    ran = {
        statement.name: (statement, values) for each in pages.values() for statement, values in each
    }
    assert {"since", "done_by_task", "totals", "due_later", "search", "lanes"} <= set(ran)
    left_out = set() if analysed or crowded.database.kind == "sqlite" else UNSURE
    found = {
        name: walks(plan(crowded, *each)) for name, each in ran.items() if name not in left_out
    }
    assert {name: lines for name, lines in found.items() if lines} == {}
    costs = {name: cost(crowded, *each) for name, each in ran.items()}
    most = MOST[crowded.database.kind]
    high = {name: cost for name, cost in costs.items() if cost > max(most, COUNTS.get(name, 0))}
    assert high == {}
    assert max(len(each) for each in pages.values()) <= 20, {k: len(v) for k, v in pages.items()}


@pytest.mark.parametrize("over", ["1h", "24h"])
def test_minutes_of_another_time_cost_nothing(crowded: Kernel, seen: Seen, over: str) -> None:
    """The last hour reads an hour's rows: 60 of 10,080 minutes."""
    now = max(row[0] for row in crowded.run(lambda tx: tx.query(_NEWEST, {})))
    span, step, slots = {"1h": (1, MINUTE, 60), "24h": (15, 30 * MINUTE, 48)}[over]
    values = {"span": span, "since": now - slots * step, "step": step}
    rows = TASKS * slots * step // (span * MINUTE)
    for statement in (MINUTES.since, MINUTES.done_by_task):
        found = cost(crowded, statement, values)
        # About forty steps for each row; and a page for each, in the order they were written in here.
        assert found < (rows * 100 if crowded.database.kind == "sqlite" else 50 + rows * 1.2)


_NEWEST = replace(
    MINUTES.totals,
    name="newest",
    sqlite="select max(start) from duework_minute",
    postgres="select max(start) from duework_minute",
)
