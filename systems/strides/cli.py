"""Commands: `duework strides sync | status | cancel | resume | connect | add | files | watch | subscribe`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click

from duework import Chain, Conflict, NotFound, UsageError, http
from systems.strides import oauth, pushes, reading, sync
from systems.strides.files import store, watch
from systems.strides.part import part, settings


def _session(athlete: int) -> str:
    chain = sync.latest(athlete)
    if chain is None:
        raise click.ClickException(f"athlete {athlete} has no sync: duework strides sync {athlete}")
    return str(chain.arguments["session"])


@part.command
@click.command(name="sync")
@click.argument("athlete", type=int)
@click.option("--full", is_flag=True, help="All activities, not only new ones.")
def start(athlete: int, *, full: bool) -> None:
    """Sync an athlete; one that is under way already goes on."""
    try:
        started = sync.start(athlete, full=full)
    except (Conflict, NotFound) as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{started.session} {'is under way already' if started.existed else 'started'}")


@part.command
def status() -> None:
    """Every athlete with its sync, and the quota."""
    quota = reading.quotas()
    for row in reading.athletes():
        chain = sync.latest(row.id)
        click.echo(f"{row.id}  {row.firstname} {row.lastname}: {_says(row, chain)}")
    quarter, day = quota.quarter, quota.day
    click.echo(
        f"quota: {quarter.used} of {quarter.limit} this quarter, {day.used} of {day.limit} today"
    )


def _says(row: Any, chain: Chain | None) -> str:
    if not row.connected:
        return f"not connected: {row.reason}"
    if chain is None:
        return "no sync yet"
    counts = chain.counts
    share = "" if chain.percent is None else f", {chain.percent:.0f} %"
    pages = f"page {chain.number} of {reading.expected_pages(chain)}{share}"
    found = f"{counts.get('activities', 0)} activities, {counts.get('races', 0)} races"
    why = f" ({chain.error.partition(chr(10))[0]})" if chain.error else ""
    return f"{chain.state}, {pages}, {found}{why}"


@part.command
@click.argument("athlete", type=int)
def cancel(athlete: int) -> None:
    """Stop an athlete's sync after the page that runs; what is stored stays."""
    click.echo(sync.cancel(_session(athlete)))


@part.command
@click.argument("athlete", type=int)
def resume(athlete: int) -> None:
    """Go on with a sync that was cancelled or has failed."""
    try:
        chain = sync.resume(_session(athlete))
    except (Conflict, NotFound) as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{chain.state}, after page {chain.completed}")


@part.command
def connect() -> None:
    """Print the address at which an athlete allows us to read."""
    click.echo(oauth.begin(f"{settings().public_url.rstrip('/')}/strides/callback"))


@part.command
@click.argument("firstname")
@click.argument("lastname", default="")
def add(firstname: str, lastname: str) -> None:
    """Add somebody who has files alone, and no account at Strava; prints the number."""
    click.echo(store.add_athlete(firstname, lastname))


@part.command
@click.argument("athlete", type=int)
@click.argument("paths", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--zone", default="", help="Where the wall clock is that a file does not tell.")
@click.option("--race", is_flag=True, help="They are races.")
def files(athlete: int, paths: tuple[Path, ...], zone: str, *, race: bool) -> None:
    """Take in FIT, TCX and GPX files, or an export archive."""
    for path in paths:
        try:
            taken = store.take(athlete, path.name, watch.content_of(path), zone=zone, race=race)
        except (UsageError, NotFound) as error:
            raise click.ClickException(f"{path.name}: {error}") from error
        click.echo(
            f"{path.name}: {taken.added} added, {taken.there_already} there already,"
            f" {taken.races} races, {len(taken.left_out)} left out"
        )


@part.command
@click.command(name="watch")
@click.argument("athlete", type=int)
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--zone", default="", help="Where the wall clock is that a file does not tell.")
def watch_folder(athlete: int, folder: Path, zone: str) -> None:
    """Take in what is put into a folder, every minute."""
    made = watch.begin(athlete, folder, zone)
    click.echo(f"{made.key} looks every minute")


@part.command
def subscribe() -> None:
    """Ask Strava to tell us of new activities, at once and without a sync."""
    try:
        click.echo(asyncio.run(pushes.subscribe()))
    except (NotFound, http.HttpError) as error:
        raise click.ClickException(str(error)) from error
