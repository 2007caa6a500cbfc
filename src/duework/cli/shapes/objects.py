"""`duework objects`: list, show, export, import and delete durable objects."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from duework import App, ObjectInfo
from duework.cli.base import Group, examples, on_database, sure
from duework.cli.out import Out, ago, first_line
from duework.durations import human

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.group(cls=Group)
def objects() -> None:
    """List, show, export, import and delete durable objects."""


@objects.command(
    "list",
    epilog=examples("duework objects list", "duework objects list Flight --prefix BA --json"),
)
@click.argument("kind", default="")
@click.option("--prefix", default="", help="Only keys that begin so; needs KIND.")
@click.option("--after", default="", help="Go on behind this key; needs KIND.")
@click.option("--limit", default=50, show_default=True, help="At most so many.")
@on_database()
def list_(app: App, out: Out, kind: str, prefix: str, after: str, limit: int) -> None:
    """List objects, of one KIND or of all, by kind and key. With --json: one object per line."""
    found = app.objects(kind, prefix=prefix, after=after, limit=limit)
    if out.as_json:
        for each in found:
            out.json(_document(each))
    elif found:
        now = app.now()
        heads = ["kind", "*key", ">version", ">bytes", "changed", "alarm", "note"]
        out.table(heads, [_row(each, now) for each in found])
    else:
        out.say("no objects")


def _document(one: ObjectInfo) -> dict[str, Any]:
    return {**asdict(one), "bytes": one.bytes}


def _row(one: ObjectInfo, now: int) -> tuple[object, ...]:
    note = "running" if one.running else first_line(one.error) if one.failures else ""
    changed = ago(one.changed, now)
    return (one.kind, one.key, one.version, one.bytes, changed, _until(one, now), note)


def _until(one: ObjectInfo, now: int) -> str | None:
    if one.alarm is None:
        return None
    return f"in {human(one.alarm - now)}" if one.alarm > now else "due"


@objects.command(
    epilog=examples("duework objects show Flight BA117", "duework objects show Flight BA117 --json")
)
@click.argument("kind")
@click.argument("key")
@on_database()
def show(app: App, out: Out, kind: str, key: str) -> None:
    """Show one object: version, size, alarm, and the rows of each table."""
    handle = app.object(kind, key)
    one, tables = handle.info(), handle.tables()
    if out.as_json:
        out.json({**_document(one), "tables": tables})
        return
    now = app.now()
    facts = [
        *(("kind", one.kind), ("key", one.key), ("version", one.version), ("bytes", one.bytes)),
        *(("created", ago(one.created, now)), ("changed", ago(one.changed, now))),
        *(("alarm", _until(one, now)), ("failures", one.failures), ("error", one.error)),
        ("running", "an async method" if one.running else None),
        *((f"rows of {name}", rows) for name, rows in tables.items()),
    ]
    out.table(["!", "*"], [(name, value) for name, value in facts if value is not None])


@objects.command(epilog=examples("duework objects export Flight BA117 flight.db"))
@click.argument("kind")
@click.argument("key")
@click.argument("file", type=_FILE)
@on_database()
def export(app: App, out: Out, kind: str, key: str, file: Path) -> None:
    """Write an object's database to FILE, an ordinary SQLite file. Never overwrites."""
    size = app.object(kind, key).export(file)
    if out.as_json:
        out.json({"kind": kind, "key": key, "file": str(file), "bytes": size})
    else:
        out.say(f"{size} bytes written to {file}")


@objects.command("import", epilog=examples("duework objects import Flight BA117 flight.db --yes"))
@click.argument("kind")
@click.argument("key")
@click.argument("file", type=_FILE)
@click.option("--yes", is_flag=True, help="Do not ask.")
@on_database()
def import_(app: App, out: Out, kind: str, key: str, file: Path, *, yes: bool) -> None:
    """Take an object's database from FILE, an ordinary SQLite file; what it had is replaced."""
    sure(f"Replace what {kind} {key} has?", yes=yes, as_json=out.as_json)
    one = app.object(kind, key).import_(file)
    if out.as_json:
        out.json(_document(one))
    else:
        out.say(f"{kind} {key} is at version {one.version}, {one.bytes} bytes")


@objects.command(epilog=examples("duework objects delete Flight BA117 --yes"))
@click.argument("kind")
@click.argument("key")
@click.option("--yes", is_flag=True, help="Do not ask.")
@on_database()
def delete(app: App, out: Out, kind: str, key: str, *, yes: bool) -> None:
    """Delete an object with its database and its alarm."""
    handle = app.object(kind, key)
    handle.info()
    sure(f"Delete {kind} {key}?", yes=yes, as_json=out.as_json)
    handle.delete()
    if out.as_json:
        out.json({"kind": kind, "key": key, "state": "deleted"})
    else:
        out.say(f"{kind} {key} deleted")
