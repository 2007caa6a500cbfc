"""Commands that do something: `duework scout plant`, `track`, `star`, `share`, `pause`, `doctor`, …."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

import click

from systems.scout import smoke as outside
from systems.scout.cli import as_json, cut, examples, when
from systems.scout.desk import doctor as gate
from systems.scout.desk import reports, stars, steering, words
from systems.scout.desk.shown import report_body
from systems.scout.part import part

MARKS = {"problem": "FAIL", "warning": "warn", "ok": "ok"}
piece = click.argument("piece", type=click.Choice(steering.PIECES))


@part.command
@click.command(name="plant", epilog=examples("plant 'night shift planner' 'rota diary'"))
@click.argument("keywords", nargs=-1, required=True)
def plant(*, keywords: tuple[str, ...]) -> None:
    """Put in keywords by hand; they are searched for before others."""
    with part.app.transaction() as tx:
        planted = words.plant(tx, "\n".join(keywords), part.app.now())
    click.echo(f"{len(planted)} searched for soon")


@part.command
@click.command(name="track", epilog=examples("track 'night shift planner'"))
@click.argument("keyword")
def track(*, keyword: str) -> None:
    """Search for a keyword each day and keep who is found."""
    with part.app.transaction() as tx:
        word = words.follow(tx, keyword, part.app.now())
    click.echo(f"{word} is followed")


@part.command
@click.command(name="untrack", epilog=examples("untrack 'night shift planner'"))
@click.argument("keyword")
def untrack(*, keyword: str) -> None:
    """Follow a keyword no more; what was kept of it stays until it is old."""
    with part.app.transaction() as tx:
        word = words.unfollow(tx, keyword)
    click.echo(f"{word} is followed no more")


@part.command
@click.command(
    name="star",
    epilog=examples("star app 284882215 --list rivals", "star opportunity 3f2a91c0d7aa"),
)
@click.argument("kind", type=click.Choice(["app", "opportunity", "developer"]))
@click.argument("ref")
@click.option("--list", "in_list", default="", help="The list that it is in.")
@click.option("--off", is_flag=True, help="Take the star away.")
def star(*, kind: Any, ref: str, in_list: str, off: bool) -> None:
    """Give something a star, or move it to another list."""
    with part.app.transaction() as tx:
        if off:
            stars.unstar(tx, kind, ref)
            click.echo("the star is gone")
        else:
            click.echo(f"{stars.star(tx, kind, ref, part.app.now(), in_list)} has a star")


@part.command
@click.command(name="share", epilog=examples("share 3f2a91c0d7aa --days 7"))
@click.argument("cluster")
@click.option("--days", type=click.IntRange(1, 365), default=30, help="How long it opens.")
def share(*, cluster: str, days: int) -> None:
    """Make a report that opens without signing in; its link is printed once."""
    with part.app.transaction() as tx:
        token = reports.make(tx, report_body(cluster), part.app.now(), days)
    click.echo(f"/scout/r/{token}")


@part.command
@click.command(name="pause", epilog=examples("pause crawler", "pause agents"))
@piece
def pause(*, piece: steering.Piece) -> None:
    """Let the crawler, the controller or the agents stand still."""
    steering.pause(piece)
    click.echo(f"{piece}: paused")


@part.command
@click.command(name="resume", epilog=examples("resume crawler"))
@piece
def resume(*, piece: steering.Piece) -> None:
    """Let one of them go on."""
    steering.resume(piece)
    click.echo(f"{piece}: it goes on")


@part.command
@click.command(name="reset", epilog=examples("reset controller"))
@piece
def reset(*, piece: steering.Piece) -> None:
    """Let one of them forget its failures; nothing that was found is lost."""
    click.echo(steering.reset(piece))


@part.command
@click.command(name="failed", epilog=examples("failed", "failed --json"))
@as_json
def failed(*, as_json: bool) -> None:
    """List work and events that were given up."""
    for job in steering.failed():
        event = steering.event_of(job)
        error = (job.error or "").strip().splitlines()[-1:] or [""]
        row = {"job": job.id, "task": job.task, "event": event, "error": error[0]}
        row["at"] = when(job.settled)
        words_ = f"{job.id}  {row['at']}  {job.task.removeprefix('scout.')}  {error[0]}"
        click.echo(json.dumps(row) if as_json else cut(words_))


@part.command
@click.command(name="requeue", epilog=examples("requeue", "requeue 123456"))
@click.argument("job", type=int, required=False)
def requeue(*, job: int | None) -> None:
    """Run one that failed again, or all of them."""
    if job is None:
        click.echo(f"{steering.all_again()} run again")
        return
    steering.again(job)
    click.echo(f"{job} runs again")


@part.command
@click.command(name="doctor", epilog=examples("doctor", "doctor --strict --json"))
@click.option("--strict", is_flag=True, help="A warning is a failure, too.")
@as_json
def doctor(*, strict: bool, as_json: bool) -> None:
    """Say whether scout is fit to be left alone; exit code 1 if it is not."""
    checks = sorted(gate.doctor(part.app.now()), key=lambda each: gate.ORDER.index(each.fitness))
    bad = {"problem", "warning"} if strict else {"problem"}
    wrong = any(each.fitness in bad for each in checks)
    if as_json:
        click.echo(json.dumps({"ok": not wrong, "checks": [asdict(each) for each in checks]}))
    for each in () if as_json else checks:
        click.echo(cut(f"{MARKS[each.fitness]:<4} {each.name:<24} {each.value}"))
        if each.advice:
            click.echo(cut(f"     -> {each.advice}"))
    sys.exit(1 if wrong else 0)


@part.command
@click.command(name="smoke", epilog=examples("smoke http://127.0.0.1:8377 --token dw_..."))
@click.argument("url")
@click.option("--token", envvar="SCOUT_TOKEN", default="", help="Of the scope read.")
def smoke(*, url: str, token: str) -> None:
    """Ask a running scout for its status; exit code 1 if any check fails."""
    sys.exit(outside.run(url, token, click.echo))
