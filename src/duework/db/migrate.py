"""Numbered migrations, in lockstep on both databases, for the kernel and for each `Part`.

A migration is a file `NNNN_name.sql`; the kernel has one of the same number and name for each
database, a part may have one text for both (`NNNN_name.sql`) or one each in `sqlite/` and
`postgres/`. Each is applied once, in order, in a transaction of its own together with the row that
records it; a second process waits. A database that is ahead of this code is refused, unless the
newer code has said that this version may still work on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from duework.db.database import Database, Retryable, Tx
from duework.db.queries import Statement, for_psycopg, parameters, script
from duework.errors import SchemaMismatch, Unavailable, UsageError

KERNEL = "duework"
# The oldest kernel schema that code reading this one may still be asked to run on.
COMPATIBLE_FROM = 1

_NAME = re.compile(r"^(\d{4})_(\w+)\.sql$")


def _statement(text: str) -> Statement:
    return Statement("migrate", text, for_psycopg(text), parameters(text))


_CREATE = _statement("""create table if not exists duework_migration (
    part text not null, number integer not null, name text not null, compatible integer not null,
    primary key (part, number))""")
_APPLIED = _statement("select number, name, compatible from duework_migration where part = :part")
_RECORD = _statement(
    """insert into duework_migration (part, number, name, compatible)
       values (:part, :number, :name, :compatible)"""
)


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of a schema: its place, its name and its text."""

    number: int
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Steps:
    """All migrations of one part, in order."""

    part: str
    migrations: tuple[Migration, ...]


@lru_cache(maxsize=2)
def kernel_steps(kind: str) -> Steps:
    return Steps(KERNEL, _read(resources.files("duework.db") / "migrations" / kind))


def part_steps(part: str, folder: Path, kind: str) -> Steps:
    """A part's own migrations; a folder named after the database goes before the common one."""
    specific = folder / kind
    found = specific if specific.is_dir() else folder
    if not found.is_dir():
        raise UsageError(f"the tables of {part!r} should be in {folder}, which is not a folder")
    return Steps(part, _read(found))


def _read(folder: Any) -> tuple[Migration, ...]:
    found = []
    for entry in folder.iterdir():
        if match := _NAME.match(entry.name):
            found.append(Migration(int(match[1]), match[2], entry.read_text()))
    found.sort(key=lambda migration: migration.number)
    numbers = [migration.number for migration in found]
    if numbers != list(range(1, len(numbers) + 1)):
        raise UsageError(f"migrations in {folder} should be numbered 0001, 0002, … without gaps")
    return tuple(found)


def pending(database: Database, steps: Sequence[Steps]) -> list[tuple[str, Migration]]:
    """What is still to be applied; refuses a database that is ahead of this code."""
    with database.reading() as tx:
        return list(_pending(tx, steps)) if _known(database, tx) else _all(steps)


def _all(steps: Sequence[Steps]) -> list[tuple[str, Migration]]:
    return [(each.part, migration) for each in steps for migration in each.migrations]


def _pending(tx: Tx, steps: Sequence[Steps]) -> Iterator[tuple[str, Migration]]:
    for each in steps:
        applied = {row[0]: row for row in tx.query(_APPLIED, {"part": each.part})}
        ours = len(each.migrations)
        newest = max(applied, default=0)
        if newest > ours and applied[newest][2] > ours:
            message = (
                f"the database is at {each.part} schema {newest}, this code knows {ours} and the"
                f" newer one needs at least {applied[newest][2]}: upgrade duework on this machine"
            )
            raise SchemaMismatch(message)
        for migration in each.migrations:
            if migration.number not in applied:
                yield each.part, migration
            elif applied[migration.number][1] != migration.name:
                message = (
                    f"migration {migration.number} of {each.part} is {migration.name!r} here and"
                    f" {applied[migration.number][1]!r} in the database: they must never be renamed"
                )
                raise SchemaMismatch(message)


def _known(database: Database, tx: Tx) -> bool:
    if database.kind == "sqlite":
        sql = "select count(*) as n from sqlite_schema where name = 'duework_migration'"
    else:
        # Found as the statements below find it: by the search path.
        sql = "select count(to_regclass('duework_migration')) as n"
    return bool(tx.read(sql)[0].n)


def migrate(database: Database, steps: Sequence[Steps]) -> list[str]:
    """Apply what is pending; the names of what was applied."""
    applied: list[str] = []
    while todo := pending(database, steps):
        part, migration = todo[0]
        if _apply(database, steps, part, migration):
            applied.append(f"{part} {migration.number:04} {migration.name}")
    return applied


def _apply(database: Database, steps: Sequence[Steps], part: str, migration: Migration) -> bool:
    try:
        with database.transaction() as tx:
            if database.kind == "postgres":
                # Two processes that create a table at once: one of them would fail on the catalogue.
                tx.read("select pg_advisory_xact_lock(748329001)")
            tx.query(_CREATE, {})
            if (part, migration) not in list(_pending(tx, steps)):
                return False
            for statement in script(migration.text):
                tx.query(_statement(statement), {})
            values = {"part": part, "number": migration.number, "name": migration.name}
            tx.query(_RECORD, {**values, "compatible": COMPATIBLE_FROM})
    except Retryable as error:
        raise Unavailable(str(error)) from error
    return True
