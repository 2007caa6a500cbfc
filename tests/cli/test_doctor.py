"""`duework doctor`: what somebody should know before leaving it alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from duework import App
from duework.db.urls import database_file
from duework.health import doctor as doctors
from tests.cli.conftest import Duework


def found(app: App, name: str) -> tuple[str, str]:
    """The fitness and the advice of one check."""
    [check] = [each for each in app.admin.doctor() if each.name == name]
    return check.fitness, check.advice


# The server of the tests waits for no disk, and the doctor says so.
SERVER = {"fsync", "full_page_writes"}


def problems(duework: Duework) -> set[str]:
    """What is a problem; the exit code says whether there is one."""
    ran = duework("doctor", "--json")
    found = {each["name"] for each in ran.document["checks"] if each["fitness"] == "problem"}
    assert (ran.code, ran.document["ok"]) == ((1, False) if found else (0, True))
    return found - SERVER


def declare(app: App, **options: Any) -> None:
    """A schedule by a decorator, written as a worker does at its start."""

    @app.task(**options)
    async def sweep() -> None: ...

    app.worker()


def test_a_fresh_database_is_fit_and_the_table_fits(shop: App, duework: Duework) -> None:
    ran = duework("doctor")
    document = duework("doctor", "--json").document

    assert problems(duework) == set()
    assert {"version", "durability", "clock", "clock skew", "retention", "disk", "backups"} <= {
        each["name"] for each in document["checks"]
    } | {"durability"}
    assert max(map(len, ran.out.splitlines())) <= 80
    said = {each["name"]: each["value"] for each in document["checks"]}
    assert re.fullmatch(r"(SQLite|PostgreSQL) \d+\.\d+.*", said["version"])
    assert "shape:" not in said["schema"]
    for name in {"size", "WAL"} & said.keys():
        assert re.fullmatch(r"[\d.]+ (bytes|kB|MB)", said[name])


def test_a_schedule_has_an_owner_and_an_idle_check(shop: App) -> None:
    declare(shop, cron="0 9 * * *")

    assert found(shop, "schedule owners") == ("warning", "sweep: give it `owner=`")
    assert found(shop, "idle checks") == ("warning", "sweep: give it `idle=`")
    assert found(shop, "schedule reasons")[0] == "ok"
    declare(shop, name="later", cron="0 10 * * *")
    assert found(shop, "schedule owners") == ("warning", "later, sweep: give them `owner=`")


def test_the_doctor_counts_tasks_in_words(shop: App, duework: Duework) -> None:
    [without_app] = [
        each["value"]
        for each in duework("doctor", "--json").document["checks"]
        if each["name"] == "retention"
    ]
    [with_it] = [each.value for each in shop.admin.doctor() if each.name == "retention"]

    assert without_app == "no task is known here"
    assert with_it == "3 tasks, which let go of what is done"


@pytest.mark.parametrize(
    "often",
    [
        {"cron": "* * * * *"},
        {"cron": "*/1 * * * *"},
        {"every": "60s"},
        {"every": "5s"},
        {"rrule": "FREQ=MINUTELY"},
    ],
)
def test_what_runs_each_minute_has_a_written_reason(
    shop: App, duework: Duework, often: dict[str, str]
) -> None:
    declare(shop, **often)

    assert found(shop, "schedule reasons")[0] == "problem"
    assert problems(duework) == {"schedule reasons"}
    shop.get_schedule("sweep").edit(why="they push nothing, and people wait")
    assert problems(duework) == set()


@pytest.mark.parametrize(
    "seldom",
    [{"cron": "*/2 * * * *"}, {"every": "61s"}, {"rrule": "FREQ=MINUTELY;INTERVAL=2"}],
)
def test_what_runs_less_often_needs_none(shop: App, seldom: dict[str, str]) -> None:
    declare(shop, **seldom)

    assert found(shop, "schedule reasons")[0] == "ok"


def test_one_with_all_of_it_is_fit(shop: App) -> None:
    declare(shop, cron="* * * * *", owner="ada", why="as fast as they allow", idle=lambda: True)

    for name in ("schedule owners", "schedule reasons", "idle checks"):
        assert found(shop, name) == ("ok", "")


def test_a_paused_schedule_is_left_alone(shop: App) -> None:
    declare(shop, cron="* * * * *")
    shop.get_schedule("sweep").pause()

    assert found(shop, "schedule reasons")[0] == "ok"


def test_tasks_that_keep_everything_are_named(shop: App) -> None:
    @shop.task(keep=None)
    async def hoard() -> None: ...

    fitness, advice = found(shop, "retention")
    assert fitness == "warning"
    assert advice.startswith("hoard: ")


def test_rows_that_should_have_gone_are_noticed(shop: App) -> None:
    with shop.transaction() as tx:
        tx.write(
            "insert into duework_lane (id, queue, task, priority, tier, share, alone, due)"
            " values (77, 'q', 't', 0, '', '', 0, 0)"
        )
        tx.write(
            "insert into duework_job (id, lane, task, state, due, at, payload, checksum, settled)"
            " values (7, 77, 't', 'done', 1, 1, '{}', 0, 1)"
        )

    assert found(shop, "pruning")[0] == "warning"


def test_a_clock_that_was_ahead_is_noticed(shop: App) -> None:
    ahead = shop.wiring.engine.ids.draw() + (3_600_000 << 22)
    with shop.transaction() as tx:
        tx.write(
            "insert into duework_lane (id, queue, task, priority, tier, share, alone, due)"
            " values (77, 'q', 't', 0, '', '', 0, 0)"
        )
        tx.write(
            "insert into duework_job (id, lane, task, due, at, payload, checksum)"
            " values (:id, 77, 't', 1, 1, '{}', 0)",
            id=ahead,
        )

    assert found(shop, "clock skew")[0] == "warning"


def test_a_backup_is_remembered(shop: App, url: str, duework: Duework, tmp_path: Path) -> None:
    if database_file(url) is None:
        assert found(shop, "backups") == ("ok", "")
        return
    assert found(shop, "backups")[0] == "warning"

    assert duework("db", "backup", tmp_path / "copy.db").code == 0
    assert found(shop, "backups") == ("ok", "")
    assert App(f"sqlite:///{tmp_path / 'copy.db'}").admin.pending() == []


def test_an_old_backup_and_a_small_disk_are_told(
    shop: App, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctors, "LITTLE_DISK", 1 << 60)
    if database_file(url) is None:
        assert found(shop, "disk") == ("ok", "")
        return
    doctors.note_backup(shop.wiring.engine.database, shop.now() - 8 * doctors.DAY)

    assert found(shop, "disk")[0] == "warning"
    assert found(shop, "backups")[0] == "warning"
    monkeypatch.setattr(doctors, "NO_DISK", 1 << 60)
    assert found(shop, "disk")[0] == "problem"


def test_strict_takes_warnings_for_failures(shop: App, duework: Duework) -> None:
    declare(shop, cron="0 9 * * *")

    assert problems(duework) == set()
    assert duework("doctor", "--strict").code == 1


def test_a_look_reads_the_same_however_many_schedules_there_are(shop: App) -> None:
    rows = [{"key": f"s{n:05}"} for n in range(1500)]
    with shop.transaction() as tx:
        tx.write(
            "insert into duework_schedule (key, task, queue, priority, payload, kind, rule, start,"
            " tz, missed, missed_limit, overlap, created) values (:key, 't', 'q', 0, '{}', 'cron',"
            " '0 9 * * *', 0, 'UTC', 'once', 1, 'skip', 0)",
            rows=rows,
        )

    fitness, advice = found(shop, "schedule owners")

    assert fitness == "warning"
    assert "and 997 more" in advice
