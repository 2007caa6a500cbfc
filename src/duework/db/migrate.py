"""Numbered migrations, in lockstep on both databases, for the kernel and for each `Part`.

A migration is a file `NNNN_name.sql`; the kernel has one of the same number and name for each
database, a part may have one text for both (`NNNN_name.sql`) or one each in `sqlite/` and
`postgres/`. Each is applied once, in order, in a transaction of its own together with the row that
records it; a second process waits. Migrations are only ever added: the row keeps a checksum, and a
database that was made by another text is refused.

A database that is ahead of this code is refused too, unless the newer migrations say that this code may
still work on it: one whose first line is `-- compatible: 7` lets code go on that knows the first seven.
One that says nothing is for no older code.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from duework.db.database import Database, Retryable, Tx
from duework.db.queries import Statement, for_psycopg, parameters, script, without_comments
from duework.errors import SchemaMismatch, Unavailable, UsageError

KERNEL = "duework"

_NAME = re.compile(r"^(\d{4})_(\w+)\.sql$")
_COMPATIBLE = re.compile(r"-- compatible:\s*(\d+)\s*")
# As the kernel's own migrations are written: a column to a line.
_MAKES = re.compile(r"(?m)^create (?:unique )?(table|index) (\w+)")
_RENAMES = re.compile(r"alter table (\w+) rename column (\w+) to")
_COLUMN = re.compile(r"(?m)^    (?!(?:primary|unique|check|foreign|constraint)\b)([a-z]\w*)")


def _statement(text: str) -> Statement:
    return Statement("migrate", text, for_psycopg(text), parameters(text))


# What there is of ours, as the statements here find it: on PostgreSQL by the search path.
_NAMES = Statement(
    "names",
    """select name from sqlite_schema where name like 'duework%' union all
       select m.name || '.' || c.name from sqlite_schema m join pragma_table_info(m.name) c
       where m.name like 'duework%'""",
    """select relname::text from pg_class
       where relname like 'duework%%' and pg_table_is_visible(oid) union all
       select c.relname || '.' || a.attname from pg_class c join pg_attribute a on a.attrelid = c.oid
       where c.relname like 'duework%%' and pg_table_is_visible(c.oid) and a.attnum > 0""",
    (),
)
# Made here and not by a migration: it says which of them are applied.
_CREATE = _statement("""create table if not exists duework_migration (
    part text not null, number integer not null, name text not null, compatible integer not null,
    checksum text, primary key (part, number))""")
# It had no checksums once.
_ADD_CHECKSUM = _statement("alter table duework_migration add column checksum text")
_APPLIED = "select part, number, name, compatible, {} from duework_migration"
_SIGNED, _UNSIGNED = (_statement(_APPLIED.format(each)) for each in ("checksum", "null"))
_RECORD = _statement(
    """insert into duework_migration (part, number, name, compatible, checksum)
       values (:part, :number, :name, :compatible, :checksum)"""
)
_SIGN = _statement(
    """update duework_migration set compatible = :compatible, checksum = :checksum
       where part = :part and number = :number and name = :name and checksum is null"""
)


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of a schema: its place, its name, its text, and the oldest code that may go on after it."""

    number: int
    name: str
    text: str
    # The number of migrations that such code knows.
    compatible: int

    @property
    def checksum(self) -> str:
        """Of all but comments and white space."""
        return hashlib.blake2b(without_comments(self.text).encode(), digest_size=16).hexdigest()

    def __str__(self) -> str:
        return f"{self.number:04} {self.name}"


@dataclass(frozen=True, slots=True)
class Migrations:
    """All migrations of one part, in order."""

    part: str
    migrations: tuple[Migration, ...]

    def row(self, migration: Migration) -> dict[str, Any]:
        """What is recorded of one. Code that may go on after it may go on after all before it."""
        before = self.migrations[: migration.number]
        return {
            "part": self.part,
            "number": migration.number,
            "name": migration.name,
            "compatible": max(each.compatible for each in before),
            "checksum": migration.checksum,
        }


class _Applied(NamedTuple):
    name: str
    compatible: int
    # None if it was applied before checksums were kept.
    checksum: str | None


Step = tuple[Migrations, Migration]


class _Look(NamedTuple):
    """How a database that fits stands to what this code knows."""

    pending: list[Step]
    unsigned: list[Step]


@lru_cache(maxsize=2)
def kernel_steps(kind: str) -> Migrations:
    return Migrations(KERNEL, _read(resources.files("duework.db") / "migrations" / kind))


def part_steps(part: str, folder: Path, kind: str) -> Migrations:
    """A part's own migrations; a folder named after the database goes before the common one."""
    specific = folder / kind
    found = specific if specific.is_dir() else folder
    if not found.is_dir():
        raise UsageError(f"the tables of {part!r} should be in {folder}, which is not a folder")
    return Migrations(part, _read(found))


def _read(folder: Any) -> tuple[Migration, ...]:
    found = []
    for entry in folder.iterdir():
        if match := _NAME.match(entry.name):
            number, text = int(match[1]), entry.read_text()
            found.append(Migration(number, match[2], text, _compatible(entry, number, text)))
    found.sort(key=lambda migration: migration.number)
    numbers = [migration.number for migration in found]
    if numbers != list(range(1, len(numbers) + 1)):
        raise UsageError(f"migrations in {folder} should be numbered 0001, 0002, … without gaps")
    return tuple(found)


def _compatible(entry: Any, number: int, text: str) -> int:
    first = text.partition("\n")[0]
    if not first.startswith("-- compatible"):
        return number
    match = _COMPATIBLE.fullmatch(first)
    if match is None or not 1 <= int(match[1]) <= number:
        message = (
            f"{entry} says {first!r}: name a migration from 1 to {number}, as `-- compatible: 1`"
        )
        raise UsageError(message)
    return int(match[1])


def pending(database: Database, steps: Sequence[Migrations]) -> list[tuple[str, Migration]]:
    """What is still to be applied; refuses a database that does not fit this code."""
    with database.reading() as tx:
        found = _look(tx, steps)
    return [(each.part, migration) for each, migration in found.pending]


def require(tx: Tx, steps: Sequence[Migrations]) -> None:
    """An error unless the schema is the one this code works on."""
    if lacking := _look(tx, steps).pending:
        if len(lacking) == sum(len(each.migrations) for each in steps):
            message = "the database has no tables of Duework yet: run `duework db migrate` first"
            raise SchemaMismatch(message)
        names = ", ".join(f"{each.part} {migration}" for each, migration in lacking)
        raise SchemaMismatch(f"the database lacks {names}: run `duework db migrate` first")


def _look(tx: Tx, steps: Sequence[Migrations]) -> _Look:
    names = _names(tx)
    applied = _applied(tx, names)
    found = _Look([], [])
    for each in steps:
        rows = applied.get(each.part, {})
        _refuse_newer(each, rows)
        # What a later migration has renamed is there under another name.
        there = names | _renamed(each, rows)
        for migration in each.migrations:
            if (row := rows.get(migration.number)) is None:
                found.pending.append((each, migration))
                continue
            _refuse_other(each.part, migration, row)
            if row.checksum is None:
                _refuse_unlike(each.part, migration, there)
                found.unsigned.append((each, migration))
    return found


def _names(tx: Tx) -> set[str]:
    return {row[0] for row in tx.query(_NAMES, {})}


def _applied(tx: Tx, names: set[str]) -> dict[str, dict[int, _Applied]]:
    found: dict[str, dict[int, _Applied]] = {}
    if "duework_migration" in names:
        signed = "duework_migration.checksum" in names
        for part, number, *row in tx.query(_SIGNED if signed else _UNSIGNED, {}):
            found.setdefault(part, {})[number] = _Applied(*row)
    return found


def _refuse_newer(steps: Migrations, rows: dict[int, _Applied]) -> None:
    ours, newest = len(steps.migrations), max(rows, default=0)
    if newest > ours and rows[newest].compatible > ours:
        what = "duework" if steps.part == KERNEL else f"the program that brings {steps.part}"
        message = (
            f"the database is at {steps.part} schema {newest}, this code knows {ours} and the"
            f" newer one needs at least {rows[newest].compatible}: upgrade {what} on this machine"
        )
        raise SchemaMismatch(message)


def _refuse_other(part: str, migration: Migration, row: _Applied) -> None:
    if row.name != migration.name:
        message = (
            f"migration {migration.number} of {part} is {migration.name!r} here and"
            f" {row.name!r} in the database: they must never be renamed"
        )
        raise SchemaMismatch(message)
    if row.checksum not in {None, migration.checksum}:
        _made_otherwise(part, migration, "the text is another one")


def _refuse_unlike(part: str, migration: Migration, names: set[str]) -> None:
    """Of one that was applied before checksums were kept: what it makes should be there."""
    # How others write their migrations is not known.
    made = _makes(migration.text) if part == KERNEL else set()
    if lacking := sorted(made - names):
        _made_otherwise(part, migration, f"there is no {lacking[0]}")


def _makes(text: str) -> set[str]:
    """Tables, columns and indexes."""
    found = set()
    for statement in script(text):
        if made := _MAKES.search(statement):
            columns = _COLUMN.findall(statement) if made[1] == "table" else []
            found |= {made[2], *(f"{made[2]}.{column}" for column in columns)}
    return found


def _renamed(steps: Migrations, rows: dict[int, _Applied]) -> set[str]:
    """Columns that what was applied has renamed, by their names before."""
    texts = (migration.text for migration in steps.migrations if migration.number in rows)
    return {".".join(found) for text in texts for found in _RENAMES.findall(text)}


def _made_otherwise(part: str, migration: Migration, why: str) -> NoReturn:
    message = (
        f"migration {migration} of {part} was changed after it was applied to this database ({why}):"
        " run the version that made the database, or begin with a new one; if the migration is yours,"
        " put its old text back and write what is new as another one"
    )
    raise SchemaMismatch(message)


def migrate(database: Database, steps: Sequence[Migrations]) -> list[str]:
    """Apply what is pending; the names of what was applied."""
    applied: list[str] = []
    while True:
        with database.reading() as tx:
            found = _look(tx, steps)
        if found.unsigned:
            _sign(database, steps)
        elif not found.pending:
            return applied
        elif _apply(database, steps, step := found.pending[0]):
            applied.append(f"{step[0].part} {step[1]}")


def _apply(database: Database, steps: Sequence[Migrations], step: Step) -> bool:
    with _changing(database) as tx:
        if step not in _look(tx, steps).pending:
            return False
        each, migration = step
        for statement in script(migration.text):
            tx.query(_statement(statement), {})
        tx.query(_RECORD, each.row(migration))
    return True


def _sign(database: Database, steps: Sequence[Migrations]) -> None:
    """Keep checksums of what was applied before there were any."""
    with _changing(database) as tx:
        for each, migration in _look(tx, steps).unsigned:
            tx.query(_SIGN, each.row(migration))


@contextlib.contextmanager
def _changing(database: Database) -> Iterator[Tx]:
    """A transaction beside which no other one changes the schema, on a table of migrations as it is now."""
    try:
        with database.transaction() as tx:
            if database.kind == "postgres":
                # Two processes that create a table at once: one of them would fail on the catalogue.
                tx.read("select pg_advisory_xact_lock(748329001)")
            tx.query(_CREATE, {})
            if "duework_migration.checksum" not in _names(tx):
                tx.query(_ADD_CHECKSUM, {})
            yield tx
    except Retryable as error:
        raise Unavailable(str(error)) from error
