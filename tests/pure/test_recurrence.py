"""Recurrence rules by the standard: its own examples, readings of it day by day, and what it forbids."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from duework.errors import UsageError
from duework.shapes.schedules.calendar import When, when
from duework.shapes.schedules.recurrence import EPOCH
from duework.shapes.schedules.recurrence_text import parse

NOW = 1_800_000_000_000


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def times(rule: str, start: str, count: int = 5, *, tz: str = "UTC") -> list[str]:
    """The first times of a rule, in UTC."""
    made = when(rrule=rule, start=ms(start), tz=tz)
    return [
        datetime.fromtimestamp(slot / 1000, UTC).strftime("%Y-%m-%d %H:%M")
        for slot in made.upcoming(made.start - 1, count)
    ]


def days(rule: str, start: str, count: int = 5) -> list[str]:
    return [each.removesuffix(" 09:00") for each in times(rule, f"{start}T09:00", count)]


# --- examples


@pytest.mark.parametrize(
    ("rule", "start", "expected"),
    [
        # Of the standard itself.
        (
            "FREQ=DAILY;INTERVAL=10;COUNT=3",
            "1997-09-02",
            ["1997-09-02", "1997-09-12", "1997-09-22"],
        ),
        (
            "FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=MO",
            "1997-08-05",
            ["1997-08-05", "1997-08-10", "1997-08-19", "1997-08-24"],
        ),
        (
            "FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=SU",
            "1997-08-05",
            ["1997-08-05", "1997-08-17", "1997-08-19", "1997-08-31"],
        ),
        (
            "FREQ=MONTHLY;COUNT=3;BYDAY=-2MO",
            "1997-09-22",
            ["1997-09-22", "1997-10-20", "1997-11-17"],
        ),
        ("FREQ=MONTHLY;BYMONTHDAY=-3", "1997-09-28", ["1997-09-28", "1997-10-29", "1997-11-28"]),
        (
            "FREQ=YEARLY;INTERVAL=3;COUNT=4;BYYEARDAY=1,100,200",
            "1997-01-01",
            ["1997-01-01", "1997-04-10", "1997-07-19", "2000-01-01"],
        ),
        ("FREQ=YEARLY;BYDAY=20MO", "1997-05-19", ["1997-05-19", "1998-05-18", "1999-05-17"]),
        (
            "FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO",
            "1997-05-12",
            ["1997-05-12", "1998-05-11", "1999-05-17"],
        ),
        (
            "FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13",
            "1997-09-02",
            ["1998-02-13", "1998-03-13", "1998-11-13"],
        ),
        (
            "FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8",
            "1996-11-05",
            ["1996-11-05", "2000-11-07", "2004-11-02"],
        ),
        (
            "FREQ=MONTHLY;COUNT=3;BYDAY=TU,WE,TH;BYSETPOS=3",
            "1997-09-04",
            ["1997-09-04", "1997-10-07", "1997-11-06"],
        ),
        (
            "FREQ=MONTHLY;BYMONTHDAY=15,30;COUNT=5",
            "2007-01-15",
            ["2007-01-15", "2007-01-30", "2007-02-15", "2007-03-15", "2007-03-30"],
        ),
        # A day that a year does not have is left out, not moved.
        ("FREQ=YEARLY", "2020-02-29", ["2020-02-29", "2024-02-29", "2028-02-29"]),
        (
            "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29",
            "2096-02-29",
            ["2096-02-29", "2104-02-29", "2108-02-29"],
        ),
        # What a rule does not say comes from its start.
        ("FREQ=YEARLY;BYWEEKNO=20", "2026-05-13", ["2026-05-13", "2027-05-19", "2028-05-17"]),
        ("FREQ=YEARLY;BYMONTH=3", "2026-03-31", ["2026-03-31", "2027-03-31"]),
        # Week 53, and the days of week 1 that are in the year before.
        (
            "FREQ=YEARLY;BYWEEKNO=53;BYDAY=FR",
            "2020-01-01",
            ["2021-01-01", "2027-01-01", "2032-12-31"],
        ),
        (
            "FREQ=YEARLY;BYWEEKNO=1;BYDAY=MO",
            "2024-12-30",
            ["2024-12-30", "2025-12-29", "2027-01-04"],
        ),
        (
            "FREQ=YEARLY;BYWEEKNO=-1;BYDAY=SU",
            "2020-06-01",
            ["2021-01-03", "2022-01-02", "2023-01-01", "2023-12-31"],
        ),
        # The whole week counts, not what is left of it on the first day.
        ("FREQ=WEEKLY;BYDAY=MO,WE,FR;BYSETPOS=1", "2026-01-07", ["2026-01-12", "2026-01-19"]),
        ("FREQ=WEEKLY;BYDAY=MO,WE,FR;BYSETPOS=2", "2026-01-07", ["2026-01-07", "2026-01-14"]),
        ("FREQ=WEEKLY;BYDAY=TU,TH,SA;BYSETPOS=-1", "2025-12-30", ["2026-01-03", "2026-01-10"]),
        # The start is one of them, however long the interval.
        ("FREQ=YEARLY;INTERVAL=9999", "2030-05-05", ["2030-05-05"]),
        ("FREQ=DAILY;COUNT=1", "2030-05-05", ["2030-05-05"]),
        ("FREQ=MONTHLY;BYDAY=MO,-1FR", "2026-01-20", ["2026-01-26", "2026-01-30", "2026-02-02"]),
    ],
)
def test_a_rule_means_what_the_standard_says(rule: str, start: str, expected: list[str]) -> None:
    found = days(rule, start, len(expected))
    assert found == expected
    if "COUNT" in rule or "9999" in rule:
        assert days(rule, start, len(expected) + 1) == expected


def test_a_trailing_semicolon_and_small_letters_are_read() -> None:
    assert days("RRULE:freq=daily;count=2;", "2026-01-01") == ["2026-01-01", "2026-01-02"]


def test_dates_are_left_out_and_still_count() -> None:
    rule = (
        "RRULE:FREQ=DAILY;COUNT=5\r\nEXDATE:20260102T090000Z\r\n"
        "EXDATE;TZID=Asia/Tokyo:20260103T1\r\n 80000,20260105T180000\r\n"
    )
    assert days(rule, "2026-01-01") == ["2026-01-01", "2026-01-04"]
    walls = "FREQ=DAILY;COUNT=3\nEXDATE:20260702T090000"
    assert times(walls, "2026-07-01T07:00", tz="Europe/Berlin") == [
        "2026-07-01 07:00",
        "2026-07-03 07:00",
    ]
    assert str(when(rrule=walls, start=0)) == "rrule FREQ=DAILY;COUNT=3 EXDATE:20260702T090000"


def test_until_is_included_as_an_instant_or_on_the_wall() -> None:
    instant = "FREQ=DAILY;UNTIL=20260703T070000Z"
    wall = "FREQ=DAILY;UNTIL=20260703T090000"
    for rule in (instant, wall):
        assert len(times(rule, "2026-07-01T07:00", tz="Europe/Berlin")) == 3
    assert (
        len(times("FREQ=DAILY;UNTIL=20260703T085959", "2026-07-01T07:00", tz="Europe/Berlin")) == 2
    )


def test_a_count_is_of_slots_also_when_the_clock_is_turned() -> None:
    # At 01:00 UTC it is turned back from 03:00 to 02:00, and half past two comes twice.
    assert times("FREQ=HOURLY;COUNT=4", "2026-10-24T23:30", tz="Europe/Berlin") == [
        "2026-10-24 23:30",
        "2026-10-25 00:30",
        "2026-10-25 01:30",
        "2026-10-25 02:30",
    ]
    assert times("FREQ=HOURLY;COUNT=3", "2026-03-29T00:30", tz="Europe/Berlin")[1:] == [
        "2026-03-29 01:30",
        "2026-03-29 02:30",
    ]
    # A start at the second half past two is a slot.
    assert times("FREQ=DAILY;COUNT=2", "2026-10-25T01:30", tz="Europe/Berlin") == [
        "2026-10-25 01:30",
        "2026-10-26 01:30",
    ]


# --- read day by day


def by_the_book(parts: dict[str, Any], start: datetime, until: date) -> Iterator[date]:
    """Days of FREQ=YEARLY;BYWEEKNO, and of FREQ=WEEKLY;BYSETPOS, without any cleverness."""
    day = start.date()
    while day < until:
        week = [day - timedelta(days=day.weekday()) + timedelta(days=each) for each in range(7)]
        chosen = [each for each in week if each.weekday() in parts["days"]]
        if "weeks" in parts:
            last = date(day.isocalendar().year, 12, 28).isocalendar().week
            number = day.isocalendar().week
            fits = number in parts["weeks"] or number - last - 1 in parts["weeks"]
            if fits and day in chosen:
                yield day
        else:
            size = len(chosen)
            places = [each - 1 if each > 0 else size + each for each in parts["places"]]
            weeks = (week[0] - (start.date() - timedelta(days=start.weekday()))).days // 7
            if day in chosen and chosen.index(day) in places and weeks % parts["interval"] == 0:
                yield day
        day += timedelta(days=1)


WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
SIGNED = st.integers(1, 53).flatmap(lambda each: st.sampled_from((each, -each)))


@settings(max_examples=60, deadline=None)
@given(
    st.dates(date(2015, 1, 1), date(2040, 1, 1)),
    st.sets(st.integers(0, 6), min_size=1, max_size=7),
    st.sets(SIGNED, min_size=1, max_size=4),
)
def test_weeks_of_the_year_are_those_of_the_calendar(
    first: date, weekdays: set[int], weeks: set[int]
) -> None:
    start = datetime(first.year, first.month, first.day)  # noqa: DTZ001 - a wall's
    names = ",".join(WEEKDAYS[each] for each in sorted(weekdays))
    text = f"FREQ=YEARLY;BYDAY={names};BYWEEKNO={','.join(map(str, weeks))}"
    rule = parse(text, int((start - EPOCH).total_seconds()))
    until = first + timedelta(days=8 * 366)
    assert list(walked(rule, start, until)) == list(
        by_the_book({"days": weekdays, "weeks": weeks}, start, until)
    )


@settings(max_examples=60, deadline=None)
@given(
    st.dates(date(2015, 1, 1), date(2040, 1, 1)),
    st.sets(st.integers(0, 6), min_size=1, max_size=7),
    st.sets(st.sampled_from([1, 2, 3, -1, -2, 7]), min_size=1, max_size=3),
    st.integers(1, 4),
)
def test_positions_are_those_in_the_whole_week(
    first: date, weekdays: set[int], places: set[int], interval: int
) -> None:
    start = datetime(first.year, first.month, first.day)  # noqa: DTZ001 - a wall's
    names = ",".join(WEEKDAYS[each] for each in sorted(weekdays))
    text = f"FREQ=WEEKLY;INTERVAL={interval};BYDAY={names};BYSETPOS={','.join(map(str, places))}"
    rule = parse(text, int((start - EPOCH).total_seconds()))
    until = first + timedelta(days=500)
    parts = {"days": weekdays, "places": places, "interval": interval}
    assert list(walked(rule, start, until)) == list(by_the_book(parts, start, until))


def walked(rule: Any, start: datetime, until: date) -> Iterator[date]:
    wall = int((start - EPOCH).total_seconds()) - 1
    while (found := rule.after(wall)) is not None:
        day = (EPOCH + timedelta(seconds=found)).date()
        if day >= until:
            return
        yield day
        wall = found


PARTS = st.fixed_dictionaries(
    {"FREQ": st.sampled_from(["YEARLY", "MONTHLY", "DAILY", "HOURLY", "MINUTELY"])},
    optional={
        "INTERVAL": st.sampled_from(["2", "3", "7", "50"]),
        "BYMONTH": st.sampled_from(["1", "2,9", "3,4,12"]),
        "BYDAY": st.sampled_from(["MO", "TU,SA", "MO,TU,WE,TH,FR"]),
        "BYHOUR": st.sampled_from(["0", "9,17", "3,4,5"]),
        "BYMINUTE": st.sampled_from(["0", "15,45"]),
    },
)


@settings(max_examples=100, deadline=None)
@given(PARTS, st.integers(0, 4 * 366 * 1440))
def test_other_rules_are_those_of_a_known_library(parts: dict[str, str], minutes: int) -> None:
    from dateutil.rrule import rrulestr

    # Of these the other library looks at each minute, for up to a minute of ours.
    assume((parts["FREQ"], parts.get("INTERVAL")) != ("MINUTELY", "7"))
    text = ";".join(f"{name}={value}" for name, value in parts.items())
    start = datetime(2020, 1, 1) + timedelta(minutes=minutes)  # noqa: DTZ001 - a wall's
    until = start + timedelta(days=20 if parts["FREQ"] in {"HOURLY", "MINUTELY"} else 2000)
    rule = parse(text, int((start - EPOCH).total_seconds()))
    try:
        expected = rrulestr(f"{text};UNTIL={until:%Y%m%dT%H%M%S}", dtstart=start)[:20]
    except ValueError:
        # It knows that these have no times.
        expected = []
    found: list[datetime] = []
    wall = int((start - EPOCH).total_seconds()) - 1
    while len(found) < 20 and (later := rule.after(wall)) is not None:
        shown = EPOCH + timedelta(seconds=later)
        if shown > until:
            break
        found.append(shown)
        assert rule.nth(len(found)) == later
        wall = later
    assert found == expected, text


# --- what is refused, and how soon


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=DAILY;;COUNT=2",
        "FREQ=DAILY;FREQ=DAILY",
        "FREQ=DAILY;BYEASTER=1",
        "FREQ=DAILY;COUNT=0",
        "FREQ=DAILY;COUNT=10001",
        "FREQ=DAILY;COUNT=2;UNTIL=20300101T000000Z",
        "FREQ=DAILY;INTERVAL=99999999999999999999",
        "FREQ=DAILY;INTERVAL=\u0663",
        "FREQ=DAILY;UNTIL=20301399T000000Z",
        "FREQ=DAILY;UNTIL=20301231",
        "FREQ=DAILY;WKST=XX",
        "FREQ=DAILY;BYDAY=1MO",
        "FREQ=DAILY;BYDAY=MONDAY",
        "FREQ=DAILY;BYMONTHDAY=0",
        "FREQ=DAILY;BYSETPOS=1",
        "FREQ=DAILY;BYYEARDAY=1",
        "FREQ=MONTHLY;BYWEEKNO=1",
        "FREQ=WEEKLY;BYMONTHDAY=1",
        "FREQ=YEARLY;BYMONTHDAY=29",
        "FREQ=YEARLY;BYWEEKNO=1;INTERVAL=2",
        "FREQ=YEARLY;BYWEEKNO=1;BYSETPOS=1",
        "FREQ=YEARLY;BYWEEKNO=1;BYDAY=1MO",
        "FREQ=HOURLY;INTERVAL=8760;COUNT=8000",
        "FREQ=DAILY\nRDATE:20260101T000000Z",
        "FREQ=DAILY\nEXDATE;VALUE=DATE:20260101",
        "FREQ=DAILY\nEXDATE:tomorrow",
        "FREQ=DAILY\nEXDATE;TZID=../passwd:20260101T000000",
        "FREQ=DAILY;BYHOUR=" + ",".join(["1"] * 3000),
    ],
)
def test_what_the_standard_forbids_or_leaves_open_is_refused(rule: str) -> None:
    with pytest.raises(UsageError, match=r"\w+ \w+"):
        when(rrule=rule, start=NOW)


NEVER = [
    "FREQ=HOURLY;BYMONTH=2;BYMONTHDAY=30",
    "FREQ=MINUTELY;BYMONTH=2;BYMONTHDAY=30",
    "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30",
    "FREQ=YEARLY;BYMONTH=4;BYMONTHDAY=31",
    "FREQ=DAILY;INTERVAL=7;BYDAY=SU",
    "FREQ=HOURLY;INTERVAL=168;BYDAY=TU",
    "FREQ=HOURLY;INTERVAL=48;BYHOUR=3",
    "FREQ=MINUTELY;INTERVAL=60;BYMINUTE=1",
    "FREQ=HOURLY;BYMONTH=9,4;BYYEARDAY=65",
    "FREQ=WEEKLY;INTERVAL=9973;BYDAY=MO,TU;BYSETPOS=3",
    "FREQ=MONTHLY;INTERVAL=13;BYDAY=4SA,5SU;BYSETPOS=-4,-3",
    "FREQ=MINUTELY;BYDAY=SU;BYSETPOS=2",
    "FREQ=DAILY;INTERVAL=9973;BYMONTH=2;BYMONTHDAY=29",
]
SELDOM: list[dict[str, Any]] = [
    {"rrule": "FREQ=MINUTELY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO;BYHOUR=3;BYMINUTE=0"},
    {"rrule": "FREQ=MINUTELY;INTERVAL=9973;BYDAY=MO;BYHOUR=3;BYMINUTE=1"},
    {"rrule": "FREQ=HOURLY;BYMONTH=2;BYMONTHDAY=29;COUNT=1000"},
    {"rrule": "FREQ=MONTHLY;COUNT=10000"},
    {"rrule": "FREQ=DAILY;COUNT=10000"},
    {"cron": "* * 29 2 *"},
    {"cron": "* * * 2 MON#5"},
    {"cron": ",".join(["0-59"] * 700) + " * * * *"},
    {"cron": "* * * * 1 *"},
    {"every": 200_000_000_000_000},
]
MOST_CALLS = 150_000


class TooLongError(Exception):
    pass


def within_bounds(function: Any) -> Any:
    """Call it, but no more than so many functions on the way: a second at most on any machine."""
    calls = 0

    def note(_frame: Any, event: str, _arg: Any) -> None:
        nonlocal calls
        calls += event == "call"
        if calls > MOST_CALLS:
            sys.setprofile(None)
            raise TooLongError

    sys.setprofile(note)
    try:
        return function()
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("tz", ["UTC", "Africa/Casablanca"])
@pytest.mark.parametrize("rule", NEVER)
def test_a_rule_that_never_comes_is_refused_at_once(rule: str, tz: str) -> None:
    def attempt() -> None:
        with pytest.raises(UsageError, match="never comes"):
            when(rrule=rule, tz=tz, start=NOW)

    within_bounds(attempt)


@pytest.mark.parametrize("tz", ["UTC", "Africa/Casablanca"])
@pytest.mark.parametrize("options", SELDOM, ids=str)
def test_a_rule_that_comes_seldom_or_often_takes_no_longer(
    options: dict[str, Any], tz: str
) -> None:
    made: When = within_bounds(lambda: when(**options, tz=tz, start=NOW))

    slot = within_bounds(lambda: made.next(NOW))
    assert slot is not None
    assert slot > NOW
    later = slot + 11 * 30 * 86_400_000
    latest = within_bounds(lambda: made.latest(NOW, later, 3))
    assert latest == sorted(latest)
    assert all(made.next(each - 1) == each for each in latest)
    if len(latest) == 3:
        assert (made.next(latest[-1]) or later + 1) > later


@pytest.mark.parametrize(
    "options",
    [
        {"cron": "0 0 30 2 *"},
        {"cron": "0 0 31 4,6 *"},
        {"cron": "1," * 100_000 + "1 * * * *"},
        {"cron": "*/" + "9" * 5000 + " * * * *"},
        {"rrule": "FREQ=DAILY;" * 100_000},
        {"rrule": "FREQ=DAILY;INTERVAL=" + "9" * 5000},
        {"every": 253_000_000_000_000},
        {"cron": "0 0 * * *", "tz": "A" * 400},
        {"cron": "0 0 * * *", "tz": "Europe"},
        {"cron": "0 0 * * *", "tz": "/etc/localtime"},
        {"cron": "0 0 * * *", "tz": "\ud800"},
        {"rrule": "FREQ=HOURLY", "start": -62_135_596_800_000},
        {"rrule": "FREQ=HOURLY", "start": -62_135_596_800_000, "tz": "America/New_York"},
    ],
    ids=lambda options: str(options)[:50],
)
def test_absurd_texts_are_refused_at_once(options: dict[str, Any]) -> None:
    def attempt() -> None:
        with pytest.raises(UsageError) as caught:
            when(**{"start": NOW, **options})
        assert len(str(caught.value)) < 1000

    within_bounds(attempt)
