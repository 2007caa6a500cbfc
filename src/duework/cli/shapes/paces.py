"""`duework paces`: list them, look at one, block it, free it, start and stop it."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import click

from duework import App, PaceStatus
from duework.cli.base import Group, examples, on_database
from duework.cli.out import Out, ago
from duework.durations import human

# Of what an adaptive pace has changed, the last ones.
SHOWN = 10


@click.group(cls=Group)
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
    found = app.get_pace(name)
    if out.as_json:
        out.json(_plain(found))
        return
    show_pace(out, found, app.now())


def show_pace(out: Out, found: PaceStatus, now: int) -> None:
    known = _plain(found)
    details, history = known.pop("details"), known.pop("history")
    plain = {key: value for key, value in details.items() if not isinstance(value, dict)}
    rows = [
        (key.replace("_", " "), _shown(key, value, now))
        for key, value in {**known, **plain}.items()
        if value not in (None, "", [], {})
    ]
    out.table(["!", "*"], rows)
    _show_table(out, {key: value for key, value in details.items() if key not in plain}, now)
    if history:
        out.say("")
        heads = [">batch", ">interval", ">success %"]
        last = [
            (ago(at, now), batch, human(every), rate) for at, batch, every, rate in history[-SHOWN:]
        ]
        out.table(["!changed", *heads], last)


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
    app.get_pace(name).stop()
    _said(app, out, name)


@paces.command(epilog=examples("duework paces start enrich"))
@click.argument("name")
@on_database()
def start(app: App, out: Out, name: str) -> None:
    """Let an adaptive pace that was stopped admit jobs again."""
    app.get_pace(name).start()
    _said(app, out, name)


def _show_table(out: Out, parts: dict[str, dict[str, Any]], now: int) -> None:
    """What a pace keeps for each of its windows, a row for each."""
    if not parts:
        return
    out.say("")
    heads = list(dict.fromkeys(head for each in parts.values() for head in each))
    out.table(
        ["!window", *(f">{head.replace('_', ' ')}" for head in heads)],
        [
            (key, *(_shown(head, each.get(head), now) for head in heads))
            for key, each in parts.items()
        ],
    )


def _shown(name: str, value: Any, now: int) -> object:
    """Times and lengths in words."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and name.endswith(("_until", "_at", "ends")):
        return f"in {human(value - now)}" if value > now else ago(value, now)
    if isinstance(value, int) and name.endswith("_ms"):
        return human(value)
    return value


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
    found = app.get_pace(name)
    if out.as_json:
        out.json(_plain(found))
    else:
        out.say(f"{name} {_note(found, app.now()) or 'open'}")
