"""`duework queues`: list, pause, resume and empty queues."""

from __future__ import annotations

from collections.abc import Mapping

import click

from duework import App, NotFound, TaskStatus
from duework.cli.base import Group, check_queue, examples, on_database, sure
from duework.cli.out import Out, at_least
from duework.durations import human
from duework.errors import meant


@click.group(cls=Group)
def queues() -> None:
    """List, pause, resume and empty queues."""


@queues.command("list", epilog=examples("duework queues list", "duework queues list --json"))
@on_database()
def list_(app: App, out: Out) -> None:
    """List queues. With --json: one object per line."""
    seen = app.status()
    by_name: dict[str, list[TaskStatus]] = {}
    for line in seen.tasks:
        by_name.setdefault(line.queue, []).append(line)
    for name in seen.paused:
        if name != "*":
            by_name.setdefault(name, [])
    rows = [
        {
            "queue": name,
            "ready": sum(line.ready for line in lines),
            "waiting": sum(line.waiting for line in lines),
            "running": sum(line.running for line in lines),
            "lag_ms": max((line.lag for line in lines if line.lag is not None), default=None),
            "paused": name in seen.paused or "*" in seen.paused,
        }
        for name, lines in sorted(by_name.items())
    ]
    if out.as_json:
        for row in rows:
            out.json(row)
    elif rows:
        out.table(
            ["queue", ">ready", ">waiting", ">running", ">lag", "note"], [_row(r) for r in rows]
        )
    else:
        out.say("no queues yet")
    if "*" in seen.paused:
        out.say("everything is paused: `duework queues resume '*'`", "yellow")


def _row(row: Mapping[str, object]) -> tuple[object, ...]:
    lag = row["lag_ms"]
    return (
        row["queue"],
        *(at_least(int(str(row[key]))) for key in ("ready", "waiting", "running")),
        human(lag) if isinstance(lag, int) else None,
        "paused" if row["paused"] else "",
    )


@queues.command(epilog=examples("duework queues pause mail", "duework queues pause '*'"))
@click.argument("name")
@on_database()
def pause(app: App, out: Out, name: str) -> None:
    """Start no more jobs of a queue, or of all ('*'). What runs goes on; what waits is kept."""
    app.pause(check_queue(app, name))
    _said(out, name, "paused")


@queues.command(epilog=examples("duework queues resume mail", "duework queues resume '*'"))
@click.argument("name")
@on_database()
def resume(app: App, out: Out, name: str) -> None:
    """Start jobs of a queue again. `resume '*'` ends `pause '*'`, not the pauses of single queues."""
    app.resume(check_queue(app, name))
    left = app.paused()
    _said(out, name, "paused" if name in left or "*" in left else "resumed")


@queues.command(epilog=examples("duework queues purge mail", "duework queues purge mail --yes"))
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@on_database()
def purge(app: App, out: Out, name: str, *, yes: bool) -> None:
    """Cancel every job of a queue that nobody runs."""
    lines = [line for line in app.status().tasks if line.queue == name]
    if not lines:
        raise NotFound(f"there is no queue {name}{meant(name, app.admin.queues())}")
    total = sum(line.ready + line.waiting for line in lines)
    sure(f"Cancel {at_least(total)} jobs of {name}?", yes=yes, as_json=out.as_json)
    count = 0
    with out.progress("cancelling", total) as move:
        for some in app.admin.purge_queue(name):
            count += some
            move(some)
    if out.as_json:
        out.json({"queue": name, "cancelled": count})
    else:
        out.say(f"{count} cancelled")


def _said(out: Out, name: str, state: str) -> None:
    if out.as_json:
        out.json({"queue": name, "state": state})
    else:
        out.say(f"{name} {state}")
