"""Budgets: what is spent, reserved and left in the present period; the ledger of one; raise it."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import partial

from starlette.responses import Response

from duework.db.database import Tx
from duework.shapes.budgets import verbs
from duework.shapes.budgets.handle import Budget, BudgetStatus
from duework.shapes.budgets.periods import millionths
from duework.web.acts import acted
from duework.web.filters import amount
from duework.web.lists import PAGE, address, before, required, show, text
from duework.web.regions import regions
from duework.web.table import NavItem, OwnPage
from duework.web.visits import Visit


def _share(each: BudgetStatus) -> tuple[float, float]:
    """Which parts of the limit are spent and reserved."""
    most = float(each.limit) or 1.0
    spent = min(float(each.spent) / most, 1.0)
    return spent, min(float(each.reserved) / most, 1.0 - spent)


def _worded(visit: Visit) -> Callable[[str, Decimal], str]:
    """An amount of a budget, with its unit where this App declares the budget."""
    declared = [each for each in visit.app.wiring.shapes if isinstance(each, Budget)]
    units = {each.name: each.unit for each in declared}
    return lambda name, value: amount(value, units.get(name, ""))


def budgets(visit: Visit) -> Response:
    """By name, with those that are used up in the verdict."""
    prefix = text(visit, "prefix")
    rows = visit.app.budgets(prefix, limit=PAGE)
    return show(
        *(visit, "budgets.html"),
        rows=rows,
        used_up=[each for each in rows if each.left == 0],
        share=_share,
        worded=_worded(visit),
        filters=[("prefix", "Names that begin with", prefix)],
        chosen=[("prefix", prefix, address(visit.base, "/budgets"))] if prefix else [],
    )


def budget(visit: Visit) -> Response:
    """One budget and its ledger, newest first."""
    found = visit.app.get_budget(required(visit, "name"))
    entries = found.ledger(before=before(visit), limit=PAGE + 1)
    shown = entries[:PAGE]

    def here(**more: int) -> str:
        return address(visit.base, "/budgets/one", name=found.name, **more)

    return show(
        *(visit, "budget.html"),
        heading=found.name,
        budget=found,
        entries=shown,
        share=_share(found),
        worded=partial(_worded(visit), found.name),
        newest=here() if visit.asked("before") else "",
        older=here(before=shown[-1].id) if len(entries) > PAGE else "",
    )


def raise_it(visit: Visit) -> Response:
    """Change the limit; jobs that wait for that go on."""
    name, limit = required(visit, "name"), millionths(required(visit, "limit"))
    engine = visit.app.wiring.engine

    def act(tx: Tx) -> str:
        verbs.raise_to(tx, [(name, limit)], engine)
        return "raised"

    return acted(visit, "raise", f"budget {name}", act, "The limit is changed")


LIVE = regions("budgets", budgets=2.0)
ONE = regions("budgets", head=2.0, detail=2.0)
PAGES = [
    OwnPage("/budgets", budgets, live=LIVE, nav=NavItem("Budgets", "budgets", "Outside")),
    OwnPage("/budgets/one", budget, live=ONE),
    OwnPage("/budgets/raise", raise_it, "operate", "POST"),
]
