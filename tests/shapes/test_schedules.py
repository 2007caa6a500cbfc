"""Schedules: fired once per slot, moved by operators, declared by code, on both databases."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest

from duework import App, Conflict, Fail, InvalidArguments, NotFound, Part, Run, Snooze, UsageError
from duework.shapes.schedules import calendar
from duework.shapes.schedules.handle import Declared
from duework.shapes.schedules.verbs import ScheduleVerbs
from duework.testing import Harness, doomed
from tests.support.checks import is_sound
from tests.support.harness import HarnessOn

# A database that will not take one schedule's job.
REFUSING: dict[str, list[str]] = {
    "sqlite": [
        """create trigger refuse before insert on duework_job
           when new.key like 'schedule:t3@%' begin select raise(abort, 'refused'); end"""
    ],
    "postgres": [
        """create function refuse() returns trigger language plpgsql as
           $$ begin raise exception 'refused'; end $$""",
        """create trigger refuse before insert on duework_job for each row
           when (new.key like 'schedule:t3@%') execute function refuse()""",
    ],
    "gone": ["drop trigger refuse", "drop function refuse cascade"],
}
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


@pytest.fixture
def ran(harness: Harness) -> list[tuple[str, int]]:
    """(schedule, slot) of every job that `tick` ran, and `harness.app.tick` to be scheduled."""
    seen: list[tuple[str, int]] = []

    @harness.app.task
    async def tick(run: Run, name: str = "") -> str:
        seen.append((name, run.slot))
        return run.key

    harness.app.tick = tick  # type: ignore[attr-defined]
    return seen


def put(harness: Harness, key: str = "t", **options: Any) -> Any:
    options.setdefault("args", (key,))
    return harness.app.schedule(harness.app.tick, key=key, **options)  # type: ignore[attr-defined]


def slots(ran: list[tuple[str, int]], start: int) -> list[int]:
    return [slot - start for _, slot in ran]


def fire_jobs(harness: Harness) -> list[Any]:
    return [
        row
        for row in harness.app.read(
            "select id, task, due, owner from duework_job where state = 'open'"
        )
        if row.task.startswith("duework.fire")
    ]


def start_ids_at(harness: Harness, number: int) -> None:
    """Two harnesses on one database would both begin with job 1."""
    harness.app.wiring.engine.ids._last = number  # type: ignore[attr-defined]  # noqa: SLF001


# --- slots


def test_a_schedule_fires_each_slot_once_at_its_time(harness: Harness, ran: Any) -> None:
    start = harness.now
    put(harness, every="5m")

    harness.advance("1h")

    assert slots(ran, start) == [n * 5 * MINUTE for n in range(1, 13)]
    seen = harness.app.get_schedule("t")
    assert (seen.fires, seen.last_outcome, seen.state) == (12, "fired", "active")
    assert seen.due == start + 65 * MINUTE
    assert len(fire_jobs(harness)) == 1
    is_sound(harness)


def test_the_key_of_a_run_is_its_schedule_and_its_slot(harness: Harness, ran: Any) -> None:
    start = harness.now
    put(harness, "remind:7", every="5m")

    harness.advance("5m")

    job = harness.app.job(harness.app.get_schedule("remind:7").last_job)
    slot = start + 5 * MINUTE
    assert job.result == job.key == f"schedule:remind:7@{slot}"
    assert job.at == slot


def test_a_daily_time_follows_the_clock_on_the_wall(harness: Harness, ran: Any) -> None:
    harness.clock.move_to(int(datetime(2026, 3, 27, 12, tzinfo=UTC).timestamp() * 1000))
    put(harness, cron="30 2 * * *", tz="Europe/Berlin")

    harness.advance("4d")

    found = [datetime.fromtimestamp(slot / 1000, UTC).strftime("%d %H:%M") for _, slot in ran]
    assert found == ["28 01:30", "29 01:00", "30 00:30", "31 00:30"]


def test_every_does_not_drift_however_late_it_is_fired(harness: Harness, ran: Any) -> None:
    start = harness.now
    put(harness, every="1m")
    for late in (70, 130, 61, 59, 200):
        harness.clock.move_to(harness.now + late * 1000)
        harness.drain()

    assert ran
    assert all((slot - start) % MINUTE == 0 for _, slot in ran)


def test_a_one_shot_fires_once_and_has_ended(harness: Harness, ran: Any) -> None:
    start = harness.now
    put(harness, at=start + HOUR)

    harness.advance("3d")

    assert slots(ran, start) == [HOUR]
    seen = harness.app.get_schedule("t")
    assert (seen.state, seen.due, seen.job, seen.next(3)) == ("ended", None, None, [])
    assert fire_jobs(harness) == []
    is_sound(harness)


def test_a_one_shot_without_an_offset_is_a_time_on_the_wall(harness: Harness, ran: Any) -> None:
    seen = put(harness, at="2026-07-01T09:00", tz="America/New_York")

    assert seen.due_at == datetime(2026, 7, 1, 13, tzinfo=UTC)


def test_a_one_shot_whose_time_has_passed_fires_at_once(harness: Harness, ran: Any) -> None:
    start = harness.now
    put(harness, "past", at=start - HOUR)
    put(harness, "now", at=start)
    put(harness, "late", at=start - HOUR, missed="skip")
    paused = put(harness, "paused", at=start + HOUR).pause()

    harness.drain()
    assert sorted(ran) == [("now", start), ("past", start - HOUR)]
    harness.advance("2h")
    paused.resume()
    harness.advance("2h")

    assert ran[2:] == [("paused", start + HOUR)]
    assert {each.state for each in harness.app.schedules()} == {"ended"}


def test_a_rule_with_a_count_ends(harness: Harness, ran: Any) -> None:
    start = harness.now
    put(harness, rrule="FREQ=DAILY;COUNT=3", start=start)

    harness.advance("10d")

    assert slots(ran, start) == [0, DAY, 2 * DAY]
    assert harness.app.get_schedule("t").state == "ended"
    is_sound(harness)


@pytest.mark.parametrize("start", [None, 0, 700, MINUTE])
def test_a_rule_that_comes_once_is_fired_once(
    harness: Harness, ran: Any, start: int | None
) -> None:
    began = harness.now
    put(
        harness,
        rrule="FREQ=DAILY;COUNT=1",
        **({} if start is None else {"start": began + start}),
    )

    harness.advance("3d")

    # Its times are whole seconds, and none is before its start.
    assert slots(ran, began) == [{700: 1000}.get(start or 0, start or 0)]
    seen = harness.app.get_schedule("t")
    assert (seen.state, seen.fires) == ("ended", 1)


def test_an_edited_rule_begins_with_its_start_too(harness: Harness, ran: Any) -> None:
    start = harness.now
    seen = put(harness, every="2h")
    harness.advance("1h")

    seen.edit(rrule="FREQ=DAILY;COUNT=2")
    harness.advance("3d")

    assert slots(ran, start) == [HOUR, HOUR + DAY]


def test_a_rule_without_a_slot_is_refused_before_any_transaction(
    harness: Harness, ran: Any
) -> None:
    seen = put(harness, "there", every="1h")
    never: list[dict[str, Any]] = [
        {"rrule": "FREQ=HOURLY;BYMONTH=2;BYMONTHDAY=30"},
        {"rrule": "FREQ=YEARLY;BYMONTHDAY=29"},
        {"rrule": "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30;UNTIL=20200101T000000Z"},
        {"cron": "0 0 30 2 *"},
        {"every": "2920000d"},
        {"at": "9999-12-31T23:59:59", "tz": "America/New_York"},
        {"every": "1h", "start": "0001-01-01T00:00:00", "tz": "Asia/Tokyo"},
    ]

    with doomed(harness.app.wiring.engine, 10**9) as fuse:
        for options in never:
            with pytest.raises(UsageError):
                put(harness, "new", **options)
            with pytest.raises(UsageError):
                seen.edit(**options)
        asked = fuse.count
    for options in never:
        with pytest.raises(UsageError), harness.app.transaction() as tx:
            tx.schedule(harness.app.tick, key="new", **options)  # type: ignore[attr-defined]

    assert asked == 0
    assert harness.app.schedules() == [seen.refresh()] == [seen]


def test_what_has_ended_is_refused_when_it_is_new_and_left_alone_when_it_is_not(
    harness: Harness, ran: Any
) -> None:
    rule = {"rrule": "FREQ=DAILY;UNTIL=20260103T000000Z", "start": "2026-01-01T00:00:00"}
    put(harness, **rule)
    harness.advance("5d")
    ended = harness.app.get_schedule("t")

    assert put(harness, **rule) == ended
    assert (ended.state, ended.fires) == ("ended", 3)
    for options in (rule, {"every": "1h", "end": "2026-01-02T00:00:00"}):
        with pytest.raises(UsageError, match="no slot to come"):
            put(harness, "new", **options)
    with pytest.raises(UsageError, match="no slot to come"):
        put(harness, **rule, why="another reason")
    assert harness.app.schedules() == [ended]


def test_a_run_that_schedules_what_has_ended_fails(harness: Harness, ran: Any) -> None:
    tick: Any = harness.app.tick  # type: ignore[attr-defined]

    @harness.app.task(retries=0)
    async def plan(run: Run) -> None:
        run.schedule(tick, every="1h", end="2020-01-01T00:00:00", key="x")

    job = plan.enqueue()
    harness.drain()

    assert job.refresh().state == "failed"
    assert harness.app.schedules() == []


# --- schedules that end


@pytest.mark.parametrize(
    "options",
    [{"cron": "0 * * * *"}, {"every": "1h"}, {"rrule": "FREQ=HOURLY", "start": "2026-01-01T01:00"}],
    ids=["cron", "every", "rrule"],
)
def test_a_schedule_ends_at_its_time_or_after_its_count(
    harness: Harness, ran: Any, options: dict[str, Any]
) -> None:
    start = harness.now
    put(harness, "time", **options, end="2026-01-01T03:00", tz="UTC")
    put(harness, "moment", **options, end=start + 3 * HOUR - 1)
    put(harness, "count", **options, count=2)
    both = put(harness, "both", **options, count=5, end="2026-01-01T12:00+09:00")

    assert len(both.next(10)) == 3
    harness.advance("1d")

    fired = {key: [slot for name, slot in ran if name == key] for key, _ in ran}
    hours = [start + n * HOUR for n in range(1, 4)]
    assert fired == {"time": hours, "moment": hours[:2], "count": hours[:2], "both": hours}
    assert {each.state for each in harness.app.schedules()} == {"ended"}
    assert fire_jobs(harness) == []
    is_sound(harness)


def test_only_what_was_fired_by_the_plan_counts(harness: Harness, ran: Any) -> None:
    start = harness.now
    seen = put(harness, every="1h", count=3, missed="skip")
    seen.fire_now()
    harness.advance("1h")
    seen.pause()
    harness.advance("2h 30m")
    # Two slots passed by; another one is missed.
    seen.resume()
    harness.clock.move_to(harness.now + HOUR)
    harness.drain()
    missed = seen.refresh()
    harness.advance("1d")

    assert (missed.counted, missed.last_outcome) == (1, "missed")
    assert slots(ran, start)[1:] == [HOUR, 5 * HOUR, 6 * HOUR]
    assert (seen.refresh().state, seen.refresh().counted, seen.refresh().fires) == ("ended", 3, 4)


def test_of_missed_slots_no_more_are_made_up_for_than_are_left(harness: Harness, ran: Any) -> None:
    start = harness.now
    put(harness, every="1h", count=3, missed="all")
    put(harness, "end", every="1h", end=start + 2 * HOUR, missed="all")

    harness.clock.move_to(start + 10 * HOUR)
    harness.drain()
    harness.advance("1d")

    assert [slot - start for name, slot in ran if name == "t"] == [HOUR, 2 * HOUR, 3 * HOUR]
    assert [slot - start for name, slot in ran if name == "end"] == [HOUR, 2 * HOUR]
    is_sound(harness)


def test_an_end_is_edited_and_taken_away(harness: Harness, ran: Any) -> None:
    start = harness.now
    seen = put(harness, every="1h", count=1)
    harness.advance("1h")
    assert (seen.refresh().state, fire_jobs(harness)) == ("ended", [])
    harness.advance("2h")

    again = seen.edit(count=2)
    assert (again.state, again.counted) == ("active", 0)
    harness.advance("3h")
    assert slots(ran, start) == [HOUR, 4 * HOUR, 5 * HOUR]

    free = seen.edit(count=None, end=harness.now + 2 * HOUR)
    assert (len(free.next(9)), free.count) == (2, None)
    longer = seen.edit(cron="0 * * * *", why="the end stays")
    assert len(longer.next(9)) == 2
    assert len(seen.edit(end=None).next(9)) == 9
    once = seen.edit(count=7).edit(at=harness.now + HOUR)
    assert (once.count, once.ends, once.kind) == (None, None, "at")
    with pytest.raises(UsageError):
        seen.edit(count=0)


def test_another_plan_counts_anew_and_other_words_do_not(harness: Harness, ran: Any) -> None:
    put(harness, every="1h", count=2)
    harness.advance("1h")

    assert put(harness, every="1h", count=2, why="words").counted == 1
    harness.advance("5h")
    assert put(harness, every="1h", count=2, why="more words").state == "ended"
    assert put(harness, every="2h", count=2).counted == 0
    harness.advance("1d")
    assert len(ran) == 4


@pytest.mark.parametrize(
    "options",
    [
        {"at": "2027-01-01T00:00", "end": "2028-01-01T00:00"},
        {"at": "2027-01-01T00:00", "count": 1},
        {"every": "1h", "count": 0},
        {"every": "1h", "count": True},
        {"every": "1h", "count": 10**10},
        {"every": "1h", "end": "never"},
        {"every": "1h", "end": "2025-12-31T00:00"},
        {"every": "1h", "end": "2027-01-01T00:00", "start": "2028-01-01T00:00"},
    ],
)
def test_an_end_that_cannot_be_meant_is_refused(
    harness: Harness, ran: Any, options: dict[str, Any]
) -> None:
    with pytest.raises(UsageError):
        put(harness, **options)

    assert harness.app.schedules() == []


def test_a_cron_expression_begins_at_its_start(harness: Harness, ran: Any) -> None:
    seen = put(harness, cron="0 * * * *", start="2026-01-03T09:30")

    assert seen.due_at == datetime(2026, 1, 3, 10, tzinfo=UTC)
    assert seen.edit(start="2026-01-04T09:00").due_at == datetime(2026, 1, 4, 9, tzinfo=UTC)


def test_the_next_times_are_told_in_its_zone(harness: Harness, ran: Any) -> None:
    seen = put(harness, cron="0 9 * * MON", tz="Europe/London")

    found = [each.isoformat() for each in seen.next(2)]
    assert found == ["2026-01-05T09:00:00+00:00", "2026-01-12T09:00:00+00:00"]
    assert seen.next() == seen.next(1)
    assert seen.next(0) == []


def test_a_clock_that_is_set_back_fires_nothing_twice(harness: Harness, ran: Any) -> None:
    start = harness.now
    put(harness, every="1h")
    harness.advance("3h")

    harness.clock._now -= 2 * HOUR  # noqa: SLF001 - as no clock should
    harness.advance("4h")

    assert slots(ran, start) == [HOUR, 2 * HOUR, 3 * HOUR, 4 * HOUR, 5 * HOUR]


def test_two_apps_fire_a_slot_once(harness: Harness, ran: Any, emptied: str) -> None:
    start = harness.now
    for n in range(20):
        put(harness, f"t{n}", every="1m")
    with HarnessOn(App("sqlite:///never-opened.db"), emptied) as other:
        # It knows nothing of the task, but fires schedules like everybody.
        start_ids_at(other, 1_000_000)
        other.drain()
        for turn in range(1, 6):
            for each in (harness, other):
                each.clock.move_to(start + turn * MINUTE)
            other.drain()
            harness.drain()

    assert len(ran) == len(set(ran)) == 100
    is_sound(harness)


def test_two_processes_that_fire_at_once_fire_a_slot_once(
    harness: Harness, ran: Any, emptied: str
) -> None:
    app, tick = harness.app, harness.app.tick  # type: ignore[attr-defined]
    count, turns = 600, 2
    with app.transaction() as tx:
        for n in range(count):
            overlap = "queue" if n % 200 == 0 else "skip"
            tx.schedule(tick, every="1m", args=(str(n),), key=f"t{n}", overlap=overlap)
    start = harness.now
    with HarnessOn(App("sqlite:///never-opened.db"), emptied) as other:
        start_ids_at(other, 1_000_000)
        for turn in range(1, turns + 1):
            for each in (harness, other):
                each.clock.move_to(start + turn * MINUTE)
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(lambda each: each.drain(), (harness, other)))
            harness.drain()

    assert len(ran) == len(set(ran)) == count * turns
    assert {slot - start for _, slot in ran} == {MINUTE, 2 * MINUTE}
    is_sound(harness)


def test_a_fire_that_the_database_refuses_holds_up_no_other(
    harness: Harness, ran: Any, kind: str
) -> None:
    for n in range(6):
        put(harness, f"t{n}", every="1h")
    with harness.app.transaction() as tx:
        for statement in REFUSING[kind]:
            tx.write(statement)

    harness.advance("1h 10s")

    assert sorted(name for name, _ in ran) == ["t0", "t1", "t2", "t4", "t5"]
    with harness.app.transaction() as tx:
        tx.write(REFUSING["gone"][kind == "postgres"])
    harness.advance("2m")
    assert sorted(name for name, _ in ran)[3] == "t3"
    is_sound(harness)


def test_attempts_go_with_the_job_that_fires(harness: Harness, ran: Any, kind: str) -> None:
    for n in range(4):
        put(harness, f"t{n}", at=harness.now + HOUR)
    put(harness, "late", every="1h")
    with harness.app.transaction() as tx:
        for statement in REFUSING[kind]:
            tx.write(statement)
    # The job of t3 fails and is tried again; the others are fired one by one.
    harness.advance("1h 2m")
    failed = harness.app.read("select job from duework_attempt")
    with harness.app.transaction() as tx:
        tx.write(REFUSING["gone"][kind == "postgres"])

    # Whoever fires the next takes it along, and it has ended.
    engine, late = harness.app.wiring.engine, harness.app.get_schedule("late")
    harness.clock.move_to(harness.now + HOUR)

    def verb(tx: Any, items: list[None]) -> list[None]:
        for _ in items:
            ScheduleVerbs(engine).fire(tx, "late", late.job or 0, group=True)
        return items

    engine.writer.call(verb, [None])

    assert failed
    assert harness.app.get_schedule("t3").state == "ended"
    assert [
        each for each in harness.app.admin.verify() if "attempt" in each.name and each.violations
    ] == []


def test_attempts_go_with_a_job_that_fires_for_another_task(
    harness: Harness, ran: Any, kind: str
) -> None:
    seen = put(harness, "t3", every="1h")
    with harness.app.transaction() as tx:
        for statement in REFUSING[kind]:
            tx.write(statement)
    harness.advance("1h 10s")
    assert harness.app.read("select job from duework_attempt")

    # With a check it is fired by a task of its own.
    def verb(tx: Any, items: list[None]) -> list[None]:
        for _ in items:
            ScheduleVerbs(harness.app.wiring.engine).edit(
                tx, seen.key, lambda row: setattr(row, "idle", 1)
            )
        return items

    harness.app.wiring.engine.writer.call(verb, [None])

    is_sound(harness)


def test_two_that_fire_at_the_same_moment_share_the_work(harness: Harness, ran: Any) -> None:
    for n in range(30):
        put(harness, f"t{n}", every="1m")
    engine = harness.app.wiring.engine
    harness.clock.move_to(harness.now + MINUTE)
    jobs = {row.owner.removeprefix("schedule:"): row.id for row in fire_jobs(harness)}

    def verb(tx: Any, items: list[None]) -> list[None]:
        for _ in items:
            ScheduleVerbs(engine).fire(tx, "t3", jobs["t3"], group=True)
        return items

    engine.writer.call(verb, [None])
    armed = harness.app.get_schedule("t3")
    # The same job once more, as by a worker that was given it twice.
    engine.writer.call(verb, [None])

    found = harness.app.read(
        "select key, count(*) as n from duework_job where task = 'tick' group by key"
    )
    assert len(found) == 30
    assert {row.n for row in found} == {1}
    assert harness.app.get_schedule("t3") == armed
    assert len(fire_jobs(harness)) == 31


def test_rules_of_a_zone_that_change_move_the_slot(
    harness: Harness, ran: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(harness, cron="0 12 1 7 *", tz="Europe/Paris")
    summer = harness.app.get_schedule("t").due
    assert summer is not None

    real = calendar.zone
    monkeypatch.setattr(calendar, "zone", lambda name: real("Etc/GMT-1"))
    harness.clock.move_to(summer)
    harness.drain()
    assert ran == []
    harness.advance("1h")

    assert [slot for _, slot in ran] == [summer + HOUR]


# --- slots that were missed


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"missed": "once"}, [5]),
        ({"missed": "skip"}, []),
        ({"missed": "all"}, [1, 2, 3, 4, 5]),
        ({"missed": "all", "missed_limit": 2}, [4, 5]),
    ],
)
def test_missed_slots_are_skipped_made_up_for_once_or_all(
    harness: Harness, ran: Any, options: dict[str, Any], expected: list[int]
) -> None:
    start = harness.now
    put(harness, every="1h", **options)
    harness.clock.move_to(start + 5 * HOUR + 10 * MINUTE)

    harness.drain()

    assert slots(ran, start) == [n * HOUR for n in expected]
    seen = harness.app.get_schedule("t")
    assert seen.due == start + 6 * HOUR
    assert seen.last_outcome == ("fired" if expected else "missed")
    assert seen.fires == len(expected)


def test_a_slot_that_is_a_moment_late_was_not_missed(harness: Harness, ran: Any) -> None:
    start = harness.now
    put(harness, every="1h", missed="skip")
    harness.clock.move_to(start + HOUR + 59_000)

    harness.drain()

    assert slots(ran, start) == [HOUR]


def test_years_of_missed_seconds_cost_nothing(harness: Harness, ran: Any) -> None:
    start = harness.now
    put(harness, every="1s", missed="all", missed_limit=3)
    harness.clock.move_to(start + 1000 * DAY)

    harness.drain()

    assert slots(ran, start) == [1000 * DAY - 2000, 1000 * DAY - 1000, 1000 * DAY]


# --- runs that are still under way


def slow_task(harness: Harness, **options: Any) -> tuple[Any, list[int]]:
    """A task whose first attempts are put off, so that its job is open when the next slot comes."""
    seen: list[int] = []

    @harness.app.task(**options)
    async def slow(run: Run) -> Snooze | None:
        if run.now < run.slot + 90 * MINUTE:
            return Snooze("30m")
        seen.append(run.slot)
        return None

    return slow, seen


@pytest.mark.parametrize(
    ("overlap", "expected"),
    [
        # The run of slot 1 ends at 2:30, so the one of slot 2 is skipped and 3 starts.
        ("skip", [1, 3]),
        ("queue", [1, 2, 3, 4]),
        ("replace", []),
    ],
)
def test_a_run_that_meets_the_next_slot(
    harness: Harness, overlap: str, expected: list[int]
) -> None:
    start = harness.now
    slow, seen = slow_task(harness)
    harness.app.schedule(slow, every="1h", overlap=overlap)

    harness.advance("5h 50m")

    found = [(slot - start) // HOUR for slot in seen]
    assert found == expected
    is_sound(harness)


def test_a_replaced_run_is_cancelled_and_says_so(harness: Harness) -> None:
    slow, _ = slow_task(harness)
    harness.app.schedule(slow, every="1h", overlap="replace")

    harness.advance("2h")

    first, second = sorted(harness.app.jobs(task="slow"), key=lambda job: job.at)
    assert first.state == "cancelled"
    assert "replaced by the slot" in str(first.error)
    assert second.state == "open"


def test_a_late_retry_meets_the_next_slot(harness: Harness) -> None:
    tried: list[int] = []

    @harness.app.task(retries=3, backoff=("40m",))
    async def flaky(run: Run) -> None:
        tried.append(run.slot)
        raise ValueError("not today")

    start = harness.now
    harness.app.schedule(flaky, every="1h", overlap="skip")

    harness.advance("2h 30m")

    # Tries at 1:00, 1:40 and 2:20; the slot of 2:00 found it under way.
    assert [slot - start for slot in tried] == [HOUR] * 3
    seen = harness.app.get_schedule("flaky")
    assert (seen.fires, seen.skips, seen.last_outcome) == (1, 1, "overlap")


def test_a_fire_that_failed_does_not_stop_the_next(harness: Harness) -> None:
    tried: list[int] = []

    @harness.app.task
    async def doomed(run: Run) -> None:
        tried.append(run.slot)
        raise Fail("never")

    harness.app.schedule(doomed, every="1h")
    harness.advance("3h")

    assert len(tried) == 3


# --- idle


@pytest.mark.parametrize("kind_of_check", ["async", "plain", "with run"])
def test_an_idle_check_ends_a_tick_before_a_job_is_made(
    harness: Harness, kind_of_check: str
) -> None:
    ran: list[int] = []
    work = {"there": False}

    async def nobody_due() -> bool:
        return not work["there"]

    def nobody_here() -> bool:
        return not work["there"]

    async def nobody_read(run: Run) -> bool:
        return not run.read("select 1 as one where :there = 1", there=int(work["there"]))

    check = {"async": nobody_due, "plain": nobody_here, "with run": nobody_read}[kind_of_check]

    @harness.app.task(cron="*/5 * * * *", idle=check, owner="ops", why="crawl what is new")
    async def crawl(run: Run) -> None:
        ran.append(run.slot)

    harness.advance("11m")
    assert ran == []
    harness.refute_enqueued(crawl)
    seen = harness.app.get_schedule("crawl")
    assert (seen.idles, seen.fires, seen.last_outcome) == (2, 0, "idle")

    work["there"] = True
    harness.advance("5m")
    assert len(ran) == 1
    seen = harness.app.get_schedule("crawl")
    assert (seen.idles, seen.fires, seen.last_outcome) == (2, 1, "fired")
    is_sound(harness)


def test_a_check_that_fails_lets_the_tick_run_and_is_shown(harness: Harness) -> None:
    ran: list[int] = []

    def broken() -> bool:
        raise ValueError("no such table")

    @harness.app.task(every="5m", idle=broken)
    async def crawl(run: Run) -> None:
        ran.append(run.slot)

    harness.drain()
    harness.advance("5m")

    assert len(ran) == 1
    assert "no such table" in str(harness.app.get_schedule("crawl").error)


def test_a_schedule_with_a_check_waits_for_a_process_that_knows_it(
    harness: Harness, emptied: str
) -> None:
    @harness.app.task(every="5m", idle=lambda: False)
    async def crawl() -> None: ...

    harness.drain()
    with HarnessOn(App("sqlite:///never-opened.db"), emptied) as other:
        start_ids_at(other, 1_000_000)
        other.advance("20m")

    assert harness.app.get_schedule("crawl").fires == 0
    harness.advance("20m")
    assert harness.app.get_schedule("crawl").fires > 0


# --- operators


def test_a_paused_schedule_fires_nothing_and_makes_up_for_nothing(
    harness: Harness, ran: Any
) -> None:
    start = harness.now
    seen = put(harness, every="1h", missed="all")
    harness.advance("1h")

    assert seen.pause().paused
    assert fire_jobs(harness) == []
    harness.advance("3h 30m")
    resumed = seen.resume()
    harness.advance("30m")

    assert (resumed.state, resumed.due) == ("active", start + 5 * HOUR)
    assert slots(ran, start) == [HOUR, 5 * HOUR]
    assert seen.pause().pause().resume().resume().state == "active"
    is_sound(harness)


def test_an_edit_changes_the_plan_from_now_on(harness: Harness, ran: Any) -> None:
    start = harness.now
    seen = put(harness, every="1h")
    harness.advance("1h 30m")

    changed = seen.edit(every="10m", args=("b",), why="sooner", missed="skip")
    harness.advance("20m")

    assert ran == [("t", start + HOUR), ("b", start + 100 * MINUTE), ("b", start + 110 * MINUTE)]
    assert (changed.edited, changed.why, changed.missed) == (True, "sooner", "skip")
    zoned = seen.edit(cron="0 9 * * *").edit(tz="Asia/Tokyo")
    assert zoned.due_at == datetime(2026, 1, 2, tzinfo=UTC)
    is_sound(harness)


def test_an_edit_that_is_mistaken_changes_nothing(harness: Harness, ran: Any) -> None:
    seen = put(harness, every="1h")
    before = seen.refresh()
    mistakes: list[dict[str, Any]] = [
        {},
        {"cron": "nonsense"},
        {"cron": "0 9 * * *", "every": "1h"},
        {"tz": "Mars/Olympus"},
        {"missed": "all"},
        {"missed": "sometimes"},
        {"overlap": "often"},
        {"colour": "blue"},
        {"priority": 11},
        {"owner": None},
    ]
    for mistake in mistakes:
        with pytest.raises(UsageError):
            seen.edit(**mistake)
    with pytest.raises(InvalidArguments):
        seen.edit(args=(7,))

    assert seen.refresh() == before


def test_a_postponed_fire_is_still_the_planned_slot(harness: Harness, ran: Any) -> None:
    start = harness.now
    seen = put(harness, every="1h", missed="skip")

    assert seen.postpone("10m").due == start + 70 * MINUTE
    harness.advance("69m")
    assert ran == []
    harness.advance("1m")

    assert slots(ran, start) == [HOUR]
    assert seen.refresh().due == start + 2 * HOUR
    seen.pause()
    with pytest.raises(Conflict):
        seen.postpone("10m")


def test_firing_now_is_beside_the_plan(harness: Harness, ran: Any) -> None:
    start = harness.now
    seen = put(harness, every="1h")
    harness.advance("30m")

    job = seen.fire_now()
    harness.drain()

    assert job.refresh().result == f"schedule:t@{start + 30 * MINUTE}"
    assert slots(ran, start) == [30 * MINUTE]
    assert seen.refresh().due == start + HOUR
    seen.pause()
    assert seen.fire_now().state == "open"


def test_a_deleted_schedule_is_gone(harness: Harness, ran: Any) -> None:
    seen = put(harness, every="1h")

    seen.delete()
    harness.advance("3h")

    assert ran == []
    assert harness.app.schedules() == []
    assert fire_jobs(harness) == []
    for verb in (seen.refresh, seen.pause, seen.resume, seen.delete, seen.fire_now):
        with pytest.raises(NotFound):
            verb()


def test_cancelling_the_job_that_fires_pauses_the_schedule(harness: Harness, ran: Any) -> None:
    seen = put(harness, every="1h")

    harness.app.cancel(seen.job, "enough")

    paused = seen.refresh()
    assert (paused.state, paused.job) == ("paused", None)
    assert "enough" in str(paused.error)
    is_sound(harness)
    seen.resume()
    harness.advance("1h")
    assert len(ran) == 1


def test_schedules_are_listed_by_the_prefix_of_their_keys(harness: Harness, ran: Any) -> None:
    for key in ("a", "remind:1", "remind:2", "remind:é", "remind", "reminder", "z", "Remind:0"):
        put(harness, key, every="1h")

    def keys(**options: Any) -> list[str]:
        return [each.key for each in harness.app.schedules(**options)]

    assert keys(prefix="remind:") == ["remind:1", "remind:2", "remind:é"]
    assert keys(prefix="remind:", limit=2) == ["remind:1", "remind:2"]
    assert keys(prefix="remind:", after="remind:2") == ["remind:é"]
    assert len(keys()) == 8
    assert keys(prefix="none") == []


@pytest.mark.parametrize("verb", ["pause", "edit", "delete", "postpone", "again"])
def test_what_an_operator_does_while_it_is_fired_is_kept(
    harness: Harness, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Between the claim and the settle: the job that fires is held.
    start = harness.now
    done: list[str] = []
    ran: list[tuple[int, int]] = []

    def check() -> bool:
        if not done:
            done.append(verb)
            seen = harness.app.get_schedule("held")
            action: Callable[[], Any] = {
                "pause": seen.pause,
                "edit": lambda: seen.edit(every="7m"),
                "delete": seen.delete,
                "postpone": lambda: seen.postpone("3m"),
                "again": lambda: (seen.pause(), seen.resume()),
            }[verb]
            action()
        return False

    @harness.app.task(every="5m", idle=check)
    async def held(run: Run) -> None:
        ran.append(((run.slot - start) // MINUTE, (run.now - start) // MINUTE))

    harness.drain()
    harness.advance("15m")

    # Slots, and when they were run.
    expected = {
        "pause": [],
        "delete": [],
        "edit": [(12, 12)],
        "postpone": [(5, 8), (10, 10), (15, 15)],
        "again": [(10, 10), (15, 15)],
    }
    assert done == [verb]
    assert ran == expected[verb]
    is_sound(harness)


# --- declared by code


def declare(harness: Harness, **options: Any) -> Any:
    """The same program started anew, with these options in its decorator."""

    class Restarted(HarnessOn):
        def _temporary_url(self) -> str:
            return harness.app.wiring.bound.url

    app = App("sqlite:///never-opened.db")

    @app.task(**options)
    async def nightly() -> None: ...

    started = Restarted(app, "")
    started.clock.move_to(harness.now)
    started.__enter__()
    start_ids_at(started, 1_000_000 * (len(_started) + 1))
    _started.append(started)
    started.drain()
    return started


_started: list[Any] = []


@pytest.fixture(autouse=True)
def stopped() -> Any:
    yield
    while _started:
        _started.pop().__exit__(None, None, None)


def test_declaring_on_every_node_makes_one_schedule(harness: Harness) -> None:
    for _ in range(3):
        node = declare(harness, cron="0 20 * * *", tz="Europe/London", owner="ops", why="report")

    (seen,) = node.app.schedules()
    assert (seen.key, seen.task, seen.decorated, seen.edited) == ("nightly", "nightly", True, False)
    assert (seen.owner, seen.why, seen.overlap, seen.missed) == ("ops", "report", "skip", "once")
    assert len(fire_jobs(harness)) == 1


def test_a_new_release_changes_what_nobody_edited(harness: Harness) -> None:
    declare(harness, cron="0 20 * * *")
    declare(harness, cron="0 21 * * *")
    node = declare(harness, cron="0 21 * * *", queue="reports", priority=3)

    (seen,) = node.app.schedules()
    assert (seen.rule, seen.queue, seen.priority) == ("0 21 * * *", "reports", 3)
    assert seen.due_at == datetime(2026, 1, 1, 21, tzinfo=UTC)
    is_sound(harness)


def test_two_releases_that_start_in_turn_do_not_put_off_what_is_due(harness: Harness) -> None:
    start = harness.now
    declare(harness, every="2h", overlap="queue", missed="all")
    for n in range(1, 25):
        # Each starts more often than its schedule is due, and some at the very moment.
        harness.clock.move_to(start + n * 30 * MINUTE)
        declare(harness, every="3h" if n % 2 else "2h", overlap="queue", missed="all")

    keys = harness.app.read("select key from duework_job where task = 'nightly' order by key")
    fired = sorted((int(row.key.partition("@")[2]) - start) // HOUR for row in keys)
    # Those of both at least, and none but those of one of them.
    assert {6, 12} <= set(fired)
    assert set(fired) <= {2, 3, 4, 6, 8, 9, 10, 12}
    assert len(fired) == len(set(fired))
    is_sound(harness)


def test_two_releases_with_recurrence_rules_fire_nothing_by_starting(harness: Harness) -> None:
    start = harness.now
    for n in range(10):
        harness.clock.move_to(start + n * HOUR)
        declare(harness, rrule="FREQ=DAILY" if n % 2 else "FREQ=WEEKLY", overlap="queue")

    assert harness.app.get_schedule("nightly").fires == 1


def test_a_slot_that_is_due_stays_due_when_another_release_has_it_too(harness: Harness) -> None:
    start = harness.now
    put_off = declare(harness, cron="0 */2 * * *")
    harness.clock.move_to(start + 2 * HOUR)
    # Before anybody has fired it.
    rows = [each.row(harness.now) for each in other_release(cron="0 * * * *")]

    def verb(tx: Any, items: list[None]) -> list[None]:
        for _ in items:
            ScheduleVerbs(put_off.app.wiring.engine).put(tx, rows, default=True)
        return items

    put_off.app.wiring.engine.writer.call(verb, [None])

    assert harness.app.get_schedule("nightly").slot == start + 2 * HOUR


def other_release(**options: Any) -> list[Any]:
    app = App("sqlite:///never-opened.db")

    @app.task(**options)
    async def nightly() -> None: ...

    return [each for each in app.wiring.shapes if isinstance(each, Declared)]


def test_an_operators_edit_outlives_every_release(harness: Harness) -> None:
    node = declare(harness, cron="0 20 * * *")
    node.app.get_schedule("nightly").edit(cron="0 4 * * *")
    declare(harness, cron="0 20 * * *")
    node = declare(harness, cron="0 22 * * *")

    assert node.app.get_schedule("nightly").rule == "0 4 * * *"


def test_a_pause_and_a_deletion_outlive_every_release(harness: Harness) -> None:
    declare(harness, cron="0 20 * * *").app.get_schedule("nightly").pause()
    node = declare(harness, cron="0 21 * * *")
    assert node.app.get_schedule("nightly").paused

    node.app.get_schedule("nightly").delete()
    node = declare(harness, cron="0 22 * * *")
    assert node.app.schedules() == []
    with pytest.raises(NotFound):
        node.app.get_schedule("nightly")


def test_a_schedule_that_its_decorator_no_longer_has_is_taken_away(harness: Harness) -> None:
    declare(harness, cron="0 20 * * *")
    node = declare(harness)
    assert node.app.schedules() == []
    assert fire_jobs(harness) == []

    node = declare(harness, cron="0 20 * * *")
    node.app.get_schedule("nightly").edit(why="needed by the auditors")
    node = declare(harness)
    assert [each.key for each in node.app.schedules()] == ["nightly"]


def test_a_schedule_whose_task_is_unknown_has_one_job_that_waits(harness: Harness) -> None:
    declare(harness, every="1h")

    harness.advance("5h")

    assert len(harness.app.jobs(task="nightly")) == 1
    assert harness.app.get_schedule("nightly").last_outcome == "overlap"


def test_the_same_call_again_changes_nothing_and_another_replaces_it(
    harness: Harness, ran: Any
) -> None:
    start = harness.now
    first = put(harness, every="1h")
    harness.advance("30m")
    first.edit(why="by an operator")

    assert put(harness, every="1h").due == start + HOUR
    assert put(harness, every="1h").why == "by an operator"
    changed = put(harness, every="2h")
    assert (changed.edited, changed.why, changed.due) == (False, "", start + 2 * HOUR)
    first.pause()
    assert put(harness, every="3h").paused
    first.delete()
    assert put(harness, every="3h").state == "active"
    is_sound(harness)


def test_parts_declare_schedules_too(harness: Harness) -> None:
    ran: list[int] = []
    part = Part("streaks")

    @part.task(every="1h", idle=lambda: False)
    async def check(run: Run) -> None:
        ran.append(run.slot)

    harness.app.include(part)
    harness.drain()
    harness.advance("2h")

    assert len(ran) == 2
    assert harness.app.get_schedule("streaks.check").task == "streaks.check"


@pytest.mark.parametrize(
    "options",
    [
        {"cron": "61 * * * *"},
        {"cron": "0 9 * * *", "every": "1h"},
        {"tz": "Europe/London"},
        {"missed": "once"},
        {"idle": lambda: True},
        {"cron": "0 9 * * *", "idle": "never"},
        {"cron": "0 9 * * *", "tz": "Nowhere"},
        {"cron": 7},
        {"every": "soon"},
        {"every": "0s"},
        {"at": "tomorrow"},
        {"cron": "0 9 * * *", "missed_limit": 0},
        {"cron": "0 9 * * *", "missed": "all", "overlap": "skip"},
        {"cron": "0 9 * * *", "overlap": "allow"},
        {"cron": "0 9 * * *", "why": "\0"},
    ],
)
def test_a_mistake_in_a_decorator_is_found_where_it_is_made(options: dict[str, Any]) -> None:
    app = App("sqlite:///never-opened.db")

    with pytest.raises(UsageError):

        @app.task(**options)
        async def nightly() -> None: ...


def test_a_scheduled_task_can_be_called_without_arguments() -> None:
    app = App("sqlite:///never-opened.db")

    with pytest.raises(InvalidArguments):

        @app.task(cron="0 9 * * *")
        async def nightly(user: int) -> None: ...


@pytest.mark.parametrize(
    "options",
    [
        {"args": (7,), "key": "t"},
        {"args": ("a",), "key": None},
        {"args": "a", "key": "t"},
        {"key": ""},
        {"key": "x" * 401},
        {"key": "\ud800"},
        {"key": "t", "tier": "high"},
    ],
)
def test_a_mistaken_call_writes_nothing(harness: Harness, ran: Any, options: Any) -> None:
    with pytest.raises(UsageError):
        harness.app.schedule(harness.app.tick, every="1h", **options)  # type: ignore[attr-defined]
    with pytest.raises(UsageError):
        harness.app.schedule(print, every="1h")  # type: ignore[arg-type]

    assert harness.app.schedules() == []


# --- with other work


def test_a_schedule_and_the_callers_rows_are_one_commit(harness: Harness, ran: Any) -> None:
    app, tick = harness.app, harness.app.tick  # type: ignore[attr-defined]
    with contextlib.suppress(RuntimeError), app.transaction() as tx:
        tx.schedule(tick, every="1h", args=("no",), key="no")
        raise RuntimeError("undone")
    with app.transaction() as tx:
        tx.schedule(tick, every="1h", args=("yes",), key="yes")

    assert [each.key for each in app.schedules()] == ["yes"]
    harness.advance("1h")
    assert [name for name, _ in ran] == ["yes"]
    is_sound(harness)


def test_a_run_schedules_with_its_settle_or_not_at_all(harness: Harness, ran: Any) -> None:
    tick = harness.app.tick  # type: ignore[attr-defined]

    @harness.app.task
    async def plan(run: Run, good: bool) -> None:
        run.schedule(tick, at=run.now + HOUR, args=(str(good),), key=f"once:{good}")
        if not good:
            raise ValueError("not this one")

    plan.enqueue(True)
    plan.enqueue(False)
    harness.advance("1h")

    assert [name for name, _ in ran] == ["True"]


def test_everything_paused_fires_nothing(harness: Harness, ran: Any) -> None:
    start = harness.now
    put(harness, every="1h")
    harness.app.pause()
    harness.advance("2h 30m")
    assert ran == []

    harness.app.resume()
    harness.drain()

    assert slots(ran, start) == [2 * HOUR]


def test_async_code_has_the_same_verbs(harness: Harness, ran: Any) -> None:
    async def main() -> None:
        app, tick = harness.app, harness.app.tick  # type: ignore[attr-defined]
        seen = await app.aschedule(tick, every="1h")
        assert (await app.aschedules())[0].key == seen.key == "tick"
        assert (await app.aget_schedule("tick")).due == seen.due
        await seen.apause()
        await seen.aresume()
        await seen.apostpone("1m")
        await seen.aedit(every="2h")
        await seen.afire_now()
        assert (await seen.arefresh()).fires == 1
        await seen.adelete()
        assert await app.aschedules() == []

    asyncio.run(main())


# --- many


def test_many_that_are_due_at_once_are_fired_in_groups(harness: Harness, ran: Any) -> None:
    app, tick = harness.app, harness.app.tick  # type: ignore[attr-defined]
    with app.transaction() as tx:
        for n in range(1200):
            tx.schedule(tick, every="1d", args=(str(n),), key=f"t:{n}")
    harness.clock.move_to(harness.now + DAY)
    made = app.wiring.engine.ids.draw()

    harness.drain()

    assert len({name for name, _ in ran}) == len(ran) == 1200
    # A job for each slot, and a new one for each of the few that carried the others along.
    assert app.wiring.engine.ids.draw() - made < 1200 + 10
    assert {each.fires for each in app.schedules(limit=1000)} == {1}
    is_sound(harness)


def test_slots_that_are_fired_together_start_in_their_order(harness: Harness, ran: Any) -> None:
    for n in range(9):
        put(harness, f"t{8 - n}", at=harness.now + 1000 + n)
    harness.clock.move_to(harness.now + HOUR)

    harness.drain()

    ids = {job.arguments["name"]: job.id for job in harness.app.jobs(task="tick")}
    assert sorted(ids, key=ids.__getitem__) == [f"t{8 - n}" for n in range(9)]


def test_a_damaged_row_does_not_stop_the_others(harness: Harness, ran: Any) -> None:
    for n in range(5):
        put(harness, f"t{n}", cron="0 * * * *")
    with harness.app.transaction() as tx:
        tx.write("update duework_schedule set tz = 'Nowhere' where key = 't2'")

    harness.advance("1h")

    assert sorted(name for name, _ in ran) == ["t0", "t1", "t3", "t4"]
    broken = harness.app.get_schedule("t2")
    assert broken.paused
    assert "Nowhere" in str(broken.error)
    is_sound(harness)


# --- many in one transaction


def test_many_schedules_of_a_transaction_are_a_few_statements(harness: Harness) -> None:
    tick = _ticking(harness)
    statements: list[str] = []
    with harness.app.transaction() as tx:
        plain: Any = tx._tx  # noqa: SLF001 - what it is made of
        plain.note = lambda statement: statements.append(statement.name)
        for number in range(200):
            tx.schedule(tick, every="1h", args=(str(number),), key=f"t:{number:03}")

    assert len(statements) <= 20, statements
    assert [row.key for row in harness.app.schedules(limit=1000)] == [
        f"t:{number:03}" for number in range(200)
    ]
    is_sound(harness)


def test_a_transaction_sees_its_own_schedules_and_the_last_one_of_a_key_counts(
    harness: Harness,
) -> None:
    tick = _ticking(harness)
    with harness.app.transaction() as tx:
        tx.schedule(tick, every="1h", args=("a",), key="a")
        tx.schedule(tick, every="1h", args=("b",), key="b")
        seen = tx.read("select key from duework_schedule order by key")
        tx.schedule(tick, every="2h", args=("a",), key="a")
        tx.schedule(tick, every="3h", args=("a",), key="a")

    assert [row.key for row in seen] == ["a", "b"]
    assert [str(row.when) for row in harness.app.schedules()] == ["every 3h", "every 1h"]
    is_sound(harness)


def test_schedules_of_a_transaction_that_fails_are_not_made(harness: Harness) -> None:
    tick = _ticking(harness)

    def fail() -> None:
        with harness.app.transaction() as tx:
            tx.schedule(tick, every="1h", args=("a",), key="a")
            raise LookupError

    with pytest.raises(LookupError):
        fail()

    assert harness.app.schedules() == []
    assert harness.app.jobs(own=True, task="duework.fire") == []


def test_a_schedule_without_a_slot_to_come_is_refused_where_it_is_asked_for(
    harness: Harness,
) -> None:
    tick = _ticking(harness)

    ended = "FREQ=DAILY;UNTIL=20010101T000000Z"
    with harness.app.transaction() as tx, pytest.raises(UsageError, match="no slot to come"):
        tx.schedule(tick, rrule=ended, start="2000-01-01T00:00:00", args=("a",), key="a")


def _ticking(h: Harness) -> Any:
    @h.app.task
    def tick(name: str) -> None: ...

    return tick
