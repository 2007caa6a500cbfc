"""What people follow, put in by hand and star: keywords and apps, by functions and by pages."""

from __future__ import annotations

from typing import Any

import pytest

from duework import NotFound, UsageError
from systems.scout import reading
from systems.scout.client import Found
from systems.scout.crawl import gaps, search
from systems.scout.desk import apps, stars, words
from systems.scout.tests.conftest import World
from systems.scout.tests.found import DAY, found, insert
from systems.scout.tests.test_web import client, operator
from tests.web.conftest import Browser

__all__ = ["client", "operator"]


# --- keywords


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
    world.quiet()
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
