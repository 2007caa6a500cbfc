"""Commands that look: `duework scout status`, `apps`, `keywords`, `opportunities`, `changes`, `export`, …."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import click

from systems.scout import first as small_run
from systems.scout import reading, trial
from systems.scout.desk import apps as known
from systems.scout.desk import changes as told
from systems.scout.desk import exports, groups, stars, words
from systems.scout.part import part
from systems.scout.seed import seed as plant

WIDE = 80
as_json = click.option("--json", "as_json", is_flag=True, help="A line of JSON for each.")


def examples(*lines: str) -> str:
    """The end of a help text; click leaves its lines as they are."""
    return "\n".join(["\b", "Examples:", *(f"  duework scout {line}" for line in lines)])


def say(rows: Iterable[dict[str, Any]], line: str, *, json_too: bool) -> None:
    """A line for each, at most as wide as a terminal; or JSON. Of none it is said, beside the list."""
    found = list(rows)
    if not found and not json_too:
        click.echo("nothing found", err=True)
    for row in found:
        click.echo(json.dumps(row) if json_too else cut(line.format(**row)))


def cut(text: str, wide: int = WIDE) -> str:
    one = "".join(each if each.isprintable() else " " for each in text).rstrip()
    return one if len(one) <= wide else f"{one[: wide - 1]}…"


def when(ms: int | None) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M}" if ms else "-"


def go_on(more: str | None, command: str) -> None:
    """Where a list goes on, beside what it prints."""
    if more is not None:
        click.echo(f"more: duework scout {command} --after '{more}'", err=True)


@part.command
@click.command(name="status", epilog=examples("status", "status --json"))
@as_json
def status(*, as_json: bool) -> None:
    """What each stage has done and waits for."""
    for each in reading.stages(part.app.now()):
        if as_json:
            click.echo(json.dumps(each))
        else:
            words = f"{each['name']:<12}{each['value']:>9,g} {each['unit']:<12} {each['says']}"
            click.echo(cut(words))


@part.command
@click.command(name="first", epilog=examples("first"))
def first() -> None:
    """The first opportunity in ten minutes: a small run through all stages."""
    chain = small_run.start()
    click.echo(f"chain {chain.id} {'is under way already' if chain.existed else 'has begun'}")


@part.command
@click.command(name="trial", epilog=examples("trial", "trial --apps 25"))
@click.option("--apps", type=click.IntRange(3, 200), default=10, help="How many apps.")
def try_it(*, apps: int) -> None:
    """Take ten apps through all five stages, and nothing else; workers do it."""
    chain = trial.start(apps)
    click.echo(f"chain {chain.id} {'is under way already' if chain.existed else 'has begun'}")


@part.command
@click.command(name="seed", epilog=examples("seed"))
def seed() -> None:
    """Add the categories of the store; the crawl scans them by itself."""
    click.echo(f"{plant(part.app, small_run=False)} charts are scanned in turn")


@part.command
@click.command(
    name="opportunities", epilog=examples("opportunities --limit 5", "opportunities --json")
)
@click.option("--limit", type=click.IntRange(1, 200), default=20, help="How many.")
@click.option("--newest", is_flag=True, help="The newest first.")
@click.option("--starred", is_flag=True, help="Those with a star alone.")
@as_json
def list_opportunities(*, limit: int, newest: bool, starred: bool, as_json: bool) -> None:
    """The best ones first."""
    found = reading.opportunities(limit, newest=newest, starred=starred)
    say(found, "{score:5.1f}  {verdict:<6} {cluster}  {name}", json_too=as_json)


@part.command
@click.command(
    name="apps", epilog=examples("apps", "apps 'habit tracker'", "apps --genre Finance --newest")
)
@click.argument("name", default="")
@click.option("--genre", default="", help="Of one genre alone.")
@click.option("--newest", is_flag=True, help="The newest first; else those with most ratings.")
@click.option("--after", default="", help="Go on after a page.")
@as_json
def list_apps(*, name: str, genre: str, newest: bool, after: str, as_json: bool) -> None:
    """Browse apps, or search for a part of their name or seller: fifty at a time."""
    found = known.browse(name, genre, "newest" if newest else "ratings", after)
    rows = [row._asdict() for row in found.rows]
    line = "{track_id:>11} {rating_count:>9,} {average_rating:3.1f}  {track_name}"
    say(rows, line, json_too=as_json)
    go_on(found.more, f"apps '{name}'" if name else "apps")


@part.command
@click.command(name="keywords", epilog=examples("keywords night", "keywords --state failed"))
@click.argument("begins", default="")
@click.option("--state", type=click.Choice(words.STATES), default=None, help="In one state.")
@click.option("--after", default="", help="Go on after a page.")
@as_json
def list_keywords(*, begins: str, state: str | None, after: str, as_json: bool) -> None:
    """List keywords that begin with some letters, or those in a state."""
    rows, more = words.listed(begins, state or "", after)
    line = "{status:<10} {priority:>4}  {keyword}"
    say([row._asdict() for row in rows], line, json_too=as_json)
    go_on(more, "keywords")


@part.command
@click.command(name="tracked", epilog=examples("tracked", "tracked --json"))
@as_json
def list_tracked(*, as_json: bool) -> None:
    """List keywords that are followed, with when they are searched for again."""
    rows = [{**row._asdict(), "next": when(row.next_at)} for row in words.followed()]
    say(rows, "{next}  {keyword}", json_too=as_json)


@part.command
@click.command(name="clusters", epilog=examples("clusters", "clusters --json"))
@click.option("--after", default="", help="Go on after a page.")
@as_json
def list_clusters(*, after: str, as_json: bool) -> None:
    """List clusters, the best first."""
    rows, more = groups.listed(after)
    line = "{score:5.1f}  {apps:>5} apps {keywords:>5} keywords  {id}  {name}"
    say([row._asdict() for row in rows], line, json_too=as_json)
    go_on(more, "clusters")


@part.command
@click.command(name="changes", epilog=examples("changes", "changes --limit 5 --json"))
@click.option("--limit", type=click.IntRange(1, 200), default=20, help="How many.")
@as_json
def list_changes(*, limit: int, as_json: bool) -> None:
    """Say what changed in the ranking, the newest first."""
    rows = [{**row._asdict(), "when": when(row.at)} for row in told.listed(most=limit)]
    say(rows, "{when}  {says}", json_too=as_json)


@part.command
@click.command(name="stars", epilog=examples("stars", "stars --json"))
@as_json
def list_stars(*, as_json: bool) -> None:
    """List what has a star, by list."""
    say(stars.listed(), "{kind:<12} {list:<12} {ref:<14} {name}", json_too=as_json)


@part.command
@click.command(
    name="export",
    epilog=examples("export opportunities > found.csv", "export apps --format json > apps.json"),
)
@click.argument("what", type=click.Choice(list(exports.LISTS)))
@click.option("--format", "form", type=click.Choice(list(exports.TYPES)), default="csv")
@click.option("--after", default="", help="Go on after an export that was full.")
def export(*, what: str, form: str, after: str) -> None:
    """Print up to ten thousand rows as CSV or JSON."""
    rows, more = exports.rows_of(what, after)
    click.echo(exports.written(rows, form).decode(), nl=form == "json")
    go_on(more, f"export {what}")


@part.command
@click.command(name="brief", epilog=examples("brief 3f2a91c0d7aa > BRIEF.md"))
@click.argument("cluster")
def brief(*, cluster: str) -> None:
    """Print an opportunity as a task for a coding agent, in Markdown."""
    click.echo(exports.brief(cluster))
