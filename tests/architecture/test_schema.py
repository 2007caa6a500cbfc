"""The two schemas are one: the same migrations, tables, columns and indexes on both databases."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import duework
from duework import App
from duework.db.database import Tx
from duework.db.migrate import kernel_steps
from tests.support.kernel import Kernel
from tests.support.postgres import Server

MIGRATIONS = Path(duework.__file__).parent / "db" / "migrations"
KINDS = {
    "double precision": "real",
    "bigint": "integer",
    "smallint": "integer",
    "int": "integer",
    "bytea": "blob",
}
# It says in its migration how and why it differs.
DIFFERENT_INDEXES = {"duework_mark"}

VIEWS = {
    f"duework_{name}_v1"
    for name in ("jobs", "messages", "batches", "chains", "schedules", "deliveries")
}

# Migrations are only ever added. One that turns red here is to be put back as it was, and what is new
# written as another; one that is new gets a line.
CHECKSUMS = {
    "sqlite/0001_kernel": "5c630d5ea164badff9870399bb2d893f",
    "sqlite/0002_chains": "eb1c97b9c43d6fd7fb99c70f100545f0",
    "sqlite/0003_batches": "57dd03c1c973b97574fdf10f469d7da0",
    "sqlite/0004_schedules": "830818cddb8357f7a06b47fb858dfb9e",
    "sqlite/0005_deliveries": "3696f87990ca92da45f69bdc7374bb88",
    "sqlite/0006_outboxes": "185e3560124638a31c911631731e738a",
    "sqlite/0007_objects": "ca4a6af4beeafc7d7ef85c2351434b77",
    "sqlite/0008_schedule_ends": "c3a642495a7b36900db679e7eab1e8e5",
    "sqlite/0009_plain_names": "93602a33d4ebf4fc1f6dc8a675af344a",
    "sqlite/0010_secrets": "cfe209dab2345654a2cdbcaeee45d778",
    "sqlite/0011_web": "2454c5e1df5062a3fdedf39e27ff6c36",
    "sqlite/0012_people": "e1e60df9b37fccaaf150be374b59790c",
    "sqlite/0013_batch_members": "476f22aa42a81d72cf3b90602691843a",
    "sqlite/0014_message_lanes": "be606f3e952c91e4b0079337aa21e1fe",
    "sqlite/0015_views": "5084b9f750be02183df3d229d972b9d2",
    "sqlite/0016_minutes": "7cfec07fc4384e2afad2c683c3f536b3",
    "postgres/0001_kernel": "3bab509ba9dfaedcb06a3fa808043bb4",
    "postgres/0002_chains": "f6289d44eb56ed15807eb7345af67101",
    "postgres/0003_batches": "7f71379be2de1a778e05055d7faed019",
    "postgres/0004_schedules": "11036bae84dc1aa6ebfd64c59c3ae82d",
    "postgres/0005_deliveries": "cb6998238a76c3703cfb539435ee8755",
    "postgres/0006_outboxes": "8fb035ee4c90ebcd88557a9f5e007ba7",
    "postgres/0007_objects": "226e9afe66b3099f892242503322c446",
    "postgres/0008_schedule_ends": "ac5b5f30b859788e884ca6319372b78b",
    "postgres/0009_plain_names": "93602a33d4ebf4fc1f6dc8a675af344a",
    "postgres/0010_secrets": "ac23a4f695f2ae25f9ea261a6f842265",
    "postgres/0011_web": "39e18458671eae8b03a2654e91ef9b7e",
    "postgres/0012_people": "1496aa5f9531cbe8dac32113b3ddba80",
    "postgres/0013_batch_members": "476f22aa42a81d72cf3b90602691843a",
    "postgres/0014_message_lanes": "be606f3e952c91e4b0079337aa21e1fe",
    "postgres/0015_views": "5084b9f750be02183df3d229d972b9d2",
    "postgres/0016_minutes": "e3708c9ad784d203a920f47987ae2087",
    "sqlite/0017_worker_limits": "58145527fe26e6e2eecd6f51ec2372cd",
    "postgres/0017_worker_limits": "58145527fe26e6e2eecd6f51ec2372cd",
}


def test_no_migration_has_changed_since_it_was_written() -> None:
    found = {
        f"{kind}/{migration.number:04}_{migration.name}": migration.checksum
        for kind in ("sqlite", "postgres")
        for migration in kernel_steps(kind).migrations
    }

    assert found == CHECKSUMS


def test_the_statements_on_jobs_begin_with_every_table_of_the_kernel_and_name_what_is_there() -> (
    None
):
    text = (MIGRATIONS.parents[1] / "kernel" / "jobs.sql").read_text()
    opening = text.partition("-- name:")[0]
    kernel = (MIGRATIONS / "sqlite" / "0001_kernel.sql").read_text()
    statements = set(re.findall(r"(?m)^-- name: (\w+)$", text))

    assert set(re.findall(r"create table (\w+)", kernel)) <= set(
        re.findall(r"duework_\w+", opening)
    )
    assert set(re.findall(r"`(\w+)`(?!s)", opening)) - {"due", "owner"} <= statements
    assert len(opening.splitlines()) <= 45


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


def test_the_views_have_the_same_columns_in_the_same_order(
    postgres: Server, postgres_template: str, tmp_path: Path
) -> None:
    ours, theirs = both(postgres, postgres_template, tmp_path, views_of_sqlite, views)

    assert {name for name, *_ in ours} == VIEWS
    assert ours == theirs


def views_of_sqlite(tx: Tx) -> list[Any]:
    return tx.read("""
        select t.name as tab, c.cid + 1, c.name
        from pragma_table_list t, pragma_table_info(t.name) c
        where t.name like 'duework_%' and t.type = 'view' order by t.name, c.cid""")


def views(tx: Tx) -> list[Any]:
    return tx.read("""
        select c.table_name, c.ordinal_position, c.column_name
        from information_schema.columns c
        join information_schema.views v using (table_schema, table_name)
        where c.table_schema = 'public' and c.table_name like 'duework_%'
        order by c.table_name, c.ordinal_position""")


def both(postgres: Server, template: str, folder: Path, first: Any, second: Any) -> Any:
    url = postgres.create_database("schema", template=template)
    # With the tables of the shapes, as the template has them.
    made = App(f"sqlite:///{folder / 'schema.db'}")
    made.admin.migrate(create=True)
    made.close()
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
        from pragma_table_list t, pragma_table_info(t.name) c
        where t.name like 'duework_%' and t.type = 'table'""")
    return {(row[0], row[1], row[2], bool(row[3]), row[4]) for row in found}


def columns(tx: Tx) -> set[tuple[Any, ...]]:
    found = tx.read("""
        select table_name, column_name, data_type, is_nullable = 'NO', column_default
        from information_schema.columns
        where table_schema = 'public' and table_name like 'duework_%'
          and table_name in (select tablename from pg_tables where schemaname = 'public')""")
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
