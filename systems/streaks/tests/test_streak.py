"""Days, streaks and hours, without a database: what counts, and when."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from systems.streaks.streak import (
    Standing,
    has_come,
    local_day,
    message,
    next_time,
    standing,
    zones,
)

TODAY = date(2026, 3, 4)


def counts(text: str) -> dict[date, int]:
    """Counts of the days up to today, the last one being today; a dot is none."""
    found = [0 if letter == "." else int(letter) for letter in text]
    return {TODAY - timedelta(days=n): count for n, count in enumerate(reversed(found))}


@pytest.mark.rows("000-39")
@pytest.mark.parametrize(
    ("days", "expected"),
    [
        ("", Standing(0, 0, 0)),
        (".", Standing(0, 0, 0)),
        ("5", Standing(5, 1, 1)),
        ("1.", Standing(0, 1, 1)),
        ("123.", Standing(0, 3, 3)),
        ("1234", Standing(4, 4, 4)),
        ("1..", Standing(0, 0, 1)),
        ("111.11", Standing(1, 2, 3)),
        ("111..1", Standing(1, 1, 3)),
        ("11.111.", Standing(0, 3, 3)),
        ("......1", Standing(1, 1, 1)),
    ],
)
def test_a_streak_is_days_in_a_row_and_a_zero_today_does_not_break_it(
    days: str, expected: Standing
) -> None:
    assert standing(counts(days), TODAY) == expected


def test_days_after_today_do_not_count() -> None:
    found = {TODAY: 1, TODAY + timedelta(days=1): 9, TODAY + timedelta(days=2): 9}

    assert standing(found, TODAY) == Standing(1, 1, 1)


def test_a_streak_longer_than_a_year_is_counted_in_full() -> None:
    found = {TODAY - timedelta(days=n): 1 for n in range(1000)}

    assert standing(found, TODAY).streak == 1000


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) * 1000


@pytest.mark.rows("000-X2")
@pytest.mark.parametrize(
    ("now", "zone", "day"),
    [
        # An evening in New York is tomorrow in UTC.
        ("2026-03-05T01:30:00+00:00", "America/New_York", "2026-03-04"),
        # An early morning in India is yesterday in UTC.
        ("2026-03-03T20:00:00+00:00", "Asia/Kolkata", "2026-03-04"),
        ("2026-03-03T18:29:59+00:00", "Asia/Kolkata", "2026-03-03"),
        ("2026-03-03T18:15:00+00:00", "Asia/Kathmandu", "2026-03-04"),
        ("2026-03-03T10:00:00+00:00", "Pacific/Kiritimati", "2026-03-04"),
        ("2026-03-04T09:59:59+00:00", "Pacific/Pago_Pago", "2026-03-03"),
        ("2026-03-04T00:00:00+00:00", "UTC", "2026-03-04"),
    ],
)
def test_the_zone_of_the_person_decides_what_today_is(now: str, zone: str, day: str) -> None:
    assert local_day(at(now), zone).isoformat() == day


@pytest.mark.rows("000-X2")
@pytest.mark.parametrize(
    ("now", "zone", "hour", "expected"),
    [
        ("2026-03-04T19:59:59+00:00", "UTC", 20, "2026-03-04T20:00:00+00:00"),
        ("2026-03-04T20:00:00+00:00", "UTC", 20, "2026-03-05T20:00:00+00:00"),
        ("2026-03-04T10:00:00+00:00", "Asia/Kolkata", 20, "2026-03-04T14:30:00+00:00"),
        ("2026-03-04T10:00:00+00:00", "Asia/Kathmandu", 20, "2026-03-04T14:15:00+00:00"),
        ("2026-03-05T00:30:00+00:00", "America/New_York", 20, "2026-03-05T01:00:00+00:00"),
        # The day before a turn, and the day of it: the hour on the wall stays.
        ("2026-03-28T12:00:00+00:00", "Europe/London", 20, "2026-03-28T20:00:00+00:00"),
        ("2026-03-28T20:00:00+00:00", "Europe/London", 20, "2026-03-29T19:00:00+00:00"),
        ("2026-10-24T19:00:00+00:00", "Europe/London", 20, "2026-10-25T20:00:00+00:00"),
        # An hour that the clock leaps over: when the leap ends.
        ("2026-03-29T00:30:00+00:00", "Europe/Berlin", 2, "2026-03-29T01:00:00+00:00"),
        ("2026-03-29T01:00:00+00:00", "Europe/Berlin", 2, "2026-03-30T00:00:00+00:00"),
        ("2026-03-08T06:00:00+00:00", "America/New_York", 2, "2026-03-08T07:00:00+00:00"),
        # Two hours of a leap, of which it is the second one; and half an hour.
        ("2026-03-29T00:30:00+00:00", "Antarctica/Troll", 2, "2026-03-29T01:00:00+00:00"),
        ("2026-10-03T12:00:00+00:00", "Australia/Lord_Howe", 2, "2026-10-03T15:30:00+00:00"),
        # An hour that comes twice: the first one, and only that.
        ("2026-10-24T22:00:00+00:00", "Europe/Berlin", 2, "2026-10-25T00:00:00+00:00"),
        ("2026-10-25T00:00:00+00:00", "Europe/Berlin", 2, "2026-10-26T01:00:00+00:00"),
    ],
)
def test_the_next_time_is_the_hour_on_the_wall(
    now: str, zone: str, hour: int, expected: str
) -> None:
    assert next_time(at(now), zone, hour) == at(expected)


@pytest.mark.parametrize(
    ("now", "zone", "hour", "expected"),
    [
        ("2026-03-04T19:59:59+00:00", "UTC", 20, False),
        ("2026-03-04T20:00:00+00:00", "UTC", 20, True),
        ("2026-03-04T23:59:59+00:00", "UTC", 20, True),
        ("2026-03-05T00:00:00+00:00", "UTC", 20, False),
        ("2026-03-05T00:00:00+00:00", "UTC", 0, True),
        ("2026-03-29T00:59:59+00:00", "Europe/Berlin", 2, False),
        ("2026-03-29T01:00:00+00:00", "Europe/Berlin", 2, True),
    ],
)
def test_an_hour_has_come_from_its_start_to_the_end_of_its_day(
    now: str, zone: str, hour: int, expected: bool
) -> None:
    assert has_come(at(now), zone, hour) is expected


@pytest.mark.parametrize(
    "zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "UTC"]
)
@pytest.mark.parametrize("hour", [0, 2, 3, 23])
def test_a_year_has_one_time_for_each_day_there(zone: str, hour: int) -> None:
    now, end, seen = at("2026-01-01T00:00:00+00:00") - 1, at("2027-01-01T00:00:00+00:00"), []

    while (now := next_time(now, zone, hour)) < end:
        seen.append(datetime.fromtimestamp(now / 1000, ZoneInfo(zone)).date())

    assert seen == [seen[0] + timedelta(days=n) for n in range(len(seen))]
    assert len(seen) == 365


@pytest.mark.rows("000-40")
@pytest.mark.parametrize(
    ("found", "words"),
    [
        (Standing(1, 1, 1), ["ada", "1 contribution ", "1 day ", "safe"]),
        (Standing(5, 41, 88), ["ada", "5 contributions ", "41 days ", "safe"]),
    ],
)
def test_who_has_contributed_is_praised_with_the_count_and_the_streak(
    found: Standing, words: list[str]
) -> None:
    text = message("ada", TODAY, found)

    assert all(word in text for word in words), text
    assert "Wed 4 Mar" in text


@pytest.mark.rows("000-41")
def test_who_has_not_is_told_what_is_at_risk_and_asked_for_a_commit() -> None:
    text = message("ada", TODAY, Standing(0, 39, 88))

    assert all(word in text for word in ("nothing yet", "39 days", "at risk", "commit")), text
    assert "at risk; one commit starts" in message("ada", TODAY, Standing(0, 0, 3))


def test_zones_are_names_that_people_use() -> None:
    found = zones()

    assert {"UTC", "Europe/London", "America/Argentina/Salta", "Etc/GMT+3"} <= set(found)
    assert not {"posixrules", "localtime", "Factory.tab"} & set(found)
