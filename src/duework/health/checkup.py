"""Is this database fit for work? What an operator looks at before a deploy, changing nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from duework.db import migrate
from duework.db.database import Database
from duework.db.sqlite.files import NETWORK
from duework.health.words import size

Fitness = Literal["ok", "warning", "problem"]

LARGE_WAL = 64 * 1024 * 1024
LARGEST_OFFSET_MS = 2000
_OTHERS = 0o077


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at, and what to do about it if it is not well."""

    name: str
    value: str
    fitness: Fitness = "ok"
    advice: str = ""


def checkup(database: Database, steps: Sequence[migrate.Migrations], now: int) -> list[Check]:
    """Look at the schema, the durability, the file or the server, and the clock."""
    found = database.settings()
    checks = [Check("version", version(database.kind, found)), _schema(database, steps)]
    if database.kind == "sqlite":
        return [*checks, *_durability_of_file(found), *_file(found), Check("clock", "this host's")]
    return [*checks, *_durability_of_server(found), _clock(database, now)]


def version(kind: str, found: dict[str, str]) -> str:
    """What runs the database, and which of it: SQLite 3.54.1."""
    return f"{'SQLite' if kind == 'sqlite' else 'PostgreSQL'} {found['server_version']}"


def _schema(database: Database, steps: Sequence[migrate.Migrations]) -> Check:
    todo = migrate.pending(database, steps)
    if not todo:
        newest = ", ".join(
            f"{each.part.removeprefix('shape:')} {len(each.migrations)}" for each in steps
        )
        return Check("schema", f"up to date ({newest})")
    names = ", ".join(f"{part} {step.number:04} {step.name}" for part, step in todo)
    return Check("schema", f"pending: {names}", "problem", "run `duework db migrate`")


def _durability_of_file(found: dict[str, str]) -> list[Check]:
    mode = found["journal_mode"]
    synchronous = found["synchronous"]
    return [
        Check("journal", mode)
        if mode == "wal"
        else Check("journal", mode, "problem", "the file system does not support WAL: move it"),
        Check("durability", "survives a power cut (synchronous=full)")
        if synchronous == "full"
        else Check(
            "durability",
            f"survives a crash of the process (synchronous={synchronous})",
            "warning",
            "the last commits may be lost at a power cut",
        ),
    ]


def _file(found: dict[str, str]) -> list[Check]:
    mode = int(found["mode"], 8)
    kind = found["filesystem"]
    file, wal = int(found["bytes"]), int(found["wal_bytes"])
    return [
        Check("permissions", found["mode"])
        if not mode & _OTHERS
        else Check(
            "permissions",
            found["mode"],
            "warning",
            f"others can read it: chmod 600 {found['file']}",
        ),
        Check("filesystem", kind)
        if not NETWORK.match(kind)
        else Check("filesystem", kind, "problem", "SQLite's locks cannot be trusted there"),
        Check("size", size(file)),
        Check("WAL", size(wal))
        if wal < LARGE_WAL
        else Check("WAL", size(wal), "warning", "a reader may be open for too long"),
    ]


def _durability_of_server(found: dict[str, str]) -> list[Check]:
    advice = {
        "fsync": "a crash of the server can corrupt the database",
        "full_page_writes": "a crash of the server can corrupt the database",
        "synchronous_commit": "the last commits may be lost at a crash of the server",
    }
    return [
        Check(name, found[name])
        if found[name] not in {"off", "local"}
        else Check(name, found[name], "warning" if "commit" in name else "problem", why)
        for name, why in advice.items()
    ]


def _clock(database: Database, now: int) -> Check:
    offset = (database.now() or now) - now
    text = f"the server's is {offset:+} ms from this host's"
    if abs(offset) <= LARGEST_OFFSET_MS:
        return Check("clock", text)
    return Check("clock", text, "warning", "the server's time rules; set this host's clock")
