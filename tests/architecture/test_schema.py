"""The two schemas are one: the same migrations, tables, columns and indexes on both databases."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import duework
from duework.db.database import Tx
from duework.db.migrate import kernel_steps
from tests.support.kernel import Kernel
from tests.support.postgres import Server

MIGRATIONS = Path(duework.__file__).parent / "db" / "migrations"
KINDS = {"bigint": "integer", "smallint": "integer", "int": "integer", "bytea": "blob"}
# It says in its migration how and why it differs.
DIFFERENT_INDEXES = {"duework_mark"}


def test_migrations_come_in_pairs() -> None:
    sqlite = sorted(path.name for path in (MIGRATIONS / "sqlite").iterdir())
    postgres = sorted(path.name for path in (MIGRATIONS / "postgres").iterdir())

    assert sqlite == postgres
    assert [f"{m.number:04}_{m.name}.sql" for m in kernel_steps("sqlite").migrations] == sqlite


def test_the_columns_are_the_same(postgres: Server, postgres_template: str, tmp_path: Path) -> None:
    ours, theirs = both(postgres, postgres_template, tmp_path, columns_of_sqlite, columns)

    assert len(ours) > 50
    assert ours == theirs


def test_the_indexes_are_the_same(postgres: Server, postgres_template: str, tmp_path: Path) -> None:
    ours, theirs = both(postgres, postgres_template, tmp_path, indexes_of_sqlite, indexes)

    assert len(ours) > 10
    assert ours == theirs


def both(postgres: Server, template: str, folder: Path, first: Any, second: Any) -> Any:
    url = postgres.create_database("schema", template=template)
    with (
        Kernel(f"sqlite:///{folder / 'schema.db'}") as one,
        Kernel(url) as two,
        one.reading() as sqlite,
        two.reading() as server,
    ):
        found = first(sqlite), second(server)
    postgres.drop_database("schema")
    return found


def columns_of_sqlite(tx: Tx) -> set[tuple[Any, ...]]:
    found = tx.read("""
        select t.name as tab, c.name, lower(c.type), c."notnull" or c.pk > 0, c.dflt_value
        from pragma_table_list t, pragma_table_info(t.name) c where t.name like 'duework_%'""")
    return {(row[0], row[1], row[2], bool(row[3]), row[4]) for row in found}


def columns(tx: Tx) -> set[tuple[Any, ...]]:
    found = tx.read("""
        select table_name, column_name, data_type, is_nullable = 'NO', column_default
        from information_schema.columns
        where table_schema = 'public' and table_name like 'duework_%'""")
    plain = re.compile(r"::\w+$")
    return {
        (row[0], row[1], KINDS.get(row[2], row[2]), row[3], row[4] and plain.sub("", row[4]))
        for row in found
    }


def indexes_of_sqlite(tx: Tx) -> set[tuple[Any, ...]]:
    """(table, columns, unique, predicate); the last column of a row's own id is in every index."""
    found = tx.read("""
        select t.name as tab, i.name, i."unique", s.sql
        from pragma_table_list t, pragma_index_list(t.name) i
        left join sqlite_schema s on s.name = i.name
        where t.name like 'duework_%'""")
    made = set()
    for table, name, unique, text in found:
        names = [row[0] for row in tx.read(f"select name from pragma_index_info('{name}')")]
        made.add((table, tuple(names), bool(unique), predicate(text or "")))
    for table, column in tx.read("""
        select t.name as tab, c.name from pragma_table_list t, pragma_table_info(t.name) c
        where t.name like 'duework_%' and c.pk = 1 and lower(c.type) = 'integer'
          and not exists (select 1 from pragma_index_list(t.name) i where i.origin = 'pk')"""):
        made.add((table, (column,), True, ""))
    return {normal(each) for each in made if each[0] not in DIFFERENT_INDEXES}


def indexes(tx: Tx) -> set[tuple[Any, ...]]:
    found = tx.read("""select tablename, indexdef from pg_indexes
                       where schemaname = 'public' and tablename like 'duework_%'""")
    made = set()
    for table, text in found:
        match = re.match(r"CREATE (UNIQUE )?INDEX \w+ ON [\w.]+ USING btree \((.*?)\)(.*)", text)
        assert match, text
        names = tuple(match[2].replace('"', "").split(", "))
        made.add((table, names, bool(match[1]), predicate(match[3])))
    return {normal(each) for each in made if each[0] not in DIFFERENT_INDEXES}


def predicate(text: str) -> str:
    _, _, condition = text.lower().partition(" where ")
    return " ".join(re.sub(r"::\w+|[()]", "", condition).split())


def normal(index: tuple[Any, ...]) -> tuple[Any, ...]:
    table, names, unique, condition = index
    implied = len(names) > 1 and names[-1] == "id"
    return table, names[:-1] if implied else names, unique, condition
