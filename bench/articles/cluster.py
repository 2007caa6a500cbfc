"""Article 001, clusters every six hours: time and memory at its size, and whether they stay the same."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.articles.figure import Figure
from bench.articles.remind import work
from bench.articles.watch import Watch
from duework import App
from systems.scout import part
from systems.scout.cluster import cluster

# Apps of a niche, and keywords of one; the article has 450 niches.
APPS, KEYWORDS = 670, 400
FULL, QUICK = 180_000, 4_000
AT_ONCE = 50_000
CHANGED = 0.05


@contextmanager
def system() -> Iterator[App]:
    """The system alone, on a file, without anybody to call."""
    with TemporaryDirectory() as folder:
        app = App(f"sqlite:///{Path(folder) / 'scout.db'}")
        app.include(part)
        app.admin.migrate(create=True)
        # Nothing is found and nothing is looked up meanwhile.
        app.pause("scout")
        try:
            yield app
        finally:
            app.close()


def rankings(keywords: int, seed: int = 1) -> Iterator[tuple[str, int, int]]:
    """Who is found: mostly apps of the keyword's niche, some of the next one, some of anywhere."""
    draw = random.Random(seed)
    niches = max(3, keywords // KEYWORDS)
    for number in range(keywords):
        niche, found = number % niches, dict[int, None]()
        wanted = draw.randint(11, 20)
        while len(found) < wanted:
            if draw.random() < 0.12:
                found[draw.randrange(niches * APPS)] = None
            else:
                near = (niche + (draw.random() < 0.15)) % niches
                found[near * APPS + int(APPS * draw.random() ** 2)] = None
        for rank, app in enumerate(found, start=1):
            yield f"word {number:06d}", app, rank


def fill(app: App, keywords: int) -> int:
    """Rows as the first three stages leave them; how many rankings."""
    now, niches = app.now(), max(3, keywords // KEYWORDS)
    _write(
        app,
        "insert into scout_app (track_id, track_name, seller_name, average_rating, rating_count,"
        " updated_date, enriched_at, enrichment_source, evaluated_at, competitiveness_score,"
        " first_seen_at, last_seen_at) values (:id, 'x', 'x', 3.9, :ratings,"
        " '2026-01-01T00:00:00Z', :now, 'itunes', :now, :score, :now, :now)",
        (
            {"id": id_, "ratings": id_ * 7919 % 100_000, "score": id_ % 100, "now": now}
            for id_ in range(niches * APPS)
        ),
    )
    _write(
        app,
        "insert into scout_keyword (keyword, status, source, created_at, last_searched_at)"
        " values (:word, 'searched', 'search', :now, :now)",
        ({"word": f"word {number:06d}", "now": now} for number in range(keywords)),
    )
    return _write(
        app,
        "insert into scout_ranking (keyword, track_id, rank, crawled_at)"
        " values (:word, :id, :rank, :now)",
        (
            {"word": word, "id": id_, "rank": rank, "now": now}
            for word, id_, rank in rankings(keywords)
        ),
    )


def _write(app: App, sql: str, rows: Iterator[dict[str, Any]]) -> int:
    count, some = 0, list[dict[str, Any]]()
    for row in rows:
        some.append(row)
        if len(some) == AT_ONCE:
            count += _commit(app, sql, some)
            some = []
    return count + _commit(app, sql, some)


def _commit(app: App, sql: str, rows: list[dict[str, Any]]) -> int:
    if rows:
        with app.transaction() as tx:
            tx.write(sql, rows=rows)
    return len(rows)


def change(app: App, keywords: int) -> None:
    """Another app in the place of one of twenty."""
    draw, apps = random.Random(9), max(3, keywords // KEYWORDS) * APPS
    _write(
        app,
        "update scout_ranking set track_id = :new where keyword = :word and track_id = :id"
        " and not exists (select 1 from scout_ranking o where o.keyword = :word"
        " and o.track_id = :new)",
        (
            {"word": word, "id": id_, "new": draw.randrange(apps)}
            for word, id_, _ in rankings(keywords)
            if draw.random() < CHANGED
        ),
    )


def group(app: App) -> tuple[float, Watch]:
    """One run with everything that it stores; its seconds, and what its process took."""
    watch, before = Watch(), len(_runs(app))
    cluster.enqueue()

    return work(app, lambda: watch.seen(len(_runs(app)) > before), limit=3000), watch


def _runs(app: App) -> list[Any]:
    return app.read("select at from scout_cluster_run where stored_at is not null")


def _members(app: App) -> dict[str, str]:
    rows = app.read("select keyword, cluster from scout_cluster_keyword")
    return {row.keyword: row.cluster for row in rows}


def clusters(*, quick: bool) -> list[Figure]:
    """Two runs, the second with a twentieth of the rankings changed."""
    keywords = QUICK if quick else FULL
    with system() as app:
        count = fill(app, keywords)
        took, watch = group(app)
        first = _members(app)
        change(app, keywords)
        time.sleep(0.01)
        again, later = group(app)
        second = _members(app)
    ids = set(first.values())
    kept = len(ids & set(second.values())) / len(ids)
    same = sum(second.get(word) == id_ for word, id_ in first.items()) / len(first)
    niches = max(3, keywords // KEYWORDS)
    pure = Counter[str]()
    for (id_, _), size in Counter((i, int(w[5:]) % niches) for w, i in first.items()).items():
        pure[id_] = max(pure[id_], size)
    what = f"{keywords:,} keywords with {count:,} rankings into clusters, and all of it stored"
    most = max(watch.memory_mb, later.memory_mb)
    cpu = max([0.0, *watch.cpu.values(), *later.cpu.values()])
    return [
        Figure("001", what, "30 s of CPU at most", f"{took:.0f} s, {cpu:.0f} s of CPU", "—"),
        Figure("001", "the same again, 5 % of it changed", "—", f"{again:.0f} s", "—"),
        Figure("001", "memory of its process", "128 MB at most", f"{most:.0f} MB", "—"),
        Figure(
            "001", f"clusters ({niches} niches were planted)", "450", f"{len(ids)}", f"{niches}"
        ),
        Figure(
            "001",
            "keywords with those of their niche",
            "—",
            f"{sum(pure.values()) / len(first):.1%}",
            "100%",
        ),
        Figure("001", "clusters that keep their id, 5 % changed", "—", f"{kept:.1%}", "100%"),
        Figure("001", "keywords that stay in their cluster", "—", f"{same:.1%}", "about 95%"),
    ]


FIGURES: dict[str, Callable[..., list[Figure]]] = {"clusters": clusters}
