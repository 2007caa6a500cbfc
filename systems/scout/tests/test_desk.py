"""What people look at: apps, keywords, clusters, complaints, changes; and what they follow and star."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from duework import NotFound, UsageError
from systems.scout import reading
from systems.scout.client import Found
from systems.scout.crawl import gaps, search
from systems.scout.desk import apps, changes, figures, groups, pains, stars, words
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
    quiet(world)
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


# --- keywords


def quiet(world: World) -> None:
    """Nothing is asked of Apple by itself."""
    world.h.drain()
    world.app.get_schedule("scout.crawl").pause()


def searched(world: World, word: str, ids: list[int], at: int) -> None:
    """As if Apple had answered a search."""
    found = [Found(track_id=id_, track_name=f"App {id_}") for id_ in ids]
    with world.app.transaction() as tx:
        search.searched(tx, word, found, at)
        tx.publish("rankings-updated", {"keywords": [word, "nobody follows this"]})
    world.h.drain()


def due(world: World, at: int) -> list[str]:
    """What a cycle would search for."""
    return gaps.keywords(world.app.read, at, 10)


@pytest.mark.rows("001-X2")
def test_a_followed_keyword_is_searched_for_each_day_and_who_is_found_is_kept(
    world: World,
) -> None:
    quiet(world)
    word, start = "sleep timer", world.h.now
    with world.app.transaction() as tx:
        assert words.follow(tx, " Sleep  Timer", start) == word
    assert due(world, start) == [word]
    searched(world, word, [7, 8, 9], start)
    assert word not in due(world, start + DAY // 2), "once a day is enough"
    later = start + DAY
    assert word in due(world, later)
    searched(world, word, [8, 7, 9], later)
    places = {8: [(start, 2), (later, 1)], 7: [(start, 1), (later, 2)], 9: [(start, 3), (later, 3)]}
    assert words.history(word, later) == places
    assert apps.rank_history(8, later) == {f"“{word}”": [(start, 2), (later, 1)]}
    # A search that changes nothing is no event: the hourly look keeps it, once.
    with world.app.transaction() as tx:
        tx.write("update scout_ranking set crawled_at = :at", at=later + 5)
        tx.write("update scout_tracked set next_at = :now", now=world.h.now)
    world.h.advance("61m")
    assert len(words.history(word, later)[9]) == 3
    assert words.followed()[0].next_at > world.h.now
    with world.app.transaction() as tx:
        words.unfollow(tx, word)
    searched(world, word, [9], later + 10)
    assert word not in due(world, later + 2 * DAY)
    assert len(words.history(word, later)[9]) == 3
    with world.app.transaction() as tx:
        words.again(tx, later + 91 * DAY)
    assert world.count("scout_rank_history") == 0


@pytest.mark.rows("001-X2")
def test_keywords_by_hand_are_searched_before_others(world: World) -> None:
    others = [
        {"keyword": f"w{n}", "status": "pending", "source": "x", "created_at": 0} for n in range(9)
    ]
    with world.app.transaction() as tx:
        insert(tx, "scout_keyword", others)
        planted = words.plant(tx, "  Night   SHIFT\n\nrota diary\nrota diary", world.h.now)
    assert planted == ["night shift", "rota diary"]
    assert gaps.keywords(world.app.read, world.h.now, 2) == planted
    world.h.advance("6m")
    done, _ = words.listed(state="searched")
    assert set(planted) <= {row.keyword for row in done}


def test_keywords_that_are_none_are_refused_and_nothing_is_stored(world: World) -> None:
    many = "\n".join(f"w{n}" for n in range(201))
    for text in ("", "  \n ", "x" * 81, "tab\x07", many, "good\n" + "x" * 81):
        with pytest.raises(UsageError), world.app.transaction() as tx:
            words.plant(tx, text, world.h.now)
    assert world.count("scout_keyword") == 0


def test_a_keyword_that_was_given_up_is_tried_again_when_somebody_asks(world: World) -> None:
    row = {"keyword": "sleep", "status": "failed", "source": "x", "created_at": 0, "failures": 3}
    with world.app.transaction() as tx:
        insert(
            tx,
            "scout_keyword",
            [
                {**row, "retry_at": 2**60},
                {**row, "keyword": "b", "status": "searching", "retry_at": 0},
            ],
        )
        words.plant(tx, "sleep\nb", world.h.now)
    states = {row.keyword: (row.status, row.failures) for row in words.listed()[0]}
    assert states == {"sleep": ("pending", 0), "b": ("searching", 3)}


def test_keywords_are_listed_by_letters_and_by_state_page_by_page(world: World) -> None:
    rows = [
        {
            "keyword": f"w{n:03}",
            "status": "pending",
            "source": "x",
            "created_at": n % 3,
            "priority": n % 5,
        }
        for n in range(230)
    ]
    with world.app.transaction() as tx:
        insert(tx, "scout_keyword", rows)
    seen, after = [], ""
    while True:
        page, more = words.listed(state="pending", after=after)
        seen += [row.keyword for row in page]
        if more is None:
            break
        after = more
    rows.sort(key=lambda row: (-row["priority"], row["created_at"], row["keyword"]))
    assert seen == [row["keyword"] for row in rows]
    found, more = words.listed("W01")
    assert [row.keyword for row in found] == [f"w{n:03}" for n in range(10, 20)]
    assert words.listed("w229")[0][0].keyword == "w229"
    assert words.listed("zzz") == ([], None)
    with pytest.raises(UsageError):
        words.listed(state="eaten")
    with pytest.raises(NotFound):
        words.one("zzz")


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
    quiet(world)
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


# --- stars


def test_stars_are_kept_in_lists_and_lead_to_what_they_are_about(world: World) -> None:
    found(world.app, world.h.now)
    with world.app.transaction() as tx:
        assert stars.star(tx, "app", "3", world.h.now, " rivals ") == "Sleep timer 3"
        assert stars.star(tx, "opportunity", "c1", world.h.now) == "sleep timer"
        stars.star(tx, "app", "3", world.h.now, "others")
    assert [(each["list"], each["name"]) for each in stars.listed()] == [
        ("", "sleep timer"),
        ("others", "Sleep timer 3"),
    ]
    assert [each["cluster"] for each in reading.opportunities(starred=True)] == ["c1"]
    with world.app.transaction() as tx:
        for kind, ref in (("app", "99"), ("app", "x"), ("opportunity", "no"), ("developer", "5")):
            with pytest.raises(NotFound):
                stars.star(tx, kind, ref, 0)  # type: ignore[arg-type]
        with pytest.raises(UsageError):
            stars.star(tx, "app", "3", 0, "x" * 61)
        stars.unstar(tx, "app", "3")
        with pytest.raises(NotFound):
            stars.unstar(tx, "app", "3")
    assert stars.starred("app") == set()


def test_an_app_that_somebody_names_is_looked_up_before_all_others(world: World) -> None:
    with world.app.transaction() as tx:
        stars.add_app(tx, 42, world.h.now)
        stars.add_app(tx, 42, world.h.now)
        with pytest.raises(UsageError):
            stars.add_app(tx, -1, world.h.now)
    [row] = world.app.read("select enrich_priority, track_name from scout_app where track_id = 42")
    assert (row.enrich_priority, row.track_name) == (100, "Unknown")
    world.h.advance("6m")
    [row] = world.app.read("select enriched_at from scout_app where track_id = 42")
    assert row.enriched_at is not None


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


@pytest.mark.rows("001-X2")
def test_a_person_puts_in_keywords_follows_stars_and_takes_it_back(
    world: World, operator: Browser
) -> None:
    found(world.app, world.h.now)

    def act(what: str, **data: Any) -> None:
        answer = operator.submit(f"/scout/{what}", back="/scout/", **data)
        assert answer.status_code == 303, answer.text

    act("seed", keywords="rota diary\r\nnight shift", track="true")
    assert world.count("scout_tracked") == 2
    act("untrack", word="rota diary")
    act("track", word="Sleep Timer")
    assert [row.keyword for row in words.followed()] == ["night shift", "sleep timer"]
    act("star", kind="app", ref="3", list="rivals")
    act("star", kind="opportunity", ref="c1")
    assert world.count("scout_star") == 2
    assert "rivals" in operator.get("/scout/saved").text
    act("unstar", kind="app", ref="3")
    act("add-app", track_id="77")
    assert {each["ref"] for each in stars.listed()} == {"c1", "77"}
    operator.submit("/scout/star", back="/scout/", kind="app", ref="3' or 1=1")
    assert world.count("scout_star") == 2


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
