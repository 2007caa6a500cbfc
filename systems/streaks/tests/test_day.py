"""A day of streaks, from the choice to the messages, against what Discord and Telegram really got."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from systems.streaks import promises
from systems.streaks.channels import notify
from systems.streaks.check import check
from systems.streaks.choose import choose, take_due
from systems.streaks.tests.conftest import Place

DAY = "2026-03-04"


@pytest.mark.rows("000-04", "000-12", "000-15", "000-16", "000-19", "000-22", "000-24", "000-26")
@pytest.mark.rows("000-34", "000-42", "000-43", "000-44", "000-50", "000-X2")
def test_everybody_who_is_due_is_checked_alone_and_told_once_by_each_channel(place: Place) -> None:
    first, second = place.person(), place.person(discord=None)
    place.t.github.contribute("user-001", DAY, 5)
    later = place.person(hour=21)

    place.h.advance("15m")

    assert place.received() == {
        ("discord", first.discord_hook): 1,
        ("telegram", first.telegram_chat): 1,
        ("telegram", second.telegram_chat): 1,
    }
    assert set(place.states().values()) == {"sent"}
    [batch] = place.app.batches()
    assert (batch.total, batch.progress().percent) == (2, 100)
    assert {job.arguments["person"] for job in batch.jobs()} == {first.id, second.id}
    report = batch.then_job()
    assert report is not None
    assert report.result.startswith(f"All 2 users dispatched for batch {batch.id}")
    stored = place.app.read("select * from streaks_day where person = :id", id=first.id)[0]
    [done] = [job.result for job in batch.jobs() if job.arguments["person"] == first.id]
    assert (stored.day, stored.contributions) == (DAY, 5)
    assert done == {
        "username": "user-001",
        "currentStreak": stored.streak,
        "contributionsToday": 5,
        "message": stored.message,
    }
    [told] = [e for e in place.t.discord.ledger.entries if e["hook"] == first.discord_hook]
    assert told["content"] == stored.message

    place.h.advance("1h")

    assert place.received()["discord", later.discord_hook] == 1
    assert len(place.app.batches()) == 2


@pytest.mark.rows("000-20", "000-21")
def test_nobody_is_chosen_who_is_paused_without_a_token_or_not_due(place: Place) -> None:
    paused = place.person()
    place.pause(paused)
    place.person(token=None)

    place.h.advance("1h")

    assert place.app.batches() == []
    assert place.t.github.log.calls == 0
    assert place.app.get_schedule("streaks.choose").last_outcome == "idle"


@pytest.mark.rows("000-47", "000-49", "000-T3")
def test_where_nobody_is_due_what_was_lost_is_taken_over_and_what_is_old_deleted(
    place: Place,
) -> None:
    person = place.person(hour=12)
    old = """insert into streaks_day (person, day, contributions, streak, message, checked)
        values (:id, '2024-01-01', 1, 1, 'old', 0)"""
    with place.app.transaction() as tx:
        tx.write(old, id=person.id)
    place.h.drain()
    check.enqueue(person.id, DAY, place.t.github.url)
    assert place.h.crash_worker(at=8)

    place.h.advance("1m")

    assert [job.state for job in place.checks()] == ["done"]
    assert set(place.received().values()) == {1}
    place.h.advance("8h")
    assert place.app.get_schedule("streaks.choose").fires == 0
    assert [row.day for row in place.app.read("select day from streaks_day")] == [DAY]


@pytest.mark.rows("000-T11")
def test_of_two_who_choose_in_the_same_moment_one_finds_nobody_left(place: Place) -> None:
    for _ in range(3):
        place.person()
    place.app.queue("streaks").pause()
    now = place.h.now + 900_000
    started = threading.Barrier(2)

    def chooses(job: int) -> int:
        started.wait(20)
        with place.app.transaction() as tx:
            return take_due(tx, job, now)

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(chooses, (7, 8))) == [0, 3]
    assert len(place.checks()) == 3


@pytest.mark.rows("000-T11", "000-62")
def test_two_who_choose_at_once_choose_nobody_twice(place: Place) -> None:
    place.person()
    place.app.queue("streaks").pause()
    place.h.clock.move_to(place.h.now + 900_000)

    with place.app.transaction() as tx:
        first = take_due(tx, 7, place.h.now)
    with place.app.transaction() as tx:
        second = take_due(tx, 8, place.h.now)
    choose.enqueue()
    place.h.drain()

    assert (first, second) == (1, 0)
    assert len(place.checks()) == 1


@pytest.mark.rows("000-T4", "000-T11", "000-62")
def test_a_second_check_of_a_day_tells_nothing_again(place: Place) -> None:
    person = place.person()
    place.h.advance("15m")
    before = place.received()

    place.change(person, hour=22)
    place.h.advance("2h")
    # Not even when the first delivery is forgotten, and somebody asks for another one.
    notify.enqueue(person.id, DAY, "again")
    place.h.drain()

    assert len(place.checks(phase="done")) == 2
    assert place.received() == before
    assert place.app.jobs(task="streaks.notify", phase="cancelled")[0].error == "told already"


def test_a_new_day_is_told_again(place: Place) -> None:
    person = place.person(discord=None)

    place.h.advance("15m")
    place.jump(24)

    assert place.received() == {("telegram", person.telegram_chat): 2}
    assert [each.day for each in promises(place.app)] == ["2026-03-04", "2026-03-05"]


@pytest.mark.rows("000-X2")
def test_the_day_is_that_of_the_person(place: Place) -> None:
    # 20:30 UTC is Thursday, 02:00, in India, and Wednesday, noon, in Los Angeles.
    place.person(zone="Asia/Kolkata", hour=2, discord=None)
    place.person(zone="America/Los_Angeles", hour=12, discord=None)
    place.t.github.contribute("user-001", "2026-03-05", 3)
    place.t.github.contribute("user-002", "2026-03-04", 4)

    place.h.advance("1h")

    found = {row.day: row.contributions for row in place.app.read("select * from streaks_day")}
    assert found == {"2026-03-05": 3, "2026-03-04": 4}


def test_whoever_wants_to_hear_of_risks_only_hears_of_nothing_else(place: Place) -> None:
    place.person(only_at_risk=True)
    place.t.github.contribute("user-001", DAY, 2)

    place.h.advance("15m")
    assert place.states() == {}
    place.t.github.contribute("user-001", "2026-03-05", 0)
    place.jump(24)

    assert [each.day for each in promises(place.app)] == ["2026-03-05", "2026-03-05"]


def test_a_token_that_was_revoked_is_recorded_and_not_tried_until_it_is_changed(
    place: Place,
) -> None:
    person = place.person()
    place.t.github.revoke("ghp_user001")

    place.h.advance("15m")
    place.jump(24)

    assert place.t.github.log.calls == 1
    assert "refused the token" in place.row("user-001").problem
    assert "refused the token" in (place.checks()[0].error or "")
    assert place.received() == {}

    place.t.github.add_token("ghp_new", "user-001")
    place.change(person, token="ghp_new")
    place.jump(24)

    assert place.row("user-001").problem is None
    assert place.received()["discord", person.discord_hook] == 1


@pytest.mark.rows("000-35", "000-36")
def test_whoever_is_gone_or_has_no_token_fails_by_name(place: Place) -> None:
    gone, without = place.person(), place.person(token=None)
    place.pause(gone)

    for person in (gone.id, without.id, "nobody"):
        check.enqueue(person, DAY, place.t.github.url)
    place.h.drain()

    assert {job.error for job in place.checks(phase="failed")} == {
        f"User {gone.id} not found or inactive",
        "User user-002 has no GitHub PAT configured",
        "User nobody not found or inactive",
    }


@pytest.mark.rows("000-T7")
def test_what_passes_is_tried_again_after_a_while(place: Place) -> None:
    person = place.person()
    place.t.github.faults.set(
        [{"route": "graphql", "calls": "1..2", "do": "status", "status": 502}]
    )

    place.h.advance("10m")
    assert place.checks()[0].failures == 1
    place.h.advance("10m")

    assert [a.outcome for a in place.checks(phase="done")[0].attempts()] == ["retry", "retry"]
    assert place.received()["telegram", person.telegram_chat] == 1


@pytest.mark.rows("000-T11")
def test_a_check_that_is_still_being_tried_is_not_made_twice(place: Place) -> None:
    person = place.person()
    place.t.github.faults.set([{"route": "graphql", "do": "status", "status": 502}])

    place.h.advance("11m")
    place.change(person, hour=21)
    place.h.clock.move_to(place.h.now + 3_600_000)
    choose.enqueue()
    place.app.queue("streaks").pause()
    place.h.drain()

    assert len(place.checks()) == 1


def test_what_does_not_pass_is_given_up_and_the_next_day_is_a_new_one(place: Place) -> None:
    place.person()
    place.t.github.faults.set([{"route": "graphql", "do": "status", "status": 502}])

    place.h.advance("2h")
    assert [job.failures for job in place.checks(phase="failed")] == [4]
    place.t.github.faults.set([])
    place.jump(24)

    assert [each.day for each in promises(place.app)] == ["2026-03-05"] * 2


def test_a_limit_is_waited_for_without_a_failure(place: Place) -> None:
    place.person()
    place.t.github.spend("user-001", 5000)

    place.h.advance("50m")
    assert [(job.phase, job.failures) for job in place.checks()] == [("waiting", 0)]
    assert place.received() == {}
    place.h.advance("15m")

    assert sum(place.received().values()) == 2
    assert place.t.github.log.over_limit() == []


def test_a_day_that_is_over_is_left_and_the_next_one_is_told_at_its_hour(place: Place) -> None:
    person = place.person(hour=22)
    check.using(at="2026-03-05T00:00:00+00:00").enqueue(person.id, DAY, place.t.github.url)

    place.jump(5)

    assert [job.error for job in place.checks()] == ["2026-03-04 is over in UTC"]
    assert place.received() == {}
    place.jump(21)
    assert {each.day for each in promises(place.app)} == {"2026-03-05"}


@pytest.mark.rows("000-45", "000-T14")
def test_a_channel_that_refuses_for_good_is_on_record_and_the_other_one_is_sent(
    place: Place,
) -> None:
    first, second = place.person(), place.person()
    place.t.discord.delete_hook(first.discord_hook)
    place.t.telegram.set_state(int(second.telegram_chat), "blocked")

    place.h.advance("15m")

    assert place.states() == {
        ("user-001", "discord"): "failed",
        ("user-001", "telegram"): "sent",
        ("user-002", "discord"): "sent",
        ("user-002", "telegram"): "failed",
    }
    assert place.row("user-001").discord_problem == "Discord: Unknown Webhook"
    assert "bot was blocked" in place.row("user-002").telegram_problem
    assert len(place.checks(phase="done")) == 2
    place.jump(24)
    assert len(place.t.discord.log.of("execute")) == 3


@pytest.mark.rows("000-T9")
def test_a_channel_that_fails_is_tried_again_and_only_that(place: Place) -> None:
    person = place.person()
    place.t.telegram.faults.set([{"route": "bot", "calls": "1..2", "do": "status", "status": 500}])

    place.h.advance("10m 30s")
    assert place.states() == {("user-001", "discord"): "sent", ("user-001", "telegram"): "promised"}
    place.h.advance("1h")

    assert place.received() == {
        ("discord", person.discord_hook): 1,
        ("telegram", person.telegram_chat): 1,
    }
    assert set(place.states().values()) == {"sent"}


@pytest.mark.rows("000-T9")
@pytest.mark.parametrize("which", ["discord", "telegram"])
def test_who_says_to_slow_down_is_waited_for(place: Place, which: str) -> None:
    place.person()
    twin: Any = getattr(place.t, which)
    route = {"discord": "execute", "telegram": "bot"}[which]
    headers = {"retry-after": "120"}
    twin.faults.set(
        [{"route": route, "calls": "1", "do": "status", "status": 429, "headers": headers}]
    )

    place.h.advance("11m")
    assert sum(place.received().values()) == 1
    place.h.advance("3m")

    assert set(place.received().values()) == {1}
    assert set(place.states().values()) == {"sent"}
    assert len(twin.log.of(route)) == 2


@pytest.mark.rows("000-T17")
@pytest.mark.parametrize("fault", ["drop_after", "drop_before"])
def test_a_reply_that_is_lost_is_unsure_and_not_sent_again(place: Place, fault: str) -> None:
    place.person()
    place.t.discord.faults.set([{"route": "execute", "calls": "1", "do": fault}])
    place.t.telegram.faults.set([{"route": "bot", "calls": "1", "do": "status", "status": 504}])

    place.h.advance("2h")

    assert set(place.states().values()) == {"unsure"}
    assert len(place.t.discord.log.of("execute")) == 1
    assert len(place.t.telegram.log.of("bot")) == 1
    assert sum(place.received().values()) == (1 if fault == "drop_after" else 0)
    # Somebody looks, and decides.
    [(job, sending), *_] = [e for e in place.app.deliveries.unsure() if e[1].channel == "discord"]
    place.app.deliveries.call_sent(job, sending.channel)
    assert place.states()["user-001", "discord"] == "sent"


@pytest.mark.rows("000-48", "000-49", "000-T13")
def test_what_is_old_is_deleted_once_it_has_an_outcome(place: Place) -> None:
    person = place.person(discord=None)
    place.h.advance("15m")
    with place.app.transaction() as tx:
        tx.write("update streaks_message set day = '2024-01-01', settled = null")
        tx.write("update streaks_day set day = '2024-01-01'")
    place.pause(person)

    place.jump(24)

    assert place.app.read("select * from streaks_day") == []
    assert len(promises(place.app)) == 1
    with place.app.transaction() as tx:
        tx.write("update streaks_message set settled = 1")
    place.jump(24)
    assert promises(place.app) == []


def test_a_person_who_leaves_before_the_message_is_not_told(place: Place) -> None:
    person = place.person()
    notify.using(delay="1m").enqueue(person.id, DAY, "hello")
    with place.app.transaction() as tx:
        tx.write("delete from streaks_person")

    place.h.advance("2m")

    [job] = place.app.jobs(task="streaks.notify")
    assert (job.state, job.error) == ("cancelled", "there is no channel to tell it by")
    assert place.received() == {}
