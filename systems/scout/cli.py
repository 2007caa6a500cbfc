"""Commands: `duework scout status | first | opportunities | seed`."""

from __future__ import annotations

import json

import click

from systems.scout import first as small_run
from systems.scout import reading
from systems.scout.part import part
from systems.scout.seed import seed as plant


@part.command
def status() -> None:
    """What each stage has done and waits for."""
    for each in reading.stages(part.app.now()):
        click.echo(f"{each['name']:<12}{each['value']:>9,g} {each['unit']:<12} {each['says']}")


@part.command
def first() -> None:
    """Take a few apps through all five stages at once; workers do it."""
    chain = small_run.start()
    click.echo(f"chain {chain.id} {'is under way already' if chain.existed else 'has begun'}")


@part.command
def seed() -> None:
    """Add the categories of the store; the crawl scans them by itself."""
    click.echo(f"{plant(part.app, small_run=False)} charts are scanned in turn")


@part.command
@click.command(name="opportunities")
@click.option("--limit", type=click.IntRange(1, 200), default=20, help="How many.")
@click.option("--json", "as_json", is_flag=True, help="A line of JSON for each.")
def list_opportunities(*, limit: int, as_json: bool) -> None:
    """The best ones first."""
    for each in reading.opportunities(limit):
        if as_json:
            click.echo(json.dumps(each))
        else:
            click.echo(
                f"{each['score']:5.1f}  {each['verdict']:<6} {each['cluster']}  {each['name']}"
            )
