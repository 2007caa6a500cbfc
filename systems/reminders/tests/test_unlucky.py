"""People change their minds while something waits, and clocks are turned while it does."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from duework import Conflict
from duework.testing import Harness
from systems.reminders import book, endpoints, log, recipients
from systems.reminders.quiet import waits_until
from systems.reminders.recipients import Choices
from systems.reminders.rules import Change
from systems.reminders.tests.conftest import START, Hook, remind
from systems.twins import Twins

ZURICH = ZoneInfo("Europe/Zurich")
MINUTE = 60_000


def wall(day: str, clock: str, fold: int = 0) -> int:
    shown = datetime.fromisoformat(f"{day}T{clock}").replace(tzinfo=ZURICH, fold=fold)
    return round(shown.timestamp() * 1000)


def test_quiet_hours_end_when_the_wall_shows_it_also_in_the_hour_that_comes_twice() -> None:
    for fold in (0, 1):
        now = wall("2026-10-25", "02:10", fold)
        assert waits_until("22:00-02:30", "Europe/Zurich", now) == now + 20 * MINUTE


def test_quiet_hours_whose_end_is_leapt_over_end_with_the_leap() -> None:
    now = wall("2026-03-29", "01:50")

    assert waits_until("22:00-02:30", "Europe/Zurich", now) == wall("2026-03-29", "03:00")


def test_who_takes_back_a_mute_hears_what_waited_and_what_comes(h: Harness, t: Twins) -> None:
    recipients.choose("ada@demo.example", Choices(mute="90d"))
    remind(email="Ada@demo.example")
    remind(cron="0 9 * * *")
    h.advance("2h")
    assert not t.resend.mails

    recipients.forget("ADA@demo.example")
    h.advance("1m")
    assert len(t.resend.mails) == 2

    recipients.choose("ada@demo.example", Choices(mute="60d"))
    h.advance("1d")
    recipients.choose("ada@demo.example", Choices(mute="1h"))
    h.advance("59m")
    assert len(t.resend.mails) == 2
    h.advance("2m")
    assert len(t.resend.mails) == 3


def test_quiet_hours_that_are_taken_back_hold_nothing(h: Harness, t: Twins) -> None:
    made = remind(quiet="08:30-20:00")
    h.advance("2h")

    book.edit(made.id, Change(quiet=None))
    h.advance("1m")

    assert len(t.resend.mails) == 1


def test_a_repeat_that_waited_and_is_done_leaves_no_time_behind(h: Harness, t: Twins) -> None:
    made = remind(cron="0 9 * * *", repeat="30m", quiet="09:15-11:00")
    h.advance("105m")
    assert book.find(made.id).next_fire_at == START + 180 * MINUTE

    book.done(made.id)
    h.advance("3h")

    assert book.find(made.id).next_fire_at == START + 25 * 60 * MINUTE
    assert len(t.resend.mails) == 1


def given_up(t: Twins) -> tuple[book.Reminder, Hook]:
    hook = Hook(t)
    hook.answers(410, 200)
    return remind(endpoint=hook.id, email=None), hook


def test_what_was_given_up_is_not_sent_once_its_reminder_is_deleted(h: Harness, t: Twins) -> None:
    made, hook = given_up(t)
    h.advance("2h")
    endpoints.change(hook.id)
    job = log.failed()[0].job

    book.delete(made.id)
    h.advance("1m")

    assert not log.failed()
    assert not log.redrive_all()
    with pytest.raises(Conflict, match="the reminder was deleted"):
        log.redrive(job)


def test_what_was_given_up_is_not_sent_besides_its_new_time(h: Harness, t: Twins) -> None:
    made, hook = given_up(t)
    h.advance("2h")
    endpoints.change(hook.id)

    book.edit(made.id, Change(at="2026-03-02T12:00"))

    assert not log.redrive_all()
    h.advance("3h")
    assert [each.outcome for each in log.recent()] == ["success", "cancelled"]


def test_what_was_given_up_is_not_sent_again_after_it_was_sent_by_hand(
    h: Harness, t: Twins
) -> None:
    made, hook = given_up(t)
    h.advance("2h")
    endpoints.change(hook.id)

    book.send_now(made.id)
    h.advance("1m")

    assert not log.redrive_all()
    assert [each.outcome for each in log.recent()] == ["success", "cancelled"]


def test_what_is_done_before_it_was_sent_is_tried_no_more(h: Harness, t: Twins) -> None:
    hook = Hook(t)
    hook.answers(500, 500, 200)
    made = remind(repeat="30m", endpoint=hook.id, email=None)
    h.advance("61m")

    assert book.done(made.id)
    h.advance("2h")

    assert [each.outcome for each in log.recent()] == ["cancelled"]


def test_redriving_all_asks_for_each_once_however_fast_it_fails_again(
    h: Harness, t: Twins, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = Hook(t)
    hook.answers(410)
    for minute in range(3):
        remind(endpoint=hook.id, email=None, at=f"2026-03-02T09:0{minute}")
    h.advance("2h")
    once = log.redrive

    def and_it_fails_at_once(job: int) -> str:
        was = once(job)
        h.drain()
        return was

    monkeypatch.setattr(log, "redrive", and_it_fails_at_once)

    assert len(log.redrive_all()) == 3
    assert len(log.failed()) == 3
