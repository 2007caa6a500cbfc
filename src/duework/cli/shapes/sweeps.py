"""`duework sweeps`: how sweeps go, start, stop, reset, and what is put off."""

from __future__ import annotations

import click
import msgspec

from duework import App, SweepStatus
from duework.cli.base import Group, examples, on_database
from duework.cli.jobs import MOST
from duework.cli.out import Out, ago, at_least, first_line


@click.group(cls=Group)
def sweeps() -> None:
    """Sweeps: list, show what is put off, start, stop, reset."""


@sweeps.command("list", epilog=examples("duework sweeps list", "duework sweeps list --json"))
@on_database()
def list_(app: App, out: Out) -> None:
    """List sweeps and how they go. With --json: one object per line."""
    found = app.sweeps.search(limit=MOST)
    if out.as_json:
        for each in found:
            out.json(as_dict(each))
        return
    if not found:
        out.say("no sweeps")
        return
    now = app.now()
    rows = [
        (
            *(each.name, each.state, each.done, each.failed, at_least(each.waiting)),
            *(ago(each.last_at, now), first_line(each.error)),
        )
        for each in found
    ]
    out.table(["sweep", "!state", ">done", ">failed", ">put off", "!last", "error"], rows)


def as_dict(status: SweepStatus) -> dict[str, object]:
    job = None if status.job is None else str(status.job)
    return {**msgspec.structs.asdict(status), "job": job}


@sweeps.command(epilog=examples("duework sweeps show enrich", "duework sweeps show enrich --json"))
@click.argument("name")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, MOST))
@on_database()
def show(app: App, out: Out, name: str, limit: int) -> None:
    """Show one sweep, and the items that are put off, the next ones first."""
    status, items = app.sweeps.get(name), app.sweeps.failing(name, limit)
    if out.as_json:
        out.json({**as_dict(status), "items": [msgspec.structs.asdict(each) for each in items]})
        return
    now = app.now()
    out.say(f"{name} is {status.state}: {status.done} done, {status.failed} failed")
    if items:
        rows = [
            (
                *(each.key, each.failures),
                *("given up" if each.given_up else ago(each.next_try, now), first_line(each.error)),
            )
            for each in items
        ]
        out.table(["item", ">failures", "!next try", "error"], rows)


@sweeps.command(epilog=examples("duework sweeps start enrich"))
@click.argument("name")
@on_database()
def start(app: App, out: Out, name: str) -> None:
    """Let a sweep run, and look at once."""
    _told(out, app.sweeps.start(name))


@sweeps.command(epilog=examples("duework sweeps stop enrich"))
@click.argument("name")
@on_database()
def stop(app: App, out: Out, name: str) -> None:
    """Begin no more groups of a sweep until it is started; one that runs is completed."""
    _told(out, app.sweeps.stop(name))


@sweeps.command(epilog=examples("duework sweeps reset enrich"))
@click.argument("name")
@on_database()
def reset(app: App, out: Out, name: str) -> None:
    """Forget what went wrong in a sweep, and count anew."""
    _told(out, app.sweeps.reset(name))


def _told(out: Out, status: SweepStatus) -> None:
    if out.as_json:
        out.json(as_dict(status))
    else:
        out.say(f"{status.name} is {status.state}")
