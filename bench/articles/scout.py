"""Article 001, the autonomous pipeline: what an idle cycle reads, and how large an app is."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw

from bench.articles.figure import Figure
from duework import App
from systems.scout import client, store
from systems.scout.crawl import gaps
from systems.scout.part import part
from systems.twins.apple.catalogue import Catalogue

NOW = 1_772_366_460_000
DAY = 86_400_000
# What a dashboard counted each minute: as many as the article names.
COUNTED = (
    *("scout_app", "scout_keyword", "scout_developer", "scout_ranking", "scout_chart"),
    *("scout_cluster", "scout_ledger"),
)
COUNTS = tuple(
    f"select count(*) from {table} where {where}"
    for table in COUNTED
    for where in ("1 = 1 and rowid > 0", "rowid % 2 = 0", "rowid % 2 = 1")
)
# The article's checks: LIMIT 1 behind a count is reached after all rows are counted.
LIMITED = (
    "select count(*) from scout_category where scanned_at is null or scanned_at < :old limit 1",
    "select count(*) from scout_app where enriched_at is not null and ranked_at is null limit 1",
    "select count(*) from scout_keyword where status = 'pending' limit 1",
    "select count(*) from scout_app where rating_count >= 0 and iap_scraped_at is null limit 1",
    "select count(*) from scout_app where enriched_at is null and rating_count >= 0 limit 1",
)
_APPS = """
    insert into scout_app (track_id, track_name, seller_name, rating_count, enriched_at,
        enrichment_source, scraped_at, iap_scraped_at, ranked_at, evaluated_at, first_seen_at, last_seen_at)
    with recursive n(i) as (select 1 union all select i + 1 from n where i < :rows)
    select i, 'App ' || i, 'Somebody', i % 1000, :now, 'scraper', :now, :now, :now, :now, :now, :now from n"""
_KEYWORDS = """
    insert into scout_keyword (keyword, source, status, created_at, due_at)
    with recursive n(i) as (select 1 union all select i + 1 from n where i < :rows)
    select 'word ' || i, 'search', 'searched', i, :now + 86400000 from n"""
_DEVELOPERS = """
    insert into scout_developer (developer_id, name, due_at, expanded_at)
    with recursive n(i) as (select 1 union all select i + 1 from n where i < :rows)
    select i, 'Somebody', :now + 86400000, :now from n"""


def _named(cursor: Any, row: Any) -> Any:
    names = [each[0] for each in cursor.get_description()]
    return namedtuple("Row", names, rename=True)(*row)  # noqa: PYI024 - as the engine's


class Reader:
    """Reads a file and counts the steps of SQLite's machine."""

    def __init__(self, path: Path) -> None:
        self._connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        self._connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, self._count)
        self.steps = 0

    def _count(self, event: dict[str, Any]) -> None:
        self.steps += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    def read(self, sql: str, **values: Any) -> list[Any]:
        cursor = self._connection.cursor()
        cursor.row_trace = _named
        return list(cursor.execute(sql, values, can_cache=False))

    def write(self, sql: str, **values: Any) -> None:
        self._connection.execute(sql, values)

    def steps_of(self, function: Callable[[Reader], object]) -> int:
        """What a function costs."""
        before = self.steps
        function(self)
        return self.steps - before

    def close(self) -> None:
        self._connection.close()


@contextmanager
def filled(rows: int) -> Iterator[Reader]:
    """Scout's tables with so many apps, all of them done."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "scout.db"
        app = App(f"sqlite:///{path}")
        app.include(part)
        app.admin.migrate(create=True)
        app.close()
        reader = Reader(path)
        try:
            for sql, count in ((_APPS, rows), (_KEYWORDS, rows // 6), (_DEVELOPERS, rows // 24)):
                reader.write(sql, rows=count, now=NOW)
            yield reader
        finally:
            reader.close()


def counts(reader: Reader) -> None:
    """21 counts, each of all rows that there are."""
    for sql in COUNTS:
        reader.read(sql)


def limited(reader: Reader) -> None:
    """Five checks as the article writes them."""
    for sql in LIMITED:
        reader.read(sql, **({"old": NOW - 7 * DAY} if ":old" in sql else {}))


def exists(reader: Reader) -> None:
    """All of ours."""
    assert not any(gaps.assess(reader.read, NOW))


def idle(*, quick: bool) -> list[Figure]:
    """Steps of an idle cycle; nothing is to be done."""
    rows = 20_000 if quick else 1_100_000
    with filled(rows) as reader:
        theirs = [reader.steps_of(each) for each in (counts, limited)]
        ours = reader.steps_of(exists)
    what = f"steps of SQLite in an idle cycle, {rows:,} apps: "
    return [
        Figure("001", what + "21 counts", f"{theirs[0]:,}", f"{ours:,}", "a seek in each index"),
        Figure("001", what + "5 counts with LIMIT 1", f"{theirs[1]:,}", f"{ours:,}", "the same"),
    ]


def bytes_of(*, quick: bool) -> list[Figure]:
    """The size of an app that was found, with a description of 1,000 characters."""
    count = 500 if quick else 20_000
    shop = Catalogue(1, NOW, count)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "scout.db"
        app = App(f"sqlite:///{path}")
        app.include(part)
        app.admin.migrate(create=True)
        empty = path.stat().st_size
        for start in range(0, count, 1000):
            shown = [shop.as_json(each, "us", NOW) for each in shop.apps[start : start + 1000]]
            found = [client.described({**each, "description": "x" * 1000}) for each in shown]
            with app.transaction() as tx:
                store.apps(tx, found, NOW, by="search")
        app.close()
        each = (path.stat().st_size - empty) / count
    whole = each * 1_100_000 / 1e9
    what = "bytes of an app with a description of 1,000 characters; 1.1 million of them"
    return [Figure("001", what, "6.4 GB with everything", f"{each:,.0f}; {whole:.1f} GB", "1,000")]


FIGURES: dict[str, Callable[..., list[Figure]]] = {"idle cycle": idle, "bytes": bytes_of}
