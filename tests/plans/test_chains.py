"""No statement of chains walks through their tables."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from duework.shapes.chains.verbs import CHAINS
from tests.support.kernel import Kernel

TEXTS = {"task", "key", "state", "cursor", "counts", "expected", "error", "quota"}
LOOKS = sorted(name for name, each in vars(CHAINS).items() if "insert into" not in each.sqlite)


def given(names: tuple[str, ...]) -> dict[str, Any]:
    return {name: [1] if name == "ids" else "done" if name in TEXTS else 1 for name in names}


@pytest.mark.parametrize("name", LOOKS)
def test_a_statement_of_chains_goes_by_an_index(kernel: Kernel, name: str) -> None:
    statement = vars(CHAINS)[name]
    asked = replace(
        statement,
        sqlite=f"explain query plan {statement.sqlite}",
        postgres=f"explain (costs off) {statement.postgres}",
    )
    tx = kernel.database.begin()
    try:
        if kernel.database.kind == "postgres":
            # The tables are empty: a walk is taken only where there is no other way.
            tx.write("set local enable_seqscan = off")
        lines = [str(row[-1]) for row in tx.query(asked, given(statement.names))]
    finally:
        kernel.database.rollback()

    assert lines
    walk = re.compile(r"SCAN (duework_|[pcj]\b)|Seq Scan on duework_")
    assert [line for line in lines if walk.search(line)] == []
