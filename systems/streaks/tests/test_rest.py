"""Days of rest: they break no streak, nobody is told on them, and what was done on them counts."""

from __future__ import annotations

from datetime import date

import pytest

from duework import NotFound
from systems.streaks.people import Refused, come_back
from systems.streaks.rest import rest_of, span, weekdays
from systems.streaks.streak import DAY, standing
from systems.streaks.tests.conftest import Place
from systems.streaks.tests.test_mine import sign_in, submit

# A Wednesday, as in the other tests.
TODAY = date(2026, 3, 4)


def weekend(day: date) -> bool:
    return day.weekday() >= 5


def test_a_streak_goes_on_over_days_of_rest_and_ends_at_others() -> None:
    days = [TODAY - n * DAY for n in range(1, 20) if not weekend(TODAY - n * DAY)]
    counts = dict.fromkeys(days, 1)

    assert standing(counts, TODAY).streak == 2
    assert standing(counts, TODAY, weekend).streak == len(days)
    assert standing(counts, TODAY, weekend).longest == len(days)
    assert standing({**counts, TODAY - 4 * DAY: 3}, TODAY, weekend).streak == len(days) + 1
    del counts[days[4]]
    assert standing(counts, TODAY, weekend).streak == 4


def test_nothing_at_all_is_no_streak_whatever_is_off() -> None:
    assert standing({}, TODAY, lambda day: day.weekday() != 0).streak == 0


def test_weekdays_and_dates_are_read_as_people_write_them() -> None:
    assert weekdays("Sun, sat") == "sat,sun"
    assert weekdays("") == ""
    assert weekdays("mon tue wed thu fri sat sun") is None
    assert weekdays("caturday") is None
    assert span("2026-03-04", "") == ("2026-03-04", "2026-03-04")
    for first, last in (("2026-03-04", "2026-03-03"), ("x", ""), ("2026-03-04", "2027-03-04")):
        assert span(first, last) is None


def test_on_a_day_of_rest_nobody_is_told_and_the_next_day_everybody_is(place: Place) -> None:
    place.person(days_off="wed")
    place.person(away_from="2026-03-01", away_until="2026-03-04")
    for login in ("user-001", "user-002"):
        place.t.github.contribute(login, "2026-03-04", 0)
    place.h.advance("15m")
    assert place.received() == {}
    found = place.app.read("select message from streaks_day")
    assert ["is a day of rest" in row.message for row in found] == [True, True]

    place.jump(24)
    assert set(place.received().values()) == {1}
    assert len(place.received()) == 4


def test_a_streak_of_years_with_weekends_off_is_followed_back_to_its_beginning(
    place: Place,
) -> None:
    place.t.github.add_user("user-001")
    first = TODAY - 500 * DAY
    days = [first + n * DAY for n in range(500)]
    for day in days:
        place.t.github.contribute("user-001", day.isoformat(), 0 if weekend(day) else 2)
    place.person(days_off="sat,sun")
    place.h.advance("15m")

    [stored] = place.app.read("select streak from streaks_day")
    assert stored.streak == sum(1 for day in days if not weekend(day))


def test_a_person_sets_days_off_goes_away_and_comes_back(place: Place) -> None:
    place.person()
    browser = sign_in(place, "user-001")
    given = {"days_off": ["sat", "sun"], "away_from": "2026-03-09", "away_until": "2026-03-13"}
    submit(browser, "settings", **given)

    rest = rest_of(place.app, place.row("user-001"))
    assert rest(date(2026, 3, 7))
    assert rest(date(2026, 3, 13))
    assert not rest(date(2026, 3, 6))
    assert "away 2026-03-09 to 2026-03-13" in browser.get("/streaks/mine").text
    submit(browser, "back", first="2026-03-09")
    submit(browser, "settings")
    assert place.row("user-001").days_off == ""
    assert place.app.read("select * from streaks_away") == []


@pytest.mark.parametrize(
    ("wishes", "field"),
    [
        ({"days_off": "mon tue wed thu fri sat sun"}, "days_off"),
        ({"days_off": "someday"}, "days_off"),
        ({"away_from": "tomorrow"}, "away_from"),
        ({"away_until": "2026-03-04"}, "away_from"),
        ({"away_from": "2026-03-04", "away_until": "2026-03-01"}, "away_from"),
    ],
)
def test_rest_that_makes_no_sense_is_refused_by_field(
    place: Place, wishes: dict[str, str], field: str
) -> None:
    person = place.person()
    with pytest.raises(Refused) as caught:
        place.change(person, **wishes)
    assert caught.value.field == field
    with pytest.raises(NotFound), place.app.transaction() as tx:
        come_back(tx, person.id, "2026-03-04")
    assert place.app.read("select * from streaks_away") == []
