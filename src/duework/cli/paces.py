"""`duework paces`: list them, look at one, block it, free it, start and stop it."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import click

from duework import App, PaceStatus
from duework.cli.base import examples, on_database
from duework.cli.out import Out
from duework.durations import human


@click.group()
def paces() -> None:
    """List, look at, block and reset paces."""


@paces.command("list", epilog=examples("duework paces list", "duework paces list --json"))
@click.option("--prefix", default="", help="Only those whose names begin so.")
@click.option("--limit", default=100, show_default=True, help="At most so many.")
@on_database()
def list_(app: App, out: Out, prefix: str, limit: int) -> None:
    """List paces, by name. With --json: one object per line."""
    found = app.paces(prefix, limit=limit)
    if out.as_json:
        for each in found:
            out.json(_plain(each))
    elif found:
        now = app.now()
        rows = [_row(each, now) for each in found]
        out.table(["pace", "kind", ">used", ">of", "note"], rows)
    else:
        out.say("no paces yet")


@paces.command(epilog=examples("duework paces show strava", "duework paces show strava --json"))
@click.argument("name")
@on_database()
def show(app: App, out: Out, name: str) -> None:
    """Show one pace with everything it knows."""
    found = app.pace(name)
    if out.as_json:
        out.json(_plain(found))
        return
    lines = [(key, value) for key, value in _plain(found).items() if value not in (None, [], {})]
    details: Any = dict(lines).get("details", {})
    for key, value in [*(line for line in lines if line[0] != "details"), *details.items()]:
        out.say(f"{key}: {value}")


@paces.command(epilog=examples("duework paces block strava 15m", "duework paces block strava 0s"))
@click.argument("name")
@click.argument("length")
@on_database()
def block(app: App, out: Out, name: str, length: str) -> None:
    """Start nothing more of a pace for so long; 0s ends that."""
    app.block_pace(name, length)
    _said(app, out, name)


@paces.command(epilog=examples("duework paces reset strava"))
@click.argument("name")
@on_database()
def reset(app: App, out: Out, name: str) -> None:
    """Let a pace forget everything: what it used, what blocks it, what it learned."""
    app.reset_pace(name)
    _said(app, out, name)


@paces.command(epilog=examples("duework paces stop enrich"))
@click.argument("name")
@on_database()
def stop(app: App, out: Out, name: str) -> None:
    """Let an adaptive pace admit nothing until it is started again."""
    app.pace(name).stop()
    _said(app, out, name)


@paces.command(epilog=examples("duework paces start enrich"))
@click.argument("name")
@on_database()
def start(app: App, out: Out, name: str) -> None:
    """Let an adaptive pace that was stopped admit jobs again."""
    app.pace(name).start()
    _said(app, out, name)


def _plain(each: PaceStatus) -> dict[str, Any]:
    return {
        one.name: getattr(each, one.name) for one in fields(each) if not one.name.startswith("_")
    }


def _row(each: PaceStatus, now: int) -> tuple[object, ...]:
    return (each.name, each.kind, each.used, each.limit or None, _note(each, now))


def _note(each: PaceStatus, now: int) -> str:
    details = each.details
    if each.blocked_until is not None:
        return f"blocked for {human(each.blocked_until - now)}"
    if details.get("running") is False or each.stopped:
        return "stopped"
    if each.waits_until is not None:
        return f"more in {human(each.waits_until - now)}"
    if "success_rate" in details:
        every = human(details["current_interval_ms"])
        return f"{details['current_batch_size']} every {every}, {details['success_rate']} %"
    return ""


def _said(app: App, out: Out, name: str) -> None:
    found = app.pace(name)
    if out.as_json:
        out.json(_plain(found))
    else:
        out.say(f"{name} {_note(found, app.now()) or 'open'}")
