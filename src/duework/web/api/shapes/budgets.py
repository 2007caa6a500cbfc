"""Budgets by HTTP: what is spent, reserved and left, the ledger of one, and raising it."""

from __future__ import annotations

from duework.shapes.budgets.handle import BudgetStatus, SpendEntry
from duework.web.api.operation import FIRST_ID, Ask, acts, line_of, noted, page_of, place_of, reads
from duework.web.api.record_types import BudgetLine, BudgetQuery, RaiseBudget, SpendLine
from duework.web.api.types import Listed, PageQuery

# Decimal texts: a float would not say what was spent.
AMOUNTS = ("limit", "declared", "spent", "reserved", "left")


def budgets(ask: Ask) -> Listed[BudgetLine]:
    """Every budget of which something was reserved, by name."""
    wanted: BudgetQuery = ask.query
    after = place_of(wanted.cursor, str, "")
    found = ask.app.budgets(wanted.prefix, after=after, limit=wanted.limit)
    return page_of(found, wanted.limit, _line, lambda each: each.name)


def budget(ask: Ask) -> BudgetLine:
    """One budget in its present period."""
    return _line(ask.app.get_budget(ask.path["name"]))


def _line(seen: BudgetStatus) -> BudgetLine:
    amounts = {name: str(getattr(seen, name)) for name in AMOUNTS}
    return line_of(BudgetLine, seen, **amounts)


def ledger(ask: Ask) -> Listed[SpendLine]:
    """What was spent of a budget, newest first."""
    before = place_of(ask.query.cursor, int, FIRST_ID)
    found = ask.app.get_budget(ask.path["name"]).ledger(before=before, limit=ask.query.limit)
    return page_of(found, ask.query.limit, _entry, lambda each: each.id)


def _entry(seen: SpendEntry) -> SpendLine:
    return line_of(SpendLine, seen, id=str(seen.id), amount=str(seen.amount))


def raise_it(ask: Ask) -> BudgetLine:
    """Change the limit; jobs that wait for that go on."""
    seen, limit = ask.app.get_budget(ask.path["name"]), ask.body.limit
    noted(ask, "raise", f"budget {seen.name}", lambda: seen.raise_to(limit))
    return budget(ask)


_ONE = "/budgets/{name}"
OPERATIONS = (
    reads("/budgets", budgets, Listed[BudgetLine], BudgetQuery),
    reads(_ONE, budget, BudgetLine),
    reads(f"{_ONE}/ledger", ledger, Listed[SpendLine], PageQuery),
    acts(f"{_ONE}/raise", raise_it, BudgetLine, RaiseBudget),
)
