"""`duework schedules`: list, show, edit, pause, resume, fire, postpone, delete, and what comes next."""

from __future__ import annotations

from typing import Any

import click
from rich.text import Text

from duework import App, Schedule, UsageError
from duework.cli.base import Group, examples, on_database, sure
from duework.cli.out import STYLES, Out, ago, first_line, plain
from duework.observe.log import escaped


@click.group(cls=Group)
def schedules() -> None:
    """List schedules, see when they fire, and edit, pause, resume, fire, postpone or delete one."""


@schedules.command(
    "list", epilog=examples("duework schedules list", "duework schedules list --prefix remind:")
)
@click.option("--prefix", default="", help="Only keys that begin so.")
@click.option("--after", default="", metavar="KEY", help="Go on behind this key.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 1000))
@on_database()
def list_(app: App, out: Out, prefix: str, after: str, limit: int) -> None:
    """List schedules by key. With --json: one object per line."""
    found = app.schedules(prefix, after=after, limit=limit)
    if out.as_json:
        for each in found:
            out.json(as_dict(each))
        return
    if not found:
        out.say("no such schedules")
        return
    now = app.now()
    out.table(
        ["key", "when", "!state", "!next", ">fires", "last"],
        [
            (each.key, each.when, each.state, ago(each.due, now), each.fires, _last(each, now))
            for each in found
        ],
    )
    if len(found) == limit:
        out.say(f"more: --after {found[-1].key}", "dim")


def _last(each: Schedule, now: int) -> str | None:
    if each.error is not None:
        return first_line(each.error)
    return None if each.last_at is None else f"{each.last_outcome} {ago(each.last_at, now)}"


@schedules.command(epilog=examples("duework schedules show nightly"))
@click.argument("key")
@on_database()
def show(app: App, out: Out, key: str) -> None:
    """Show one schedule: its rule, who owns it and why, and what it did last."""
    seen = app.get_schedule(key)
    if out.as_json:
        out.json(as_dict(seen))
        return
    now = app.now()
    fields: list[tuple[str, object]] = [
        ("key", seen.key),
        ("task", seen.task),
        ("when", seen.when),
        ("state", seen.state),
        ("next", ago(seen.due, now)),
        ("ends", None if seen.ends is None else ago(seen.ends, now)),
        ("count", None if seen.count is None else f"{seen.counted} of {seen.count} fired"),
        ("missed", f"{seen.missed}{f', {seen.missed_limit}' if seen.missed == 'all' else ''}"),
        ("overlap", seen.overlap),
        ("queue", f"{seen.queue}, priority {seen.priority}"),
        ("last", _last(seen, now)),
        ("last job", seen.last_job),
        ("fires", f"{seen.fires}, idle {seen.idles}, skipped {seen.skips}"),
        ("declared", _declared(seen)),
        ("owner", seen.owner or None),
        ("why", seen.why or None),
        ("arguments", seen.payload),
        ("error", seen.error),
    ]
    for name, value in fields:
        if value is not None:
            text = escaped(str(value))
            line = Text.assemble((f"{name:<11}", "dim"), (text, STYLES.get(text, "")))
            out.console.print(line, soft_wrap=True)


def _declared(seen: Schedule) -> str:
    where = "by a decorator" if seen.decorated else "at run time"
    return f"{where}, edited since" if seen.edited else where


@schedules.command("next", epilog=examples("duework schedules next nightly -n 10"))
@click.argument("key")
@click.option("-n", "count", default=5, show_default=True, type=click.IntRange(1, 1000))
@on_database()
def next_(app: App, out: Out, key: str, count: int) -> None:
    """Say when a schedule fires next, in its own time zone."""
    times = app.get_schedule(key).next(count)
    if out.as_json:
        out.json({"key": key, "next": [each.isoformat() for each in times]})
        return
    for each in times:
        out.say(f"{each:%a %Y-%m-%d %H:%M:%S %Z}")
    if not times:
        out.say("never: it is paused or has ended")


@schedules.command(epilog=examples("duework schedules pause nightly"))
@click.argument("key")
@on_database()
def pause(app: App, out: Out, key: str) -> None:
    """Fire no more. What it has fired goes on; no release changes this back."""
    _said(out, app.get_schedule(key).pause())


@schedules.command(epilog=examples("duework schedules resume nightly"))
@click.argument("key")
@on_database()
def resume(app: App, out: Out, key: str) -> None:
    """Fire again, from the next slot on. What passed meanwhile is not made up for."""
    _said(out, app.get_schedule(key).resume())


@schedules.command(epilog=examples("duework schedules postpone nightly 2h"))
@click.argument("key")
@click.argument("length")
@on_database()
def postpone(app: App, out: Out, key: str, length: str) -> None:
    """Fire the next slot that much later: '10m', '2h'."""
    _said(out, app.get_schedule(key).postpone(length))


@schedules.command(
    epilog=examples(
        'duework schedules edit nightly --cron "30 3 * * *" --tz Europe/London',
        "duework schedules edit poll --every 10m --owner ada --why 'their limit'",
    )
)
@click.argument("key")
@click.option("--cron", metavar="RULE", help="Five fields: minute, hour, day, month, weekday.")
@click.option("--every", metavar="TIME", help="So often: 10m.")
@click.option("--rrule", metavar="RULE", help="A recurrence rule of iCalendar.")
@click.option("--at", metavar="TIME", help="Once, then.")
@click.option("--start", metavar="TIME", help="What it counts from.")
@click.option("--end", metavar="TIME", help="Nothing is fired later.")
@click.option("--tz", metavar="ZONE", help="Its time zone: Europe/London.")
@click.option("--missed", type=click.Choice(["skip", "once", "all"]), help="What passed unfired.")
@click.option(
    "--overlap", type=click.Choice(["skip", "queue", "replace"]), help="If the last one still runs."
)
@click.option("--owner", help="Who is asked about it.")
@click.option("--why", help="Why it runs that often.")
@on_database()
def edit(app: App, out: Out, key: str, **given: Any) -> None:
    """Change a schedule, and say when it fires then. No release changes it back."""
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if not options:
        raise UsageError("nothing to change: give --cron, --every, --tz, --owner and so on")
    _said(out, app.get_schedule(key).edit(**options))


@schedules.command(epilog=examples("duework schedules fire nightly"))
@click.argument("key")
@on_database()
def fire(app: App, out: Out, key: str) -> None:
    """Make one job at once, beside the plan."""
    job = app.get_schedule(key).fire_now()
    if out.as_json:
        out.json({"key": key, "job": str(job.id)})
    else:
        out.say(f"{key} fired: job {job.id}")


@schedules.command(epilog=examples("duework schedules delete remind:7 --yes"))
@click.argument("key")
@click.option("--yes", is_flag=True, help="Do not ask.")
@on_database()
def delete(app: App, out: Out, key: str, *, yes: bool) -> None:
    """Fire no more, and forget it. One that a decorator declares stays deleted."""
    seen = app.get_schedule(key)
    sure(f"Delete the schedule {key} ({seen.when})?", yes=yes, as_json=out.as_json)
    seen.delete()
    if out.as_json:
        out.json({"key": key, "state": "deleted"})
    else:
        out.say(f"{key} deleted")


def _said(out: Out, seen: Schedule) -> None:
    if out.as_json:
        out.json({"key": seen.key, "state": seen.state, "due": seen.due})
    else:
        when = "" if seen.due_at is None else f", next {seen.due_at:%Y-%m-%d %H:%M:%S} UTC"
        out.say(f"{seen.key} {seen.state}{when}")


def as_dict(seen: Schedule) -> dict[str, object]:
    return {
        "key": seen.key,
        "task": seen.task,
        "queue": seen.queue,
        "priority": seen.priority,
        "when": seen.when,
        "kind": seen.kind,
        "rule": seen.rule,
        "tz": seen.tz,
        "state": seen.state,
        "slot": seen.slot,
        "due": seen.due,
        "ends": seen.ends,
        "count": seen.count,
        "counted": seen.counted,
        "missed": seen.missed,
        "missed_limit": seen.missed_limit,
        "overlap": seen.overlap,
        "idle_check": seen.idle,
        "last_slot": seen.last_slot,
        "last_at": seen.last_at,
        "last_job": None if seen.last_job is None else str(seen.last_job),
        "last_outcome": seen.last_outcome,
        "fires": seen.fires,
        "idles": seen.idles,
        "skips": seen.skips,
        "decorated": seen.decorated,
        "edited": seen.edited,
        "owner": seen.owner,
        "why": seen.why,
        "arguments": plain(seen.payload),
        "error": seen.error,
    }
