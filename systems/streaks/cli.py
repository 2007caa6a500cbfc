"""Commands: `duework streaks import FILE`, `list` and `check LOGIN`."""

from __future__ import annotations

import asyncio
import csv
import json
from datetime import datetime, timedelta
from typing import Any, TextIO
from zoneinfo import ZoneInfo

import click
import msgspec

from duework import Conflict, NotFound, Throttled, UsageError, http
from systems.streaks import github
from systems.streaks.channels import secret_of
from systems.streaks.check import check
from systems.streaks.part import part
from systems.streaks.people import Wishes, add, find
from systems.streaks.rest import rest_of
from systems.streaks.streak import DAY, Standing, local_day, message, standing

COLUMNS = ("login", *Wishes.__struct_fields__)


@click.command("import")
@click.argument("file", type=click.File("r", encoding="utf-8"))
def import_(file: TextIO) -> None:
    """Register people from a CSV file; all of them, or none if a line is wrong.

    Columns: login, zone, hour, token, discord, telegram_token, telegram_chat, only_at_risk. Those who
    are registered already are left as they are.
    """
    new = known = 0
    now = part.app.now()
    try:
        people = _read(csv.DictReader(file))
    except (UnicodeDecodeError, csv.Error) as error:
        raise click.ClickException(f"this is no CSV in UTF-8: {error}") from None
    with part.app.transaction() as tx:
        for number, login, wishes in people:
            try:
                add(tx, login, wishes, now=now)
                new += 1
            except Conflict:
                known += 1
            except UsageError as error:
                raise click.ClickException(f"line {number}: {error}") from None
    click.echo(f"{new} registered, {known} known already")


def _read(reader: csv.DictReader[str]) -> list[tuple[int, str, Wishes]]:
    unknown = [str(name) for name in reader.fieldnames or () if name not in COLUMNS]
    if unknown or "login" not in (reader.fieldnames or ()):
        raise click.ClickException(f"the columns are {', '.join(COLUMNS)}; not {unknown}")
    return [(number, *_wishes(number, row)) for number, row in enumerate(reader, 2)]


def _wishes(number: int, row: dict[str, Any]) -> tuple[str, Wishes]:
    given = {name: value for name, value in row.items() if name is not None and value}
    try:
        login = given.pop("login")
        return login, msgspec.convert(given, Wishes, strict=False)
    except (KeyError, msgspec.ValidationError) as error:
        raise click.ClickException(f"line {number}: {error}") from None


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="One line of JSON for each person.")
def list_(*, as_json: bool) -> None:
    """Show everybody: when they are due, how their streak stands, what is wrong."""
    for row in part.app.read(PEOPLE):
        if as_json:
            click.echo(json.dumps(dict(zip(row._fields, row, strict=True))))
            continue
        due = datetime.fromtimestamp(row.next_at / 1000, ZoneInfo(row.zone))
        state = row.problem or (f"due {due:%a %H:%M}" if row.active else "paused")
        streak = "-" if row.streak is None else f"{row.streak} {'w' if row.weekly else 'd'}"
        click.echo(f"{row.login:<24}{row.zone:<22}{row.hour:02}:00  {streak:>6}  {state}")


PEOPLE = """
select login, zone, hour, second_hour, weekly, active, next_at, problem, discord_problem,
telegram_problem, has_token,
(select streak from streaks_day where person = streaks_person.id order by day desc limit 1) as streak
from streaks_person order by login_key
"""


@click.command("check")
@click.argument("login")
@click.option("--tell", is_flag=True, help="Let a worker check, and tell the person as usual.")
def check_(login: str, *, tell: bool) -> None:
    """Ask GitHub how a person's day stands; tells nobody, unless with --tell."""
    app = part.app
    person, now = find(app, login), app.now()
    today = local_day(now, person.zone)
    if tell:
        job = check.enqueue(person.id, today.isoformat(), part.settings.github_url)
        click.echo(f"job {job.id}")
        return
    try:
        found = asyncio.run(_ask(person, now))
    except (github.Refusal, github.Strange, http.HttpError, Throttled, NotFound) as refusal:
        raise click.ClickException(str(refusal)) from None
    click.echo(message(person.login, today, found))
    midnight = datetime.combine(today + DAY, datetime.min.time(), ZoneInfo(person.zone))
    left = timedelta(seconds=int(midnight.timestamp() - now / 1000))
    click.echo(f"The day ends in {left} in {person.zone}.")


async def _ask(person: Any, now: int) -> Standing:
    token = await part.app.secrets.aopen(secret_of("github", person.id))
    today = local_day(now, person.zone)
    rest = await asyncio.to_thread(rest_of, part.app, person)
    asked = (part.settings.github_url, token, person.login)
    weekly = bool(person.weekly)
    counts = await github.calendar(
        *asked, today=today, zone=person.zone, now=now, rest=rest, weekly=weekly
    )
    return standing(counts, today, rest, weekly=weekly)


for each in (import_, list_, check_):
    part.command(each)
