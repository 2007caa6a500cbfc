"""`duework blobs`: list, show, get, put and delete blobs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from duework import App, Blob
from duework.cli.base import Group, examples, on_database, sure
from duework.cli.out import Out, ago
from duework.durations import human
from duework.errors import UsageError

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.group(cls=Group)
def blobs() -> None:
    """List, show, get, put and delete blobs."""


@blobs.command(
    "list", epilog=examples("duework blobs list", "duework blobs list app/42/ --limit 10 --json")
)
@click.argument("prefix", default="")
@click.option("--after", default="", help="Go on behind this key.")
@click.option("--limit", default=50, show_default=True, help="At most so many.")
@on_database()
def list_(app: App, out: Out, prefix: str, after: str, limit: int) -> None:
    """List blobs whose keys begin with PREFIX, by key. With --json: one object per line."""
    found = app.blobs.list(prefix, after=after, limit=limit)
    if out.as_json:
        for each in found:
            out.json(_document(each))
    elif found:
        now = app.now()
        rows = [_row(each, now) for each in found]
        out.table(["*key", ">bytes", "type", "created", "expires"], rows)
    else:
        out.say("no blobs")


def _document(one: Blob) -> dict[str, Any]:
    shown = asdict(one)
    return {name: shown[name] for name in shown if name not in {"new", "content"}}


def _row(one: Blob, now: int) -> tuple[object, ...]:
    return (one.key, one.size, one.content_type, ago(one.created, now), _until(one, now))


def _until(one: Blob, now: int) -> str | None:
    return None if one.expires is None else f"in {human(one.expires - now)}"


@blobs.command(epilog=examples("duework blobs show app/42/page.html"))
@click.argument("key")
@on_database()
def show(app: App, out: Out, key: str) -> None:
    """Show one blob: size, digest, times and metadata."""
    one = app.blobs.info(key)
    if out.as_json:
        out.json(_document(one))
        return
    now = app.now()
    facts = [
        *(("key", one.key), ("bytes", one.size), ("type", one.content_type)),
        *(
            ("sha256", one.digest),
            ("created", ago(one.created, now)),
            ("expires", _until(one, now)),
        ),
        *one.metadata.items(),
    ]
    out.table(["!", "*"], [(name, value) for name, value in facts if value is not None])


@blobs.command(epilog=examples("duework blobs get app/42/page.html page.html"))
@click.argument("key")
@click.argument("file", type=_FILE)
@on_database()
def get(app: App, out: Out, key: str, file: Path) -> None:
    """Write the content of a blob to FILE. Never overwrites."""
    content = app.blobs.get(app.blobs.info(key).key) or b""
    try:
        with file.open("xb") as written:
            written.write(content)
    except FileExistsError:
        raise UsageError(f"{file} is there already") from None
    if out.as_json:
        out.json({"key": key, "file": str(file), "bytes": len(content)})
    else:
        out.say(f"{len(content)} bytes written to {file}")


@blobs.command(epilog=examples("duework blobs put app/42/page.html page.html --ttl 30d"))
@click.argument("key")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--ttl", help="Over after so long, as 30d.")
@click.option("--type", "kind", help="Its content type.")
@click.option("--if-absent", is_flag=True, help="Only if there is none.")
@on_database()
def put(
    app: App, out: Out, key: str, file: Path, *, ttl: str | None, kind: str | None, if_absent: bool
) -> None:
    """Store FILE as a blob; what was there under that key is replaced."""
    with file.open("rb") as data:
        one = app.blobs.put(key, data, ttl=ttl, content_type=kind, if_absent=if_absent)
    if out.as_json:
        out.json({**_document(one), "new": one.new})
    else:
        out.say(f"{one.size} bytes stored" if one.new else f"{key} is there already: left as it is")


@blobs.command(epilog=examples("duework blobs delete app/42/page.html --yes"))
@click.argument("key")
@click.option("--yes", is_flag=True, help="Do not ask.")
@on_database()
def delete(app: App, out: Out, key: str, *, yes: bool) -> None:
    """Delete a blob."""
    app.blobs.info(key)
    sure(f"Delete {key}?", yes=yes, as_json=out.as_json)
    app.blobs.delete(key)
    if out.as_json:
        out.json({"key": key, "state": "deleted"})
    else:
        out.say(f"{key} deleted")
