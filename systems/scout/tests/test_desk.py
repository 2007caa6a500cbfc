"""What people look at: apps, figures, clusters, complaints, changes; the pages and the routes of it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from duework import UsageError
from systems.scout import reading
from systems.scout.desk import apps, changes, figures, groups, pains, words
from systems.scout.tests.conftest import World
from systems.scout.tests.found import DAY, an_app, cluster, found, insert, judged, reviews
from systems.scout.tests.test_web import client, operator, program
from tests.web.conftest import Browser

__all__ = ["client", "operator", "program"]


def pages_of(**given: Any) -> list[list[int]]:
    """The ids on each page until the last one."""
    seen, after = [], ""
    while True:
        page = apps.browse(after=after, **given)
        seen.append([row.track_id for row in page.rows])
        if page.more is None:
            return seen
        after = page.more


def flat(pages: list[list[int]]) -> list[int]:
    return [id_ for page in pages for id_ in page]


@pytest.mark.rows("001-X1")
def test_apps_are_browsed_page_by_page_each_once(world: World) -> None:
    now = world.h.now
    with world.app.transaction() as tx:
        insert(tx, "scout_app", [an_app(n, now, rating_count=n // 3) for n in range(1, 131)])
    pages = pages_of()
    assert [len(each) for each in pages] == [50, 50, 30]
    assert flat(pages) == sorted(range(1, 131), key=lambda n: (-(n // 3), -n))
    assert flat(pages_of(order="newest")) == list(range(1, 131))
    assert flat(pages_of(genre="Finance")) == list(range(129, 0, -2))
    # A page stays where it is although apps come before it.
    first = apps.browse()
    with world.app.transaction() as tx:
        insert(tx, "scout_app", [an_app(500, now, rating_count=10_000)])
    assert apps.browse(after=first.more or "").rows[0].track_id == pages[1][0]


def test_a_search_looks_at_so_many_apps_and_says_where_it_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = world.h.now
    rows = [an_app(n, now) for n in range(1, 41)]
    rows[4]["track_name"] = "Crème brûlée"
    rows[29]["seller_name"] = "BRULEE Ltd"
    with world.app.transaction() as tx:
        insert(tx, "scout_app", rows)
    found = apps.browse("brulee")
    assert [row.track_id for row in found.rows] == [30, 5]
    assert (found.more, found.looked) == (None, 40)
    monkeypatch.setattr(apps, "CHUNK", 10)
    monkeypatch.setattr(apps, "LOOKED", 20)
    some = apps.browse("brulee")
    assert ([row.track_id for row in some.rows], some.looked) == ([30], 20)
    assert [row.track_id for row in apps.browse("brulee", after=some.more or "").rows] == [5]
    assert apps.browse("%").rows == []


def test_an_end_that_no_page_had_is_refused(world: World) -> None:
    for after in ("x", "1", "1:x", "-1:5", f"{2**63}:1", "1:2:3"):
        with pytest.raises(UsageError):
            apps.browse(after=after)


def test_the_plans_of_lists_use_their_indexes(world: World) -> None:
    if not world.app.url.startswith("sqlite"):
        return  # a table of a few rows is read whole there
    for sql in (
        apps.BROWSE.format(columns="track_id", order="rating_count", genre=""),
        apps.BROWSE.format(columns="track_id", order="first_seen_at", genre=""),
        apps.BROWSE.format(
            columns="track_id", order="rating_count", genre="primary_genre = :genre and "
        ),
    ):
        plan = world.app.read(
            f"explain query plan {sql}",
            at=1,
            id=1,
            most=1,
            **({"genre": "x"} if "genre" in sql else {}),
        )
        text = " ".join(str(row) for row in plan)
        assert "USING INDEX" in text or "USING COVERING INDEX" in text, text
        assert "TEMP B-TREE" not in text, text


@pytest.mark.rows("001-172", "001-173", "001-181")
def test_figures_are_counted_to_a_bound_once_a_minute_and_only_for_who_looks(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    found(world.app, world.h.now)
    counted: list[str] = []
    real = figures.bounded

    def watch(read: Any, table: str, where: str) -> int:
        counted.append(table)
        return real(read, table, where)

    monkeypatch.setattr(figures, "bounded", watch)
    world.quiet()
    world.h.advance("2h")
    assert counted == [], "nobody has looked"
    for _ in range(30):
        assert reading.crawl_status()["apps"] == 12
        reading.stages(world.h.now)
    assert len(counted) == len(figures.COUNTED)
    world.h.advance("61s")
    reading.stages(world.h.now)
    assert len(counted) == 2 * len(figures.COUNTED)
    monkeypatch.setattr(figures, "MOST", 5)
    assert figures.counted(world.app.read)["apps"] == 5


# --- clusters, complaints, changes


def test_clusters_are_listed_by_score_page_by_page(world: World) -> None:
    with world.app.transaction() as tx:
        for n in range(60):
            row = {
                "id": f"k{n:02}",
                "name": f"k{n}",
                "apps": 3,
                "keywords": 2,
                "inputs": "{}",
                "found_at": 0,
            }
            scores = dict.fromkeys(("demand", "competition", "fragmentation", "design"), 1.0)
            insert(tx, "scout_cluster", [{**row, **scores, "score": float(n // 7)}])
    first, more = groups.listed()
    second, end = groups.listed(more or "")
    seen = [(row.score, row.id) for row in first + second]
    assert (len(first), len(second), end) == (50, 10, None)
    assert seen == sorted(seen, key=lambda each: (-each[0], each[1]))
    assert len(set(seen)) == 60
    with pytest.raises(UsageError):
        groups.listed("best:k1")


def test_complaints_are_what_poor_reviews_share_and_happy_people_do_not_say(world: World) -> None:
    found(world.app, world.h.now)
    texts = [
        (1, "The calendar breaks at night, sleep timer"),
        (2, "calendar breaks whenever I travel. sleep timer"),
        (1, "Calendar breaks! And the advert is loud"),
        (5, "I love the loud advert"),
        (4, "lovely sounds"),
        (3, "so so, subscription"),
        (1, "subscription"),
    ]
    reviews(world.app, world.h.now, texts)
    pain, *rest = pains.of_cluster("c1")
    assert (pain.words, pain.reviews, pain.of) == ("calendar breaks", 3, 4)
    assert [quote.track_id for quote in pain.quotes] == [3, 3, 3]
    said = {each.words for each in rest}
    assert not said & {"sleep", "timer", "sleep timer", "calendar", "loud", "subscription"}
    assert pains.of_app(1, "x") == []
    assert [row.cluster for row, _ in pains.everywhere()] == ["c1"]


@pytest.mark.rows("001-X1")
def test_what_changed_is_told_once_and_only_what_is_worth_it(world: World) -> None:
    world.quiet()
    with world.app.transaction() as tx:
        cluster(tx, world.h.now)
        judged(tx, world.h.now, "c2", "tax", score=50.0)
    world.h.advance("61m")
    assert {row.says for row in changes.listed()} == {
        "New: sleep timer, 61 of 100, place 1",
        "New: tax, 50 of 100, place 2",
    }
    told = world.app.get_schedule("scout.tell")
    assert (told.fires, told.last_outcome) == (1, "idle"), "nothing was judged since"
    assert changes.since_yesterday(world.h.now) == {}

    def look(at: int, id_: str = "", **values: Any) -> list[str]:
        sets = ", ".join(f"{name} = :{name}" for name in values)
        with world.app.transaction() as tx:
            if id_:
                tx.write(
                    f"update scout_opportunity set {sets} where cluster = :id",  # noqa: S608
                    id=id_,
                    **values,
                )
            changes.compare(tx, at)
        return [row.says for row in changes.listed() if row.at == at]

    later = world.h.now + DAY
    assert look(later, "c2", score=70.5) == ["tax rose to place 1 (+20.5)"]
    assert look(later + 1, "c1", score=61.4) == [], "0.4 points are not worth a line"
    moved = changes.since_yesterday(later + 1)
    assert moved == pytest.approx({"c1": 0.4, "c2": 20.5})
    assert look(later + 2, "c1", verdict="watch") == [
        "sleep timer: watch instead of build, 61.4 of 100"
    ]
    with world.app.transaction() as tx:
        tx.write("delete from scout_opportunity where cluster = 'c2'")
        split = {"cluster": "c1", "at": later + 3, "event": "split", "other": "c9", "overlap": 0.5}
        insert(tx, "scout_cluster_lineage", [split])
    assert set(look(later + 3)) == {
        "tax is no longer among the opportunities",
        "c1 has split from c9",
    }
    assert look(later + 4) == []
    assert [score for _, score in changes.score_history("c1")][:3] == [61.0, 61.0, 61.4]
    assert changes.listed(before=changes.listed()[-1].at) == []


# --- pages


@pytest.mark.rows("001-X1", "001-X2")
def test_every_page_shows_what_there_is_and_what_there_is_not(
    world: World, operator: Browser
) -> None:
    paths = (
        "",
        "clusters",
        "apps",
        "keywords",
        "complaints",
        "changes",
        "saved",
        "crawl",
        "controller",
        "failed",
        "doctor",
    )
    for path in paths:
        assert operator.get(f"/scout/{path}").status_code == 200, path
    found(world.app, world.h.now)
    reviews(world.app, world.h.now, [(1, "calendar breaks"), (1, "calendar breaks")])
    history = [
        {
            "collection": "topfreeapplications",
            "category": 6013,
            "snapshot_at": world.h.now - n * DAY,
            "rank": 5 + n,
            "track_id": 3,
        }
        for n in range(4)
    ]
    with world.app.transaction() as tx:
        insert(tx, "scout_chart_history", history)
        words.follow(tx, "sleep timer", world.h.now)
    world.seed()
    world.h.advance("61s")
    shown = {
        "": ["sleep timer", "Why this score", "Debate, 3 voices"],
        "opportunities/c1": [
            "35 %",
            "60 ratings over 3 apps",
            "has nothing to say",
            "calendar breaks",
        ],
        "clusters": ["sleep timer", "61"],
        "clusters/c1": ["of the three largest", "/scout/apps/3", "sleep timer", "calendar breaks"],
        "apps": ["Sleep timer 12", "Health &amp; Fitness"],
        "apps?q=timer+3": ["Sleep timer 3"],
        "apps/3": ["Places in charts", "polyline", "calendar breaks", "/scout/clusters/c1"],
        "keywords": ["night sounds", "searched"],
        "keywords?state=tracked": ["sleep timer"],
        "keywords/one?word=sleep+timer": ["Sleep timer 1", "Follow no more", "Places over time"],
        "complaints": ["calendar breaks", "2 of 2"],
        "saved": ["followed keyword"],
        "crawl": ["Health &amp; Fitness", "never"],
        "controller": ["10</b> at a time"],
    }
    for path, texts in shown.items():
        page = operator.get(f"/scout/{path}")
        assert page.status_code == 200, path
        for text in texts:
            assert text in page.text, f"{text!r} on {path}"
    assert "Sleep timer 12" not in operator.get("/scout/apps?q=timer+3").text
    for path in (
        "apps/99",
        "clusters/no",
        "keywords/one?word=no",
        "apps?order=best",
        "keywords?state=x",
    ):
        assert operator.get(f"/scout/{path}").status_code in {400, 404, 422}, path


def test_programs_do_the_same(world: World, program: Browser) -> None:
    found(world.app, world.h.now)
    assert program.get("/v1/apps?q=timer+3").json()["apps"][0]["track_id"] == 3
    assert program.get("/v1/apps/3").json()["clusters"][0]["id"] == "c1"
    made = program.post("/v1/keywords", json={"keywords": ["Rota"], "track": True})
    assert (made.status_code, made.json()["keywords"]) == (202, ["rota"])
    assert [each["keyword"] for each in program.get("/v1/tracked").json()] == ["rota"]
    assert program.delete("/v1/tracked/rota").status_code == 204
    assert program.delete("/v1/tracked/rota").status_code == 404
    assert len(program.get("/v1/keywords?q=ro").json()["keywords"]) == 1
    assert program.get("/v1/clusters").json()["clusters"][0]["id"] == "c1"
    assert program.get("/v1/clusters/c1").json()["inputs"]["leaders"] == [3, 2, 1]
    assert program.put("/v1/stars/app/3", json={"list": "a"}).json()["name"] == "Sleep timer 3"
    assert len(program.get("/v1/stars").json()) == 1
    assert program.delete("/v1/stars/app/3").status_code == 204
    assert program.put("/v1/stars/planet/3", json={}).status_code == 404
    assert program.get("/v1/changes").json() == []
    for bad in (
        "/v1/apps?after=x",
        "/v1/apps?order=best",
        "/v1/clusters?after=x",
        "/v1/changes?before=-1",
    ):
        assert program.get(bad).status_code in {400, 422}, bad
    assert re.fullmatch(r"[\w.]+", json.dumps(program.get("/v1/keywords").json()["next"]))
