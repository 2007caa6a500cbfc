"""Quiet hours, repeats until it is done, and the link that says so."""

from __future__ import annotations

import re
from typing import Any

import pytest

from duework import NotFound, UsageError
from duework.testing import Harness
from systems.reminders import book, log, recipients
from systems.reminders.links import done_link, job_of
from systems.reminders.quiet import audible, quiet_hours, waits_until
from systems.reminders.recipients import Choices
from systems.reminders.rules import Change
from systems.reminders.tests.conftest import START, remind
from systems.reminders.tests.test_web import Web
from systems.twins import Twins

HOUR = 3_600_000


def mails(t: Twins) -> list[dict[str, Any]]:
    return [each.body for each in t.resend.mails.values()]


def test_it_is_said_again_until_it_is_done(h: Harness, t: Twins) -> None:
    made = remind(repeat="15m")

    h.advance("95m")  # 9:00, 9:15, 9:30

    assert len(mails(t)) == 3
    found = book.find(made.id)
    assert (found.state, found.waits_for_done) == ("waiting", True)
    assert book.done(made.id)
    h.advance("2h")
    assert len(mails(t)) == 3
    assert all(each.done_at is not None for each in log.recent())
    with pytest.raises(NotFound):
        book.find(made.id)


def test_a_series_goes_on_after_done_and_its_next_time_ends_the_repeats_of_the_last(
    h: Harness, t: Twins
) -> None:
    made = remind(cron="0 9 * * *", repeat="6h")

    h.advance("26h")  # 9:00, 15:00, 21:00, 3:00, and 9:00 of the next day

    assert len(mails(t)) == 5
    assert book.done(made.id)
    assert not book.done(made.id)
    h.advance("21h")
    assert len(mails(t)) == 5
    h.advance("4h")
    assert len(mails(t)) == 6


def test_repeats_have_an_end(h: Harness, t: Twins) -> None:
    remind(repeat="1m")

    h.advance("3h")

    assert len(mails(t)) == 25  # the first, and 24 repeats


def test_the_link_in_a_mail_says_done_once_it_is_confirmed_and_not_by_looking(
    h: Harness, t: Twins
) -> None:
    made = remind(repeat="15m")
    h.advance("61m")
    path = re.search(r"http://127.0.0.1:8377(/reminders/done/\S+)", mails(t)[0]["text"])
    assert path
    web = Web(h)

    page = web.program.get(path[1])
    assert page.status_code == 200
    assert "Call the bank" in page.text
    assert book.find(made.id).waits_for_done
    key = re.search(r'name="form" value="(\w+)"', page.text)
    data = {"form": key[1] if key else "", "back": path[1]}
    web.program.post(path[1] + "/confirm", data=data, headers={"origin": "http://localhost"})

    h.advance("1h")
    assert len(mails(t)) == 1
    assert "is done" in web.program.get(path[1]).text


def test_a_link_that_we_have_not_signed_is_not_found(h: Harness, t: Twins) -> None:
    remind()
    h.advance("61m")
    link = (done_link(log.recent()[0].job) or "").rpartition("/")[2]

    web = Web(h)
    assert job_of(link) == log.recent()[0].job
    for wrong in ("", "7", "7.", "x.y", link[:-1], "8" + link[1:], f"{2**80}.{'0' * 40}", "é.é"):
        with pytest.raises(NotFound):
            job_of(wrong)
        answer = web.program.get(f"/reminders/done/{wrong or '-'}")
        assert answer.status_code == 404


def test_an_old_link_says_nothing_about_a_later_fire(h: Harness, t: Twins) -> None:
    made = remind(cron="0 9 * * *", repeat="6h")
    h.advance("61m")
    old = log.recent()[0].job
    h.advance("1d")

    book.done_by_link(old)

    assert book.find(made.id).waits_for_done


def test_what_is_due_in_quiet_hours_waits_for_their_end_and_goes_out_once(
    h: Harness, t: Twins
) -> None:
    made = remind(cron="30 * * * *", quiet="22:00-07:30", zone="Europe/Oslo")
    foretold = book.preview(made.id, 20)

    h.advance("1d")

    sent = [each.fired_at for each in reversed(log.recent(limit=100)) if each.sent]
    hours = [round((each - START) / HOUR, 2) for each in sent]
    # 8:00 in UTC is 9:00 there: 9:30 … 21:30, then 7:30, and 8:30 again.
    assert hours == [0.5 + each for each in range(13)] + [22.5, 23.5]
    assert [each.partition("+")[0] for each in foretold[:15]] == [
        *[f"2026-03-02T{hour:02}:30:00" for hour in range(9, 22)],
        "2026-03-03T07:30:00",
        "2026-03-03T08:30:00",
    ]


def test_a_one_shot_in_quiet_hours_shows_when_it_will_be_sent(h: Harness, t: Twins) -> None:
    made = remind(at="2026-03-02T09:00", quiet="08:30-12:00")

    h.advance("2h")

    found = book.find(made.id)
    assert (found.state, found.next_fire_at) == ("active", START + 4 * HOUR)
    h.advance("3h")
    assert len(mails(t)) == 1


@pytest.mark.parametrize("text", ["22", "22:00", "25:00-7:00", "22:00-22:00", "at night"])
def test_quiet_hours_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        quiet_hours(text)


def test_quiet_hours_may_be_taken_away_and_repeats_given(h: Harness, t: Twins) -> None:
    made = remind(quiet="22:00-07:00")

    changed = book.edit(made.id, Change(quiet=None, repeat="10m"))

    assert (changed.quiet, changed.repeat_ms) == (None, 600_000)
    for wrong in ("1s", "30d", "often"):
        with pytest.raises(UsageError):
            book.edit(made.id, Change(repeat=wrong))


def test_the_end_of_a_night_in_which_clocks_are_turned_is_on_the_wall() -> None:
    # 28 March 2026, 23:00 in London; the night loses an hour.
    late = 1_774_738_800_000

    assert waits_until("22:00-07:00", "Europe/London", late) == late + 7 * HOUR
    assert waits_until("22:00-07:00", "Europe/London", late - 2 * HOUR) is None
    night = [late, late + HOUR, late + 8 * HOUR]
    assert audible(night, lambda at: waits_until("22:00-07:00", "Europe/London", at)) == [
        late + 7 * HOUR,
        late + 8 * HOUR,
    ]


@pytest.mark.rows("003-X2")
def test_what_a_receiver_has_chosen_holds_for_every_reminder_to_them(h: Harness, t: Twins) -> None:
    recipients.choose("Ada@demo.example", Choices(quiet="08:30-10:00", zone="UTC"))
    made = remind(cron="0 * * * *")
    own = remind(title="Loud", cron="0 * * * *", quiet="22:00-23:00")

    assert [each[11:16] for each in book.preview(made.id, 3)] == ["10:00", "11:00", "12:00"]
    h.advance("3h 1m")

    hours = {
        title: sorted(
            (each.fired_at - START) // HOUR for each in log.recent() if each.title == title
        )
        for title in ("Call the bank", "Loud")
    }
    assert hours == {"Call the bank": [2, 3], "Loud": [1, 2, 3]}
    assert own.id


def test_a_receiver_who_is_away_gets_nothing_until_then(h: Harness, t: Twins) -> None:
    web = Web(h)
    answer = web.call("PUT", "/api/reminder-recipients/ada@demo.example", {"mute": "1d"})
    assert answer.json()["muted_until"] == START + 24 * HOUR
    remind()
    h.advance("23h")
    assert mails(t) == []
    h.advance("2h")
    assert len(mails(t)) == 1
    path = "/api/reminder-recipients/ada@demo.example"
    for wrong in ({"mute": "0s"}, {"mute": "200d"}, {"zone": "Mars"}, {"quiet": "x"}):
        assert web.call("PUT", path, wrong).status_code == 400
    assert web.call("GET", path).json()["quiet"] is None
    assert web.call("DELETE", path).status_code == 204
    assert web.call("GET", path).status_code == 404


def test_a_time_is_covered_by_one_that_waited_and_went_out_at_it(h: Harness, t: Twins) -> None:
    made = remind(cron="0 * * * *")
    nine = START + HOUR
    facts = {"id": made.id, "slot": nine - HOUR, "at": nine}
    with h.app.transaction() as tx:
        tx.write(
            "insert into reminders_history (job, reminder, title, key, channels, slot, fired_at,"
            " outcome, sent, failed, unsure, waited)"
            " values (1, :id, 'x', 'k', '[]', :slot, :at, 'success', '[]', '{}', '{}', 1)",
            **facts,
        )

    h.advance("1h 1m")
    assert mails(t) == []
    h.advance("1h")
    assert len(mails(t)) == 1
