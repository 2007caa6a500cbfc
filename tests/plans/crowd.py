"""Full tables for tests of plans: made once, changed by no test for good."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

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
