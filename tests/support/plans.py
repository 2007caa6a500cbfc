"""How a database would answer a query of a system: by an index, or by looking at every row."""

from __future__ import annotations

from duework import App


def by_index(app: App, sql: str) -> bool:
    """Whether an index leads to the rows; where there are few, PostgreSQL has to be told to use one."""
    with app.transaction() as tx:
        if app.url.startswith("sqlite"):
            plan = " ".join(row.detail for row in tx.read(f"explain query plan {sql}"))
            return plan.startswith("SEARCH")
        tx.write("set local enable_seqscan = off")
        plan = " ".join(str(row[0]) for row in tx.read(f"explain (costs off) {sql}"))
        return "Index" in plan and "Seq Scan" not in plan
