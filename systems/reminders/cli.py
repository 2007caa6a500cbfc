"""On the command line: `duework reminders list`, `add`, `failed`, `redrive`, `snooze`, `delete`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from duework import UsageError
from systems.reminders import book, log
from systems.reminders.part import part
from systems.reminders.rules import NewReminder, read_when

as_json = click.option("--json", "as_json", is_flag=True, help="Print one line of JSON for each.")


@part.command
@click.command(name="list")
@click.option("--limit", default=50, show_default=True, help="At most so many.")
@as_json
def list_(*, limit: int, as_json: bool) -> None:
    """Show what is coming, soonest first."""
    for each in book.coming(limit=limit):
        if as_json:
            click.echo(msgspec.json.encode(each).decode())
            continue
        channels = ",".join(each.channels)
        click.echo(f"{each.id}  {_time(each.next_fire_at)}  {channels:14}  {each.title}")


@part.command
@click.argument("title")
@click.argument("when")
@click.option("--email", help="Whom to mail.")
@click.option("--endpoint", help="Which endpoint to call, by its id.")
@click.option("--zone", default="UTC", show_default=True, help="Where the times are meant.")
@click.option("--text", default="", help="More than the title.")
@click.option("--end", help="The last moment at which it may fire.")
@click.option("--count", type=int, help="How often it fires.")
@as_json
def add(*, title: str, when: str, as_json: bool, **more: Any) -> None:
    """Make a reminder: WHEN is a time, five fields of cron, FREQ=… or a length such as 'every 3h'."""
    given = {name: value for name, value in more.items() if value is not None}
    try:
        new = msgspec.convert({"title": title, **read_when(when), **given}, NewReminder)
    except msgspec.ValidationError as error:
        raise UsageError(str(error)) from error
    made = book.create(new)
    if as_json:
        click.echo(msgspec.json.encode(made).decode())
        return
    click.echo(f"{made.id}  fires first at {_time(made.next_fire_at)}")


@part.command
@as_json
def failed(*, as_json: bool) -> None:
    """Show fires that were given up, with the reason, and those that are tried again."""
    for each in [*log.failed(), *log.retrying()]:
        if as_json:
            click.echo(msgspec.json.encode(each).decode())
            continue
        again = "given up" if each.again_at is None else f"again at {_time(each.again_at)}"
        click.echo(f"{each.job}  {each.title}  {each.error}  {each.attempts} attempts, {again}")


@part.command
@click.argument("jobs", nargs=-1, type=int)
@click.option("--all", "everything", is_flag=True, help="All that were given up.")
def redrive(*, jobs: tuple[int, ...], everything: bool) -> None:
    """Send again what has failed, and only that."""
    if bool(jobs) == everything:
        raise click.UsageError("name the fires by their numbers, or give --all")
    done = log.redrive_all() if everything else [each for each in jobs if log.redrive(each)]
    click.echo(json.dumps(done) if not done else f"{len(done)} sent again: {done}")


@part.command
@click.argument("reminder")
@click.argument("length", default="10m")
def snooze(*, reminder: str, length: str) -> None:
    """Fire the next time later, by LENGTH; the times after it stay."""
    click.echo(f"fires at {_time(book.snooze(reminder, length).next_fire_at)}")


@part.command
@click.argument("reminder")
def delete(*, reminder: str) -> None:
    """Delete a reminder; its history stays."""
    book.delete(reminder)
    click.echo("deleted")


def _time(ms: int | None) -> str:
    if ms is None:
        return "never"
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
