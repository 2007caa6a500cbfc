"""Creating, looking, editing, snoozing, deleting: rows and schedules in one commit."""

from __future__ import annotations

from typing import Any

import pytest

from duework import App, Conflict, NotFound, UsageError
from duework.testing import Harness
from systems.reminders import book, log
from systems.reminders.rules import Change
from systems.reminders.tests.conftest import START, Hook, remind
from systems.twins import Twins

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


@pytest.mark.rows("003-01", "003-34", "003-X1")
def test_a_reminder_shows_when_it_fires_next(h: Harness) -> None:
    made = remind(cron="0 9 * * *", zone="Europe/Oslo", text="in the morning")

    assert made == book.find(made.id) == book.every()[0] == book.coming()[0]
    assert (made.state, made.recurrence_rule) == ("active", "cron 0 9 * * *")
    assert made.next_fire_at == START + DAY
    assert (made.channels, made.error_count, made.last_error) == (["email"], 0, None)
    assert book.preview(made.id, 2) == ["2026-03-03T09:00:00+01:00", "2026-03-04T09:00:00+01:00"]
    [row] = h.app.read(
        "select due from duework_schedule where key = :key", key=f"reminders:{made.id}"
    )
    assert row.due == made.next_fire_at


def test_what_comes_is_listed_soonest_first_in_pages(h: Harness) -> None:
    for minute in (30, 10, 20):
        remind(title=str(minute), at=f"2026-03-02T09:{minute}")

    first = book.coming(limit=2)
    assert first[-1].next_fire_at is not None
    rest = book.coming(after=(first[-1].next_fire_at, first[-1].id))

    assert [each.title for each in [*first, *rest]] == ["10", "20", "30"]
    assert book.coming(until=START + HOUR + 15 * MINUTE) == first[:1]
    assert book.count() == 3


NONSENSE: list[dict[str, Any]] = [
    {"title": "two\nlines"},
    {"title": "   "},
    {"email": "nobody"},
    {"channels": ()},
    {"endpoint": "ep_none"},
    {"cron": "61 9 * * *"},
    {"cron": "nonsense"},
    {"rrule": "FREQ=SECONDLY"},
    {"every": "1ms"},
    {"cron": "0 9 * * *", "end": "2020-01-01T00:00"},
    {"at": "2026-03-02T09:00", "count": 2},
    {"zone": "Nowhere"},
]


def test_what_cannot_be_meant_changes_nothing(h: Harness) -> None:
    for given in NONSENSE:
        with pytest.raises(UsageError):
            remind(**given)

    assert (book.count(), h.app.schedules("reminders:")) == (0, [])


def test_another_title_and_address_count_from_the_next_fire(h: Harness, t: Twins) -> None:
    made = remind()

    book.edit(made.id, Change(title="Call the bank again", email="bob@demo.example"))
    h.advance("2h")

    [mail] = t.resend.ledger.of("mail")
    assert (mail["to"], mail["subject"]) == ("bob@demo.example", "Call the bank again")


def test_another_time_takes_the_place_of_the_old_one(h: Harness, t: Twins) -> None:
    made = remind()

    edited = book.edit(made.id, Change(cron="0 12 * * *", zone="Asia/Tokyo"))

    assert (edited.recurrence_rule, edited.zone) == ("cron 0 12 * * *", "Asia/Tokyo")
    assert edited.next_fire_at == START + 19 * HOUR
    h.advance("2d")
    assert len(t.resend.ledger.of("mail")) == 2


def test_a_new_time_ends_the_attempts_of_the_old_one(h: Harness, t: Twins) -> None:
    hook = Hook(t)
    hook.answers(503)
    made = remind(endpoint=hook.id)
    h.advance("1h")
    assert book.find(made.id).state == "retrying"

    book.edit(made.id, Change(at="2026-03-03T09:00"))
    h.advance("2h")

    assert len(t.hooks.log.of("hook")) == 1
    assert book.find(made.id).next_fire_at == START + DAY + HOUR
    hook.answers(200)
    h.advance("1d")
    assert len(t.hooks.ledger.of("delivered")) == 1


def test_an_old_fire_that_is_redriven_leaves_the_new_time_alone(h: Harness, t: Twins) -> None:
    hook = Hook(t)
    hook.answers(503, 503, 503, 503, 200)
    made = remind(endpoint=hook.id)
    h.advance("2h")
    [fire] = log.failed()
    book.edit(made.id, Change(at="2026-03-03T09:00"))
    h.drain()

    log.redrive(fire.job)
    h.drain()

    assert book.find(made.id).next_fire_at == START + DAY + HOUR
    h.advance("1d")
    assert len(t.hooks.ledger.of("delivered")) == 2


NO_CHANGES = [
    Change(title="two\nlines"),
    Change(email=None),
    Change(endpoint="ep_none"),
    Change(channels=("fax",)),
    Change(zone="Europe/Oslo"),
    Change(cron="nonsense"),
    Change(count=3),
    Change(at="2020-01-01T00:00"),
]


def test_an_edit_that_cannot_be_meant_changes_nothing(h: Harness) -> None:
    made = remind()

    for change in NO_CHANGES:
        with pytest.raises(UsageError):
            book.edit(made.id, change)

    assert book.find(made.id) == made


@pytest.mark.rows("003-X1")
def test_a_snooze_moves_one_time_and_not_the_series(h: Harness, t: Twins) -> None:
    made = remind(cron="0 9 * * *")

    assert book.snooze(made.id, "10m").next_fire_at == START + HOUR + 10 * MINUTE
    h.advance("2d")

    at = [each["at"] - START for each in t.resend.ledger.of("mail")]
    assert at == [HOUR + 10 * MINUTE, HOUR + DAY]


def test_a_snooze_of_no_sense_is_refused(h: Harness) -> None:
    made = remind()

    for length in ("0s", "31d", "soon", "-1m"):
        with pytest.raises(UsageError):
            book.snooze(made.id, length)

    assert book.find(made.id) == made


def test_what_has_failed_cannot_be_snoozed(h: Harness, t: Twins) -> None:
    hook = Hook(t)
    hook.answers(400)
    made = remind(endpoint=hook.id)
    h.advance("2h")

    with pytest.raises(Conflict, match="nothing to put off"):
        book.snooze(made.id)


@pytest.mark.rows("003-X1")
def test_sending_now_goes_beside_the_plan(h: Harness, t: Twins) -> None:
    made = remind(cron="0 9 * * *")

    book.send_now(made.id)
    h.drain()

    assert [each["at"] for each in t.resend.ledger.of("mail")] == [START]
    assert book.find(made.id).next_fire_at == START + HOUR


@pytest.mark.rows("003-X1")
def test_a_deleted_reminder_sends_nothing_more(h: Harness, t: Twins) -> None:
    hook = Hook(t)
    hook.answers(503)
    waiting, retried = remind(cron="0 9 * * *"), remind(endpoint=hook.id, at="2026-03-02T08:00")
    h.drain()
    assert book.find(retried.id).state == "retrying"

    book.delete(waiting.id)
    book.delete(retried.id)
    h.advance("2d")

    assert (t.resend.ledger.entries, len(t.hooks.log.of("hook"))) == ([], 1)
    assert (book.every(), h.app.schedules("reminders:")) == ([], [])
    assert [each.outcome for each in log.recent()] == ["cancelled"]


def test_what_is_not_there_is_not_found(h: Harness) -> None:
    for verb in (book.find, book.delete, book.snooze, book.send_now, book.preview):
        with pytest.raises(NotFound):
            verb("rem_none")
    with pytest.raises(NotFound):
        book.edit("rem_none", Change(title="x"))
    with pytest.raises(NotFound):
        log.redrive(7)


def test_only_what_has_failed_is_redriven(h: Harness, t: Twins) -> None:
    remind(cron="0 9 * * *")
    h.advance("1h")
    [fire] = log.recent()

    with pytest.raises(Conflict, match="no failed channel"):
        log.redrive(fire.job)


def test_old_history_goes_and_what_failed_stays(h: Harness, t: Twins, app: App) -> None:
    hook = Hook(t)
    hook.answers(400)
    remind()
    remind(endpoint=hook.id)

    h.advance("92d")

    assert [each.outcome for each in log.recent()] == ["failed"]
