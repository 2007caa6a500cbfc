"""`duework budgets`: list them, look at one and its ledger, raise it."""

from __future__ import annotations

from typing import Any

import click

from duework import App, BudgetStatus
from duework.cli.base import Group, examples, on_database
from duework.cli.out import Out, ago
from duework.durations import human


@click.group(cls=Group)
def budgets() -> None:
    """List budgets, look at their ledgers, raise them."""


@budgets.command("list", epilog=examples("duework budgets list", "duework budgets list --json"))
@click.option("--prefix", default="", help="Only those whose names begin so.")
@click.option("--limit", default=100, show_default=True, help="At most so many.")
@on_database()
def list_(app: App, out: Out, prefix: str, limit: int) -> None:
    """List budgets, by name. With --json: one object per line."""
    found, now = app.budgets(prefix, limit=limit), app.now()
    if out.as_json:
        for each in found:
            out.json(_plain(each))
    elif found:
        rows = [
            (e.name, e.spent, e.reserved, e.limit, e.per, f"in {human(e.turns_at - now)}")
            for e in found
        ]
        out.table(["!budget", ">spent", ">reserved", ">limit", "per", ">turns"], rows)
    else:
        out.say("no budgets yet")


@budgets.command(epilog=examples("duework budgets show llm", "duework budgets show llm --json"))
@click.argument("name")
@click.option("--limit", default=20, show_default=True, help="So many rows of the ledger.")
@on_database()
def show(app: App, out: Out, name: str, limit: int) -> None:
    """Show one budget and what was spent of it, newest first."""
    found, now = app.get_budget(name), app.now()
    ledger = found.ledger(limit=limit)
    if out.as_json:
        rows = [
            {"id": e.id, "amount": str(e.amount), "state": e.state, "note": e.note, "at": e.at}
            for e in ledger
        ]
        out.json({**_plain(found), "ledger": rows})
        return
    out.say(f"{name}: {found.left} of {found.limit} left this {found.per}")
    lines = [(ago(e.at, now), e.amount, e.state, e.note) for e in ledger]
    out.table(["!when", ">amount", "state", "*note"], lines)


@budgets.command("raise", epilog=examples("duework budgets raise llm 10"))
@click.argument("name")
@click.argument("limit")
@on_database()
def raise_(app: App, out: Out, name: str, limit: str) -> None:
    """Change the limit; jobs that wait for that go on."""
    app.get_budget(name).raise_to(limit)
    found = app.get_budget(name)
    if out.as_json:
        out.json(_plain(found))
    else:
        out.say(f"{name}: {found.left} of {found.limit} left this {found.per}")


def _plain(each: BudgetStatus) -> dict[str, Any]:
    amounts = {
        name: str(getattr(each, name))
        for name in ("limit", "spent", "reserved", "left", "declared")
    }
    return {"name": each.name, **amounts, "per": each.per, "tz": each.tz, "turns_at": each.turns_at}
