"""`duework metrics`: what the program counts of its own."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from duework import App, MetricPoint
from duework.cli.base import Group, examples, on_database
from duework.cli.out import Out, ago


@click.group(cls=Group)
def metrics() -> None:
    """List and show what the program counts of its own."""


@metrics.command("list", epilog=examples("duework metrics list", "duework metrics list --json"))
@on_database()
def list_(app: App, out: Out) -> None:
    """List the sums of all time, by name and labels. With --json: one object per line."""
    _print(out, app.metrics.totals(), ["*name", "*labels"], lambda p: (p.name, _labels(p)))


@metrics.command(epilog=examples("duework metrics show apps_discovered --span hour"))
@click.argument("name")
@click.option(
    "--span",
    type=click.Choice(["minute", "hour", "day"]),
    default="hour",
    show_default=True,
    help="What a line sums.",
)
@click.option("--limit", default=1000, show_default=True, help="At most so many.")
@on_database()
def show(app: App, out: Out, name: str, span: Any, limit: int) -> None:
    """Show what was counted under NAME, oldest first. With --json: one object per line."""
    now, found = app.now(), app.metrics.read(name, span, limit=limit)
    _print(out, found, ["since", "*labels"], lambda p: (ago(p.start, now), _labels(p)))


def _print(out: Out, found: list[MetricPoint], heads: list[str], first: Any) -> None:
    if out.as_json:
        for each in found:
            out.json(asdict(each))
    elif found:
        rows = [(*first(p), p.count, f"{p.total:.6g}", f"{p.most:.6g}") for p in found]
        out.table([*heads, ">count", ">total", ">most"], rows)
    else:
        out.say("nothing was counted")


def _labels(point: MetricPoint) -> str:
    return ", ".join(f"{name}={value}" for name, value in point.labels.items())
