"""What a reminder does when it is due, judged by what the receivers got."""

from __future__ import annotations

import json
from typing import Any

import pytest

from duework import App, NotFound
from duework.testing import Harness
from systems.reminders import book, log
from systems.reminders.part import part
from systems.reminders.tests.conftest import START, Hook, remind, use
from systems.twins import Twins
from tests.support.processes import until

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


def mails(t: Twins) -> list[tuple[str, int]]:
    return [(each["to"], each["at"] - START) for each in t.resend.ledger.of("mail")]


@pytest.mark.rows("003-02", "003-25", "003-T3")
def test_a_one_shot_is_mailed_once_and_then_gone_but_its_history_stays(
    h: Harness, t: Twins
) -> None:
    made = remind(title="Call the bank", text="before ten")

    h.advance("1d")

    assert mails(t) == [("ada@demo.example", HOUR)]
    assert t.resend.ledger.entries[0]["subject"] == "Call the bank"
    assert set(t.resend.ledger.counts("key").values()) == {1}
    with pytest.raises(NotFound):
        book.find(made.id)
    [fire] = log.recent()
    assert (fire.title, fire.outcome, fire.sent) == ("Call the bank", "success", ["email"])
    assert h.app.schedules("reminders:") == []


@pytest.mark.rows("003-26", "003-28", "003-T10")
def test_a_recurring_reminder_goes_on_from_its_planned_times(h: Harness, t: Twins) -> None:
    made = remind(cron="0 9 * * MON-FRI")

    h.advance("7d")

    assert [at for _, at in mails(t)] == [HOUR + n * DAY for n in range(5)]
    found = book.find(made.id)
    assert (found.error_count, found.last_error) == (0, None)
    assert found.last_fired_at == START + HOUR + 4 * DAY
    assert found.next_fire_at == START + HOUR + 7 * DAY


@pytest.mark.rows("003-T10", "003-T11")
@pytest.mark.parametrize(("missed", "late"), [("once", 1), ("skip", 0), ("all", 3)])
def test_what_fell_due_while_nobody_worked_is_said_as_was_chosen_and_times_stay_as_planned(
    h: Harness, t: Twins, missed: Any, late: int
) -> None:
    remind(every="40m", start="2026-03-02T08:20", missed=missed)
    h.advance("21m")

    # Those of 60, 100 and 140 minutes come to nobody.
    h.clock.move_to(START + 156 * MINUTE)
    h.advance("1m")
    said = [at // MINUTE for _, at in mails(t)]
    assert (said[0], len(said), set(said[1:]) <= {156, 157}) == (20, 1 + late, True)

    h.advance("70m")
    assert [at // MINUTE for _, at in mails(t)][1 + late :] == [180, 220]


@pytest.mark.rows("003-T13")
def test_a_reminder_keeps_its_hour_where_its_people_are_when_clocks_are_turned(
    h: Harness, t: Twins
) -> None:
    remind(cron="0 9 28-30 3 *", zone="Europe/Oslo")

    h.advance("30d")

    # Oslo is an hour ahead of UTC on the 28th, and two from the 29th on.
    assert [at % DAY for _, at in mails(t)] == [0, DAY - HOUR, DAY - HOUR]


def test_rules_end_after_a_count_or_at_a_time(h: Harness, t: Twins) -> None:
    remind(title="thrice", rrule="FREQ=DAILY", start="2026-03-02T09:00", count=3)
    remind(title="until", cron="0 9 * * *", end="2026-03-03T09:00")

    h.advance("14d")

    subjects = [each["subject"] for each in t.resend.ledger.of("mail")]
    assert (subjects.count("thrice"), subjects.count("until")) == (3, 2)
    assert {each.title: each.state for each in book.every()} == {
        "thrice": "ended",
        "until": "ended",
    }


@pytest.mark.rows("003-03", "003-20", "003-31", "003-32", "003-X4")
def test_both_channels_get_it_and_the_webhook_is_signed_in_two_ways(h: Harness, t: Twins) -> None:
    standard, notify = Hook(t, "ada"), Hook(t, "bob", scheme="notify")
    remind(email="ada@demo.example", endpoint=standard.id)
    remind(endpoint=notify.id)

    h.advance("2h")

    assert len(mails(t)) == 1
    delivered = t.hooks.ledger.of("delivered")
    assert {each["endpoint"] for each in delivered} == {"ada", "bob"}
    assert t.hooks.ledger.of("forged") == []
    body = json.loads(next(each for each in delivered if each["endpoint"] == "ada")["body"])
    assert body["channels"] == ["email", "webhook"]
    assert body["firedAt"] == "2026-03-02T09:00:00.000+00:00"
    assert {each.outcome for each in log.recent()} == {"success"}


@pytest.mark.rows("003-21", "003-22", "003-23", "003-24", "003-T15")
def test_a_partial_success_goes_on_and_the_failed_channel_waits_for_its_next_turn(
    h: Harness, t: Twins
) -> None:
    hook = Hook(t)
    hook.answers(503, 200)
    made = remind(email="ada@demo.example", endpoint=hook.id, cron="0 9 * * *")

    h.advance("2h")

    found = book.find(made.id)
    assert (found.last_error, found.error_count) == ("partial: webhook", 0)
    assert found.next_fire_at == START + HOUR + DAY
    assert (len(mails(t)), len(t.hooks.log.of("hook"))) == (1, 1)
    [fire] = log.partial()
    assert fire.failed == {"webhook": "503 from 127.0.0.1"}

    h.advance("1d")

    assert book.find(made.id).last_error is None
    assert (len(mails(t)), len(t.hooks.ledger.of("delivered"))) == (2, 1)


@pytest.mark.rows("003-T3")
def test_the_failed_channel_of_a_one_shot_can_be_sent_again_alone(h: Harness, t: Twins) -> None:
    hook = Hook(t)
    hook.answers(503, 200)
    remind(email="ada@demo.example", endpoint=hook.id)
    h.advance("2h")
    [fire] = log.partial()

    log.redrive(fire.job)
    h.drain()

    assert (len(mails(t)), len(t.hooks.ledger.of("delivered"))) == (1, 1)
    assert [each.outcome for each in log.recent()] == ["success"]


@pytest.mark.rows("003-14", "003-15", "003-16", "003-17", "003-19", "003-27", "003-36", "003-T1")
def test_a_full_failure_is_tried_after_1_5_and_30_minutes_and_then_listed(
    h: Harness, t: Twins
) -> None:
    hook = Hook(t)
    hook.answers(503)
    made = remind(endpoint=hook.id)
    at, due = START + HOUR, []

    h.advance("1h")
    for failures in range(3):
        found = book.find(made.id)
        assert (found.state, found.error_count) == ("retrying", failures + 1)
        assert found.last_error == "webhook: 503 from 127.0.0.1"
        due.append(found.next_fire_at)
        h.advance((found.next_fire_at or 0) / 1000 - h.now / 1000)

    assert [each - at for each in due] == [MINUTE, 6 * MINUTE, 36 * MINUTE]
    found = book.find(made.id)
    assert (found.state, found.next_fire_at) == ("failed", None)
    [fire] = log.failed()
    assert (fire.error, fire.attempts) == ("webhook: 503 from 127.0.0.1", 4)
    ids = [each["id"] for each in t.hooks.ledger.of("refused")]
    assert (len(ids), len(set(ids))) == (4, 1)
    h.advance("7d")
    assert len(t.hooks.log.of("hook")) == 4


def test_what_was_given_up_is_redriven_once_its_receiver_is_back(h: Harness, t: Twins) -> None:
    hook = Hook(t)
    hook.answers(503, 503, 503, 503, 200)
    made = remind(endpoint=hook.id)
    h.advance("2h")
    assert len(log.failed()) == 1

    assert len(log.redrive_all()) == 1
    h.drain()

    assert (log.failed(), len(t.hooks.ledger.of("delivered"))) == ([], 1)
    with pytest.raises(NotFound):
        book.find(made.id)


@pytest.mark.rows("003-18", "003-29", "003-T2", "003-T8", "003-T11")
def test_a_recurring_one_that_was_given_up_goes_on_with_its_next_time(h: Harness, t: Twins) -> None:
    hook = Hook(t)
    hook.answers(500)
    made = remind(endpoint=hook.id, cron="0,10,50 9,10 * * *")

    h.advance("1h 40m")

    # 09:00 was tried until 09:36, and 09:10 was passed meanwhile.
    assert [(each.slot - START) // MINUTE for each in log.failed()] == [60]
    found = book.find(made.id)
    assert (found.state, found.error_count) == ("active", 0)
    assert found.next_fire_at == START + 110 * MINUTE
    hook.answers(200)
    h.advance("20m")
    assert [(each.slot - START) // MINUTE for each in log.recent()] == [120, 110, 60]
    assert len(t.hooks.ledger.of("delivered")) == 2
    assert len(log.failed()) == 1


@pytest.mark.rows("003-T7", "003-T9")
def test_a_lost_reply_is_asked_for_again_with_the_same_key(h: Harness, t: Twins) -> None:
    t.resend.faults.set([{"route": "emails.send", "calls": "1..2", "do": "drop_after"}])
    remind()

    h.advance("2h")

    assert len(t.resend.log.of("emails.send")) == 3
    assert list(t.resend.ledger.counts("key").values()) == [1]
    assert [each.outcome for each in log.recent()] == ["success"]


@pytest.mark.rows("003-30", "003-T7")
def test_a_mail_that_is_taken_after_we_have_stopped_waiting_is_no_second_one(
    h: Harness, t: Twins, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, timeout_ms=1000)
    slow = {"route": "emails.send", "calls": "1", "do": "delay", "seconds": 1.5}
    t.resend.faults.set([slow])
    remind()

    h.advance("1h 30s")
    [fire] = log.recent()
    assert fire.outcome == "sending"
    until(lambda: mails(t))
    h.advance("1h")

    assert len(t.resend.log.of("emails.send")) == 2
    assert list(t.resend.ledger.counts("key").values()) == [1]
    assert [each.outcome for each in log.recent()] == ["success"]


@pytest.mark.rows("003-30", "003-33", "003-T12")
def test_a_receiver_that_never_answers_is_left_after_the_limit_and_holds_up_nobody(
    h: Harness, t: Twins, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Long enough for the one that answers, on a machine that is busy.
    use(monkeypatch, timeout_ms=1500)
    hook = Hook(t)
    hook.answers(0)
    remind(email="ada@demo.example", endpoint=hook.id)
    remind(title="other", endpoint=Hook(t, "bob").id)

    h.advance("1h")

    assert len(mails(t)) == 1
    assert [each["at"] - START for each in t.hooks.ledger.of("delivered")] == [HOUR]
    assert {each.title: each.outcome for each in log.recent()} == {
        "Call the bank": "sending",
        "other": "success",
    }
    use(monkeypatch, timeout_ms=200)
    h.advance("1h")
    [fire] = log.partial()
    assert "operation timed out after 200ms" in fire.failed["webhook"]
    assert fire.sent == ["email"]
    assert len(t.hooks.ledger.counts("id", "refused")) == 1


@pytest.mark.rows("003-X3")
def test_an_endpoint_that_is_gone_is_switched_off_and_not_called_again(
    h: Harness, t: Twins
) -> None:
    from systems.reminders import endpoints

    hook = Hook(t)
    hook.answers(410)
    remind(email="ada@demo.example", endpoint=hook.id, cron="0 9 * * *")

    h.advance("3d")

    found = endpoints.find(hook.id)
    assert (found.state, found.reason) == ("off", "it answered 410: it is gone")
    assert (len(mails(t)), len(t.hooks.log.of("hook"))) == (3, 1)
    errors = [each.failed["webhook"] for each in log.recent()]
    assert errors[-1] == "410: the endpoint is gone and was switched off"
    assert errors[0].startswith("the endpoint ada is switched off")


@pytest.mark.rows("003-08", "003-12")
def test_a_backlog_drains_oldest_first_and_stays_under_the_providers_limit(
    h: Harness, t: Twins
) -> None:
    for number in range(12):
        remind(title=f"r{number:02}", at=f"2026-03-02T08:{10 + number}")
    with h.app.transaction() as tx:
        assert tx.read("select count(*) as n from reminders_reminder")[0].n == 12

    h.clock.move_to(START + 2 * HOUR)
    h.advance("1m")

    assert [each["subject"] for each in t.resend.ledger.entries] == [
        f"r{number:02}" for number in range(12)
    ]
    assert t.resend.log.over_limit() == []


@pytest.mark.rows("003-11", "003-T14")
def test_a_row_that_cannot_be_read_fails_alone_with_backoff_and_is_listed(
    h: Harness, t: Twins, app: App
) -> None:
    broken = remind(title="broken")
    remind(title="sound")
    with app.transaction() as tx:
        tx.write("update reminders_reminder set channels = 'x' where id = :id", id=broken.id)

    h.advance("2h")

    assert [each["subject"] for each in t.resend.ledger.entries] == ["sound"]
    [fire] = log.failed()
    assert (fire.title, fire.outcome, fire.attempts) == ("broken", "failed", 4)
    assert [each.state for each in book.every()] == ["failed"]


@pytest.mark.rows("003-T5")
def test_an_error_without_words_is_still_a_failure(
    h: Harness, t: Twins, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silent(to: str, subject: str, text: str, key: str) -> None:
        raise RuntimeError("")

    monkeypatch.setattr("systems.reminders.channels.email", silent)
    remind()

    h.advance("1h")

    assert len(log.retrying()) == 1


@pytest.mark.rows("003-04", "003-09")
def test_a_day_without_reminders_makes_no_job_but_the_one_that_tidies(h: Harness, t: Twins) -> None:
    h.advance("1d")

    assert {each.key for each in h.app.schedules()} == {"reminders.prune"}
    assert (h.app.jobs(queue="reminders"), t.resend.log.calls) == ([], 0)


@pytest.mark.rows("003-07", "003-10", "003-13", "003-T12")
def test_no_more_than_the_limit_are_sent_at_once_and_a_limit_of_one_is_one_after_the_other(
    h: Harness, t: Twins
) -> None:
    assert h.app.wiring.registry.queue_limits["reminders"] == part.settings.limit == 100
    hook = Hook(t)
    t.hooks.faults.set([{"route": "hook", "calls": "1..", "do": "delay", "seconds": 0.2}])
    for limit in (1, 3):
        h.app.queue("reminders", concurrency=limit)
        t.hooks.log.clear()
        for _ in range(8):
            remind(endpoint=hook.id)

        h.advance("1h")
        h.clock.move_to(START)

        assert (t.hooks.log.calls, t.hooks.log.peak) == (8, limit)
