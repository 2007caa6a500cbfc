"""`duework db`: migrate, check and back up the database."""

from __future__ import annotations

from dataclasses import asdict

import click

from duework import App
from duework.cli.base import FAILED, OK, Group, examples, on_database
from duework.cli.out import Out


@click.group(cls=Group)
def db() -> None:
    """Migrate, check and back up the database."""


@db.command(
    epilog=examples("duework db migrate", "duework db migrate --app shop.work:app --create")
)
@click.option("--create", is_flag=True, help="Make the SQLite file if there is none.")
@on_database(require=False)
def migrate(app: App, out: Out, *, create: bool) -> None:
    """Bring the schema up to date. With --app, the tables of its parts too.

    Workers do this by themselves when they start; this is for doing it first.
    """
    applied = app.admin.migrate(create=create)
    if out.as_json:
        out.json({"applied": applied})
        return
    for name in applied:
        out.say(f"applied {name}")
    if not applied:
        out.say("up to date")


@db.command(epilog=examples("duework db check", "duework db check --json"))
@on_database(require=False)
def check(app: App, out: Out) -> int:
    """Is it fit for work: schema, durability, permissions, file system, clock? Changes nothing.

    Exit code 1 if there is a problem; a warning is none.
    """
    checks = app.admin.check()
    problems = [each for each in checks if each.fitness == "problem"]
    if out.as_json:
        found = [asdict(each) for each in checks]
        out.json({"ok": not problems, "url": app.url, "checks": found})
        return FAILED if problems else OK
    out.say(app.url)
    out.table(["!", "!what", "*found"], [(c.fitness, c.name, c.value) for c in checks])
    for each in checks:
        if each.advice:
            style = "red" if each.fitness == "problem" else "yellow"
            out.say(f"{each.name}: {each.advice}", style)
    return FAILED if problems else OK


@db.command(epilog=examples("duework db backup /var/backups/work.db"))
@click.argument("target", metavar="TARGET", type=click.Path())
@on_database(require=False)
def backup(app: App, out: Out, target: str) -> None:
    """Copy a SQLite database while it is in use. Refuses to overwrite.

    PostgreSQL is backed up by its own tools; this says with which command.
    """
    total = 0
    with out.progress("copying pages") as move:
        for done, total in app.admin.backup(target):
            move(completed=done, total=total)
    if out.as_json:
        out.json({"target": target, "pages": total})
    else:
        out.say(f"{total} pages copied to {target}")
