"""`duework schedules`."""

from __future__ import annotations

from typing import Any

import pytest

from duework import App, Schedule
from duework.task import Task
from tests.cli.conftest import HOSTILE, Duework


def put(app: App, key: str = "remind:7", **options: Any) -> Schedule:
    task: Task[..., Any, Any] = Task(app.wiring.registry.find("greet"), app)
    options.setdefault("every", "1h")
    return app.schedule(task, args=("ada",), key=key, **options)


def test_schedules_are_listed_by_prefix(shop: App, duework: Duework) -> None:
    for key in ("remind:1", "remind:2", "other"):
        put(shop, key)

    lines = duework("schedules", "list", "--prefix", "remind:", "--json").lines
    table = duework("schedules", "list", "--limit", 2)

    assert [line["key"] for line in lines] == ["remind:1", "remind:2"]
    assert lines[0]["arguments"] == {"name": "ada"}
    assert "every 1h" in table.out
    assert "more: --after remind:1" in table.out
    assert (
        duework("schedules", "list", "--after", "remind:1", "--json").lines[0]["key"] == "remind:2"
    )
    assert duework("schedules", "list", "--prefix", "no").out == "no such schedules\n"


def test_a_schedule_is_shown_with_its_reason(shop: App, duework: Duework) -> None:
    put(shop, cron="0 20 * * *", every=None, tz="Europe/London", owner="ops", why="the report")

    shown = duework("schedules", "show", "remind:7").out

    for word in ("cron 0 20 * * * Europe/London", "ops", "the report", "at run time", "active"):
        assert word in shown
    assert duework("schedules", "show", "remind:7", "--json").document["tz"] == "Europe/London"


def test_the_next_times_are_in_its_zone(shop: App, duework: Duework) -> None:
    put(shop, cron="30 9 * * *", every=None, tz="Asia/Tokyo")

    ran = duework("schedules", "next", "remind:7", "-n", 3)

    assert len(ran.out.splitlines()) == 3
    assert all(line.endswith("09:30:00 JST") for line in ran.out.splitlines())
    assert len(duework("schedules", "next", "remind:7", "--json").document["next"]) == 5


def test_operators_pause_resume_postpone_fire_and_delete(shop: App, duework: Duework) -> None:
    seen = put(shop)

    assert duework("schedules", "pause", "remind:7").out == "remind:7 paused\n"
    assert seen.refresh().paused
    assert duework("schedules", "next", "remind:7").out == "never: it is paused or has ended\n"
    assert "active, next" in duework("schedules", "resume", "remind:7").out
    before = seen.refresh().due
    moved = duework("schedules", "postpone", "remind:7", "10m", "--json").document
    assert moved["due"] == (before or 0) + 600_000
    fired = duework("schedules", "fire", "remind:7", "--json").document
    assert shop.job(int(fired["job"])).task == "greet"
    assert duework("schedules", "delete", "remind:7").code == 78
    assert duework("schedules", "delete", "remind:7", "--yes").out == "remind:7 deleted\n"
    assert shop.schedules() == []


@pytest.mark.parametrize("verb", ["show", "next", "pause", "resume", "fire", "delete"])
def test_a_schedule_that_is_not_there_is_said_so(shop: App, duework: Duework, verb: str) -> None:
    ran = duework("schedules", verb, "nobody", "--json")

    assert ran.code == 1
    assert ran.document["error"]["code"] == "not_found"


def test_hostile_texts_do_not_reach_the_terminal(shop: App, duework: Duework) -> None:
    put(shop, f"k{HOSTILE}", why=HOSTILE)

    for words in (("list",), ("show", f"k{HOSTILE}"), ("pause", f"k{HOSTILE}")):
        ran = duework("schedules", *words)
        assert ran.code == 0
        assert "\x1b" not in ran.out
        assert "\u202e" not in ran.out


def test_a_schedule_is_edited_and_says_when_it_fires_then(shop: App, duework: Duework) -> None:
    from tests.web.conftest import task

    shop.schedule(task(shop, "greet"), args=("ada",), key="k", cron="0 9 * * *")

    ran = duework("schedules", "edit", "k", "--cron", "30 9 * * *", "--tz", "Europe/London")
    owned = duework("schedules", "edit", "k", "--owner", "ada", "--why", "they open then", "--json")
    shown = duework("schedules", "show", "k", "--json").document

    assert (ran.code, owned.document["state"]) == (0, "active")
    assert ran.out.startswith("k active, next ")
    assert (shown["rule"], shown["tz"]) == ("30 9 * * *", "Europe/London")
    assert (shown["owner"], shown["why"], shown["edited"]) == ("ada", "they open then", True)


def test_an_edit_that_says_nothing_or_nonsense_changes_nothing(shop: App, duework: Duework) -> None:
    from tests.web.conftest import task

    made = shop.schedule(task(shop, "greet"), args=("ada",), key="k", cron="0 9 * * *")

    for words in ((), ("--cron", "odd"), ("--tz", "Nowhere"), ("--every", "soon")):
        assert duework("schedules", "edit", "k", *words).code == 78
    assert duework("schedules", "edit", "nobody", "--every", "1h").code == 1
    assert shop.get_schedule("k").when == made.when
