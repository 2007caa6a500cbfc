"""The demo's own part: what happened and how it stands are rows, as everything else."""

from __future__ import annotations

import secrets
from typing import Any

import msgspec

from duework import App, Part


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Set by the director: where the receivers are, by name."""

    twins: dict[str, str] = {}


part = Part("demo", tables="tables", settings=Settings)


def note(app: App, system: str, text: str, kind: str = "info") -> None:
    """Say what happened: the page lists it, and the director prints it."""
    now = app.now()
    with app.transaction() as tx:
        tx.write(
            "insert into demo_log(id, at, system, kind, text) values (:id, :at, :system, :kind, :text)",
            id=f"{now:014}-{secrets.token_hex(4)}",
            at=now,
            system=system,
            kind=kind,
            text=text,
        )
        tx.touch("demo")


def notes(app: App, after: str = "", limit: int = 1000) -> list[Any]:
    """What happened after a note, oldest first."""
    return list(
        app.read(
            "select id, at, system, kind, text from demo_log"
            " where id > :after order by id limit :limit",
            after=after,
            limit=limit,
        )
    )


def newest(app: App, limit: int) -> list[Any]:
    """The latest of what happened, newest first."""
    return list(
        app.read(
            "select id, at, system, kind, text from demo_log order by id desc limit :limit",
            limit=limit,
        )
    )


def keep(app: App, name: str, value: object) -> None:
    """Remember a fact of the demo under its name."""
    text = msgspec.json.encode(value).decode()
    with app.transaction() as tx:
        tx.write(
            "insert into demo_fact(name, value) values (:name, :value)"
            " on conflict(name) do update set value = excluded.value",
            name=name,
            value=text,
        )
        tx.touch("demo")


def kept(app: App, name: str, default: Any = None) -> Any:
    """What was remembered under a name."""
    rows = app.read("select value from demo_fact where name = :name", name=name)
    return msgspec.json.decode(rows[0].value) if rows else default
