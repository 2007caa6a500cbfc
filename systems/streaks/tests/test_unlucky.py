"""One bad row, one late answer and one odd wish: they touch nobody else, and nothing is told too late."""

from __future__ import annotations

from pathlib import Path

from systems.streaks.channels import notify
from systems.streaks.check import STORE_CALENDAR, STORE_DAY
from systems.streaks.pages import enqueue_test
from systems.streaks.people import Wishes, change
from systems.streaks.rest import span
from systems.streaks.tests.conftest import Place
from systems.streaks.tests.test_cli import duework


def test_a_row_whose_clock_cannot_be_read_holds_up_nobody(place: Place) -> None:
    bad, good = place.person(), place.person()
    with place.app.transaction() as tx:
        tx.write("update streaks_person set zone = 'Mars/Olympus' where id = :id", id=bad.id)

    place.h.advance("15m")

    assert sum(place.received().values()) == 2
    assert {login for login, _ in place.states()} == {good.login}
    assert (place.row(bad.login).active, place.row(bad.login).last_error is None) == (0, False)


def test_dates_at_the_end_of_the_calendar_are_dates() -> None:
    assert span("9999-12-31", "") == ("9999-12-31", "9999-12-31")
    assert span("9999-12-31", "0001-01-01") is None


def test_nothing_is_stored_of_somebody_who_was_deleted_meanwhile(place: Place) -> None:
    day = {"contributions": 1, "streak": 1, "message": "m", "now": 1, "weekly": 0, "at_risk": 0}
    with place.app.transaction() as tx:
        tx.write(STORE_DAY, person="gone", day="2026-03-04", **day)
        tx.write(STORE_CALENDAR, person="gone", first="2026-03-04", counts="[]", longest=1)

    assert not place.app.read("select person from streaks_day")
    assert not place.app.read("select person from streaks_calendar")


def test_another_zone_is_no_way_to_more_tests(place: Place) -> None:
    person = place.person()
    for zone in ("UTC", "Asia/Kathmandu", "Asia/Tokyo"):
        with place.app.transaction() as tx:
            change(tx, person.id, Wishes(zone=zone), now=place.app.now())
        with place.app.transaction() as tx:
            enqueue_test(tx, place.row(person.login))
    place.h.drain()

    assert sum(place.received().values()) == 2


def test_a_message_that_had_to_wait_until_the_day_was_over_is_not_sent(place: Place) -> None:
    person = place.person()
    notify.enqueue(person.id, "2026-03-03", "yesterday's")

    place.h.drain()

    assert not place.received()
    assert set(place.states().values()) == {"failed"}


def test_a_file_that_is_no_text_is_refused(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_bytes(b"login\n\xff\xfe\n")

    found = duework("import", str(file))

    assert (found.exit_code, "no CSV in UTF-8" in found.output) == (1, True), found.output


def test_a_check_by_hand_says_why_there_is_no_answer(place: Place) -> None:
    bare = place.person(token=None)

    found = duework("check", bare.login)

    assert found.exit_code == 1
    assert found.output.startswith("Error: ")
