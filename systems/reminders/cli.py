"""On the command line: `duework reminders add`, `say`, `list`, `show`, `done`, `failed`, `redrive`, …."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, BinaryIO, TypeVar

import click
import msgspec

from duework import Fail, UsageError, http
from systems.reminders import book, channels, exchange, log, planning
from systems.reminders import endpoints as receivers
from systems.reminders.part import part
from systems.reminders.routes import brought
from systems.reminders.rules import Change, NewReminder, known_zone
from systems.reminders.words import read_when

T = TypeVar("T")


def _or_silence(found: Sequence[T], words: str, *, as_json: bool = False) -> Sequence[T]:
    """A list, or beside it that there is none; a program needs no words."""
    if not found and not as_json:
        click.echo(words, err=True)
    return found


as_json = click.option("--json", "as_json", is_flag=True, help="Print one line of JSON for each.")


@part.command
@click.command(name="list")
@click.option("--limit", default=50, show_default=True, help="At most so many.")
@as_json
def list_(*, limit: int, as_json: bool) -> None:
    """Show what is coming, soonest first."""
    coming = book.coming(limit=limit)
    for each in _or_silence(coming, "no reminders are coming", as_json=as_json):
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
@click.option("--quiet", help="Hours in which nothing is sent: 22:00-07:00.")
@click.option("--repeat", help="Again after so long until it is done: 15m.")
@as_json
def add(*, title: str, when: str, as_json: bool, **more: Any) -> None:
    """Make a reminder: WHEN is 'tomorrow at 9', 'every weekday at 9:00', cron, FREQ=… or 'every 3h'."""
    more["zone"] = known_zone(more["zone"])
    given = {name: value for name, value in more.items() if value is not None}
    try:
        new = msgspec.convert(
            {"title": title, **read_when(when, more.get("zone") or "UTC", part.app.now()), **given},
            NewReminder,
        )
    except msgspec.ValidationError as error:
        raise UsageError(str(error)) from error
    made = book.create(new)
    if as_json:
        click.echo(msgspec.json.encode(made).decode())
        return
    click.echo(f"{made.id}  fires first at {_time(made.next_fire_at)}")


@part.command
@click.argument("words", nargs=-1, required=True)
@click.option("--zone", default="UTC", show_default=True, help="Where the times are meant.")
@click.option("--preview", is_flag=True, help="Say when it would be sent, and make nothing.")
def say(*, words: tuple[str, ...], zone: str, preview: bool) -> None:
    """Make a reminder of one line: duework reminders say stretch every weekday at 9:00 to ada@x.org."""
    line = " ".join(words)
    if preview:
        new = planning.said(line, known_zone(zone))
        _times(planning.marked(planning.times(new), new.zone))
        return
    made = planning.create_said(line, known_zone(zone))
    click.echo(f"{made.id}  {made.title}: fires first at {_time(made.next_fire_at)}")


@part.command
@click.argument("reminder")
@as_json
def show(*, reminder: str, as_json: bool) -> None:
    """Show one reminder, its next times and its last fires."""
    found = book.find(reminder)
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
        return
    click.echo(f"{found.id}  {found.title}  {found.state}  {found.repeats}  {found.zone}")
    times = [datetime.fromisoformat(each) for each in book.preview(reminder, 5)]
    _times(planning.marked([round(each.timestamp() * 1000) for each in times], found.zone))
    for each in log.recent(reminder=reminder, limit=5):
        click.echo(f"  fire {each.job}  {_time(each.fired_at)}  {each.outcome}  {each.error or ''}")


def _times(found: list[planning.Time]) -> None:
    for each in found:
        click.echo(f"  {each.at}{'  clocks turned' if each.turned else ''}")


@part.command
@click.argument("reminder")
def done(*, reminder: str) -> None:
    """Say that it is done: it is not repeated."""
    book.find(reminder)
    click.echo("done" if book.done(reminder) else "it did not wait for that")


@part.command
@click.argument("reminder")
@click.option("--title")
@click.option("--text")
@click.option("--when", help="Another time, in words or as cron.")
@click.option("--zone", help="Where the new time is meant.")
@click.option("--email")
@click.option("--quiet", help="Hours in which nothing is sent: 22:00-07:00.")
@click.option("--repeat", help="Again after so long until it is done: 15m.")
def edit(*, reminder: str, when: str | None, zone: str | None, **more: str | None) -> None:
    """Change what is given; the rest stays."""
    given: dict[str, Any] = {name: value for name, value in more.items() if value is not None}
    if when is not None:
        given["zone"] = known_zone(zone or book.find(reminder).zone)
        given |= read_when(when, given["zone"], part.app.now())
    try:
        change = msgspec.convert(given, Change)
    except msgspec.ValidationError as error:
        raise UsageError(str(error)) from error
    click.echo(f"fires next at {_time(book.edit(reminder, change).next_fire_at)}")


@part.command
@click.command(name="import")
@click.argument("file", type=click.File("rb"))
@click.option("--email", help="For those that name nobody.")
@click.option("--endpoint", help="The same, by webhook.")
@click.option("--zone", help="For those that name none.")
def import_(*, file: BinaryIO, **usual: str | None) -> None:
    """Make the reminders of a CSV or ICS file, all of them or none."""
    found = brought(file.read(), {name: each for name, each in usual.items() if each is not None})
    click.echo(f"{found.made} made, {found.known} were there already, {found.over} are over")


@part.command
@click.option("--format", "form", type=click.Choice(["csv", "ics"]), default="csv")
def export(*, form: str) -> None:
    """Write all that have times to come to the standard output."""
    if form == "csv":
        click.echo(exchange.to_csv(), nl=False)
        return
    click.echo(exchange.to_ics(part.app.now()), nl=False)


@part.command
@click.argument("job", type=int)
def replay(*, job: int) -> None:
    """Send the webhook of a fire once more: the stored body, the same id, the secret of today."""
    try:
        click.echo(f"it was answered {asyncio.run(channels.replay(job))}")
    except (http.HttpError, Fail) as error:
        raise click.ClickException(f"no answer: {error}") from None


@part.command
@click.argument("name", required=False)
@click.argument("url", required=False)
@click.option("--contact", help="Who is told by mail before it is switched off.")
@click.option("--rotate", help="A new secret for the endpoint of this id.")
@click.option("--test", "tested", help="Call the endpoint of this id once.")
def endpoints(
    *,
    name: str | None,
    url: str | None,
    contact: str | None,
    rotate: str | None,
    tested: str | None,
) -> None:
    """List the receivers of webhooks, or make one: duework reminders endpoints NAME URL."""
    if rotate is not None:
        click.echo(receivers.rotate(rotate).secret)
    elif tested is not None:
        try:
            click.echo(f"it was answered {asyncio.run(channels.test_call(tested))}")
        except (http.HttpError, Fail) as error:
            raise click.ClickException(f"no answer: {error}") from None
    elif name is not None and url is not None:
        made = receivers.create(name, url, contact=contact)
        click.echo(f"{made.id}  {made.secret}")
    else:
        for each in _or_silence(receivers.every(), "no endpoints"):
            click.echo(f"{each.id}  {each.state:3}  {each.failures:>3}  {each.name}  {each.url}")


@part.command
@as_json
def failed(*, as_json: bool) -> None:
    """Show fires that were given up, with the reason, and those that are tried again."""
    found = [*log.failed(), *log.retrying()]
    for each in _or_silence(found, "nothing has failed", as_json=as_json):
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
    if _or_silence(done, "nothing has failed"):
        click.echo(f"{len(done)} sent again: {done}")


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
