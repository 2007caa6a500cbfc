"""`duework graph`: what is declared on an App, as a list, JSON or a drawing."""

from __future__ import annotations

from dataclasses import asdict
from html import escape
from typing import Any

import click

from duework import UsageError
from duework.cli.base import OK, closing, examples, load
from duework.cli.out import Out

WIDTH, HEIGHT, GAP, ACROSS = 220, 30, 12, 90
# What leads to tasks stands left of them, and what they need right.
COLUMNS = {"task": 1, "queue": 2, "pace": 3}


@click.command(
    epilog=examples("duework graph shop.work:app", "duework graph shop.work:app --svg > graph.svg")
)
@click.argument("app_name", metavar="[MODULE:APP]", required=False, envvar="DUEWORK_APP")
@click.option("--svg", "as_svg", is_flag=True, help="Draw it.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
@click.pass_context
def graph(context: click.Context, app_name: str | None, *, as_svg: bool, as_json: bool) -> None:
    """Show all that an App declares: tasks, schedules, queues, paces, outboxes, objects, routes.

    Needs no database, but MODULE:APP or $DUEWORK_APP. With --json: one object per line, with what it leads
    to.
    """
    if not app_name:
        raise UsageError("say which App to show: duework graph MODULE:APP, or $DUEWORK_APP")
    out = Out(as_json=as_json)
    with closing(load(app_name)) as app:
        nodes = app.admin.graph()
    if as_json:
        for each in nodes:
            out.json(asdict(each))
    elif as_svg:
        click.echo(drawing(nodes))
    else:
        rows = [(each.kind, each.name, each.says, ", ".join(each.to)) for each in nodes]
        out.table(["!kind", "*name", "says", "leads to"], rows)
    context.exit(OK)


def drawing(nodes: list[Any]) -> str:
    """A picture in four columns, without a script or a font of its own."""
    places = _places(nodes)
    lines = [_line(places[each.id], places[to]) for each in nodes for to in each.to if to in places]
    boxes = [_box(each, *places[each.id]) for each in nodes]
    width = 4 * WIDTH + 3 * ACROSS + 2 * GAP
    height = max((y for _, y in places.values()), default=0) + HEIGHT + GAP
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
    style = ' font-family="sans-serif" font-size="12">'
    return "\n".join([head + style, *lines, *boxes, "</svg>"])


def _places(nodes: list[Any]) -> dict[str, tuple[int, int]]:
    filled = [0, 0, 0, 0]
    places = {}
    for each in nodes:
        column = COLUMNS.get(each.kind, 0)
        places[each.id] = (GAP + column * (WIDTH + ACROSS), GAP + filled[column] * (HEIGHT + GAP))
        filled[column] += 1
    return places


def _line(one: tuple[int, int], other: tuple[int, int]) -> str:
    x, y, u, v = one[0] + WIDTH, one[1] + HEIGHT // 2, other[0], other[1] + HEIGHT // 2
    middle = (x + u) // 2
    return f'<path d="M{x} {y}C{middle} {y} {middle} {v} {u} {v}" fill="none" stroke="#999"/>'


def _box(each: Any, x: int, y: int) -> str:
    label = f"{each.kind} {each.name}"
    short = label if len(label) <= 32 else label[:31] + "…"  # noqa: PLR2004 - what fits
    return (
        f'<g><title>{escape(f"{label} {each.says}")}</title><rect x="{x}" y="{y}" width="{WIDTH}"'
        f' height="{HEIGHT}" rx="4" fill="#eef" stroke="#66a"/>'
        f'<text x="{x + 8}" y="{y + 19}">{escape(short)}</text></g>'
    )
