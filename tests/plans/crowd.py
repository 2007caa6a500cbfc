"""Full tables for tests of plans: made once, changed by no test for good."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import apsw
import pytest

from duework.db.queries import Statement
from tests.support.kernel import Kernel
from tests.support.postgres import Server


def numbers(rows: int) -> dict[str, str]:
    """A table `n(i)` from 1 on, as each database spells it."""
    return {
        "sqlite": f"""(with recursive n(i) as (select 1 union all select i + 1 from n where i < {rows})
                       select i from n) n""",
        "postgres": f"generate_series(1, {rows}) as n(i)",
    }


@contextmanager
def roomy(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, name: str
) -> Iterator[Kernel]:
    """A kernel for a whole module, on the database that the fixture's parameter names."""
    if request.param == "sqlite":
        with Kernel(f"sqlite:///{tmp_path_factory.mktemp('plans') / 'crowded.db'}") as kernel:
            yield kernel
        return
    running: Server = request.getfixturevalue("postgres")
    url = running.create_database(name, template=request.getfixturevalue("postgres_template"))
    with Kernel(url) as kernel:
        yield kernel
    running.drop_database(name)


def analyse(kernel: Kernel) -> None:
    connection = kernel.database.connect()
    if kernel.database.kind == "postgres":
        connection.autocommit = True
    connection.execute("analyze")
    connection.close()


def steps_of(kernel: Kernel, function: Any) -> int:
    """Steps of SQLite's machine in all statements that the function runs."""
    counted: list[int] = []
    database: Any = kernel.database
    # A statement that is prepared already goes on counting.
    database._drop_connections()  # noqa: SLF001 - nothing else does
    connection = database._write_connection()  # noqa: SLF001 - the one that is looked at

    def count(event: dict[str, Any]) -> None:
        counted.append(event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"])

    connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, count)
    try:
        function()
    finally:
        connection.trace_v2(0, None)
    return sum(counted)


def pages_of(kernel: Kernel, text: Statement, values: dict[str, Any]) -> int:
    """Pages that PostgreSQL looked at for a statement, which is undone."""
    asked = replace(text, postgres=f"explain (analyze, buffers, format json) {text.postgres}")
    tx = kernel.database.begin()
    try:
        found = tx.query(asked, values)[0][0]
    finally:
        kernel.database.rollback()
    top = (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]
    return int(top["Shared Hit Blocks"]) + int(top["Shared Read Blocks"])
