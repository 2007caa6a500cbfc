"""Costs for people and programs: a page, two routes, and the commands `costs`, `claims` and `crons`."""

from __future__ import annotations

import json
from typing import Any

import click

from duework import Template
from systems.scout.cli import examples
from systems.scout.desk import shown
from systems.scout.economy import deploy, model, prices, reading
from systems.scout.economy.figures import ROWS
from systems.scout.part import part


@part.route("/v1/costs")
def costs() -> dict[str, Any]:
    return reading.costs()


@part.route("/v1/figures")
def figures() -> dict[str, Any]:
    return reading.health()


@part.page("/costs", title="Costs", nav=False, live=("jobs", "budgets"))
def page() -> Template:
    return shown.page(
        "costs.html",
        "costs",
        **reading.costs(),
        figures=reading.health(),
        to_a_bound=ROWS,
        claims=model.claims(),
        prices=list(prices.PRICES.values()),
        expected=deploy.expected(),
        tables=len(reading.tables()),
    )


@part.command
@click.command(name="costs", epilog=examples("costs", "costs --json"))
@click.option("--json", "as_json", is_flag=True, help="Everything, as JSON.")
def show_costs(*, as_json: bool) -> None:
    """What was used and what it cost: budget, ceiling, days."""
    found = reading.costs()
    if as_json:
        click.echo(json.dumps(found))
        return
    budget, cycles = found["budget"], found["ceiling"]
    click.echo(f"analyst   {found['analyst']}")
    click.echo(f"llm       ${budget['spent']:.6f} of ${budget['limit']:.2f} today")
    click.echo(
        f"cycles    {cycles['cycles']:,} of {cycles['most']:,} this month, {cycles['skipped']:,} skipped"
    )
    for day in found["days"]:
        click.echo(
            f"{day['day']}  {day['service']:<5} {day['what']:<14} {day['calls']:>9,} calls"
            f" {day['units_in']:>12,} in {day['units_out']:>12,} out  ${day['cost'] / 1_000_000:.6f}"
        )


@part.command
@click.command(name="claims", epilog=examples("claims"))
def claims() -> None:
    """The article's figures, computed again from prices with a source."""
    for line in model.claims():
        why = f": {line.why}" if line.why else ""
        says = "holds" if line.holds else f"does not hold{why}"
        click.echo(
            f"{line.row}  {line.what}: {line.claimed:g}, computed {line.computed:.4g}; {says}"
        )


@part.command
@click.command(name="crons", epilog=examples("crons"))
def crons() -> None:
    """Before a first deployment: what runs when and why, and the most that a month can cost."""
    found = deploy.expected()
    for each in found["crons"]:
        click.echo(f"{each['rule']:<14} {each['key']:<18} {each['why']}")
    most = found["most_a_month"]
    click.echo(
        f"at most ${most['llm_dollars']:.2f} for models and {most['cycles']:,} cycles a month"
    )
    for doubt in found["doubts"]:
        click.echo(doubt, err=True)
    if found["doubts"]:
        raise SystemExit(1)
