"""Slots of schedules, compared with a clock on the wall that is read minute by minute."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duework.errors import UsageError
from duework.shapes.schedules.calendar import When, instant, when

ZONES = """
    Africa/Cairo Africa/Casablanca Africa/Johannesburg Africa/Monrovia Africa/Nairobi
    America/Anchorage America/Asuncion America/Bogota America/Caracas America/Chicago America/Denver
    America/Godthab America/Havana America/Los_Angeles America/Mexico_City America/New_York
    America/Nuuk America/Sao_Paulo America/Santiago America/Scoresbysund America/St_Johns
    Antarctica/Troll Antarctica/Casey Asia/Amman Asia/Beirut Asia/Gaza Asia/Jerusalem Asia/Karachi
    Asia/Kathmandu Asia/Kolkata Asia/Pyongyang Asia/Tehran Asia/Tokyo Atlantic/Azores
    Australia/Adelaide Australia/Lord_Howe Australia/Sydney Europe/Dublin Europe/Istanbul
    Europe/Lisbon Europe/London Europe/Moscow Europe/Paris Europe/Volgograd Pacific/Apia
    Pacific/Auckland Pacific/Chatham Pacific/Fakaofo Pacific/Kwajalein Pacific/Norfolk UTC
""".split()  # noqa: SIM905 - a list of words
FIRST = datetime(1970, 1, 2, tzinfo=UTC).timestamp()
LAST = datetime(2037, 12, 30, tzinfo=UTC).timestamp()
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a clock on a wall


@lru_cache(maxsize=100)
def changes(name: str) -> list[int]:
    """The transitions of a zone, 1970 to 2037: looked for every 23 hours, then closer."""
    zone, found = ZoneInfo(name), []
    before = offset(zone, int(FIRST))
    for begin in range(int(FIRST), int(LAST), 23 * 3600):
        low, high = begin, begin + 23 * 3600
        if (after := offset(zone, high)) == before:
            continue
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if offset(zone, middle) == before else (low, middle)
        found.append(high)
        before = after
    return found


def offset(zone: ZoneInfo, second: int) -> timedelta:
    found = datetime.fromtimestamp(second, zone).utcoffset()
    assert found is not None
    return found


def oracle(
    zone: ZoneInfo, begin: int, end: int, fits: Callable[[datetime], bool], *, fixed: bool
) -> Iterator[int]:
    """Read the clock every minute of real time, and fire by the rule in words."""
    # Monrovia was 44 minutes and 30 seconds behind.
    seconds = 30 if zone.key == "Africa/Monrovia" else 60
    step = timedelta(seconds=seconds)
    last = EPOCH + timedelta(seconds=begin) + offset(zone, begin)
    highest = last
    for second in range(begin + seconds, end + 1, seconds):
        shown = EPOCH + timedelta(seconds=second) + offset(zone, second)
        if not fixed:
            if fits(shown):
                yield second
        else:
            leapt, passed = False, last + step
            while passed < shown:
                leapt = leapt or (passed > highest and fits(passed))
                passed += step
            if leapt or (shown > highest and fits(shown)):
                yield second
        last, highest = shown, max(highest, shown)


def expressions(chance: random.Random, near: datetime) -> tuple[str, set[int], set[int], bool]:
    """A cron expression around the wall's time of a change: text, minutes, hours, fixed."""
    hour = (near.hour + chance.choice((-2, -1, 0, 0, 1, 2))) % 24
    minute = chance.choice((0, 1, 15, 29, 30, 45, 59))
    everything = set(range(24))
    return chance.choice(
        (
            (f"{minute} {hour} * * *", {minute}, {hour}, True),
            (f"{minute} {hour} * * *", {minute}, {hour}, True),
            (
                f"0,{minute} {hour},{(hour + 1) % 24} * * *",
                {0, minute},
                {hour, (hour + 1) % 24},
                True,
            ),
            ("0 */2 * * *", {0}, set(range(0, 24, 2)), False),
            (f"{minute} 1-4 * * *", {minute}, {1, 2, 3, 4}, True),
            ("*/15 * * * *", {0, 15, 30, 45}, everything, False),
            (f"{minute} * * * *", {minute}, everything, False),
            (f"*/10 {hour} * * *", {0, 10, 20, 30, 40, 50}, {hour}, False),
        )
    )


@pytest.mark.parametrize("name", ZONES)
def test_slots_are_those_of_a_clock_that_is_read_every_minute(name: str) -> None:
    zone, chance = ZoneInfo(name), random.Random(name)  # noqa: S311 - the same each time
    middays = [int(FIRST) + chance.randrange(int(LAST - FIRST)) // 60 * 60]
    for change in [*changes(name), *middays]:
        begin, end = change - 3 * 3600, change + 3 * 3600
        near = EPOCH + timedelta(seconds=change) + offset(zone, change - 1)
        text, minutes, hours, fixed = expressions(chance, near)

        def fits(shown: datetime, minutes: set[int] = minutes, hours: set[int] = hours) -> bool:
            return shown.minute in minutes and shown.hour in hours and shown.second == 0

        expected = list(oracle(zone, begin, end, fits, fixed=fixed))
        rule = When("cron", text, 0, name)
        found, slot = [], rule.next(begin * 1000)
        while slot is not None and slot <= end * 1000:
            found.append(slot // 1000)
            slot = rule.next(slot)
        assert found == expected, (text, name, near)
        # From anywhere, the time that the clock shows again included.
        for after in (change - 1, change, change + chance.randrange(3600)):
            later = [each for each in expected if each > after]
            assert not later or rule.next(after * 1000 + 7) == later[0] * 1000, (text, name, near)


def test_fifty_zones_with_thousands_of_changes_are_looked_at() -> None:
    assert len(ZONES) > 40
    assert sum(len(changes(name)) for name in ZONES) > 3000


def local(rule: When, after: str, count: int) -> list[str]:
    zone = ZoneInfo(rule.tz)
    start = int(datetime.fromisoformat(after).replace(tzinfo=zone).timestamp() * 1000)
    return [
        datetime.fromtimestamp(slot / 1000, zone).strftime("%m-%d %H:%M%z")
        for slot in rule.upcoming(start, count)
    ]


def test_a_daily_time_is_had_once_in_the_gap_and_once_in_the_fold() -> None:
    berlin = When("cron", "30 2 * * *", 0, "Europe/Berlin")
    assert local(berlin, "2026-03-28T00:00", 3) == [
        "03-28 02:30+0100",
        "03-29 03:00+0200",
        "03-30 02:30+0200",
    ]
    assert local(berlin, "2026-10-24T00:00", 3) == [
        "10-24 02:30+0200",
        "10-25 02:30+0200",
        "10-26 02:30+0100",
    ]


def test_an_interval_follows_real_time() -> None:
    berlin = When("cron", "*/30 * * * *", 0, "Europe/Berlin")
    spring, autumn = berlin.upcoming(1774742400000, 8), berlin.upcoming(1792879200000, 16)
    for slots in (spring, autumn):
        assert {late - early for early, late in pairwise(slots)} == {1_800_000}


def test_half_an_hour_is_leapt_over_on_lord_howe() -> None:
    rule = When("cron", "15 2 * * *", 0, "Australia/Lord_Howe")
    assert local(rule, "2026-10-03T12:00", 2) == ["10-04 02:30+1100", "10-05 02:15+1100"]


def test_the_day_that_apia_never_had_is_made_up_for_at_midnight() -> None:
    rule = When("cron", "30 2 * * *", 0, "Pacific/Apia")
    assert local(rule, "2011-12-28T12:00", 4) == [
        "12-29 02:30-1000",
        "12-31 00:00+1400",
        "12-31 02:30+1400",
        "01-01 02:30+1400",
    ]


def test_every_counts_from_its_start_and_does_not_drift() -> None:
    rule = when(every=300_000, start=1_800_000_000_123)
    slot, late = 1_800_000_000_123, 0
    for number in range(1, 1000):
        late = (late * 7 + 13) % 299_000
        found = rule.next(slot + late)
        assert found == 1_800_000_000_123 + number * 300_000
        slot = found


@given(st.integers(1000, 10**9), st.integers(0, 2 * 10**12), st.integers(-(10**12), 3 * 10**12))
def test_every_has_the_first_slot_after_any_time(period: int, start: int, after: int) -> None:
    rule = when(every=period, start=start)
    slot = rule.next(after)
    assert slot is not None
    assert slot > after
    assert (slot - start) % period == 0
    assert slot - period <= max(after, start)


RULES = st.sampled_from(
    [
        When("cron", "*/5 * * * *", 0, "UTC"),
        When("cron", "30 2 * * *", 0, "Europe/London"),
        When("cron", "0 9 * * MON#1", 0, "America/New_York"),
        When("cron", "0 0 29 2 *", 0, "Asia/Tokyo"),
        When("cron", "*/10 * * * * *", 0, "UTC"),
        When("every", "90000", 7, "UTC"),
        When("rrule", "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,FR", 1_700_000_000_000, "Europe/Paris"),
        When("rrule", "FREQ=MONTHLY;BYMONTHDAY=31", 1_700_000_000_000, "Pacific/Apia"),
        When("rrule", "FREQ=MINUTELY;INTERVAL=7", 1_700_000_000_000, "Australia/Lord_Howe"),
    ]
)


@given(RULES, st.integers(1_700_000_000_000, 2_100_000_000_000), st.integers(1, 20))
def test_the_latest_slots_are_the_end_of_all_slots_between(
    rule: When, until: int, count: int
) -> None:
    after = until - 40 * 60_000
    everything = list(rule._between(after, until))  # noqa: SLF001 - one by one
    assert rule.latest(after, until, count) == everything[-count:]


@given(RULES, st.integers(1_700_000_000_000, 2_100_000_000_000))
def test_slots_rise(rule: When, after: int) -> None:
    slots = rule.upcoming(after, 5)
    assert slots == sorted(set(slots))
    assert all(slot > after for slot in slots)
    if slots:
        assert rule.next(slots[0] - 1) == slots[0]


def test_the_latest_slot_of_years_is_found_at_once() -> None:
    seconds = when(every=1000, start=0)
    assert seconds.latest(0, 1_800_000_000_500, 2) == [1_799_999_999_000, 1_800_000_000_000]
    minutes = When("cron", "* * * * *", 0, "Europe/Berlin")
    assert minutes.latest(0, 1_800_000_000_000, 1) == [1_800_000_000_000]
    yearly = When("cron", "0 0 1 1 *", 0, "UTC")
    assert yearly.latest(0, 1_800_000_000_000, 2) == [1_767_225_600_000, 1_798_761_600_000]


# --- recurrence rules


@pytest.mark.parametrize(
    "text",
    [
        "FREQ=DAILY;INTERVAL=3",
        "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE,SU;BYHOUR=9;BYMINUTE=30",
        "FREQ=WEEKLY;INTERVAL=3;WKST=SU;BYDAY=SU,MO",
        "FREQ=MONTHLY;BYMONTHDAY=-1",
        "FREQ=MONTHLY;INTERVAL=5",
        "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
        "FREQ=YEARLY;BYMONTH=3,10;BYDAY=-1SU",
        "FREQ=YEARLY;INTERVAL=4",
        "FREQ=YEARLY;BYWEEKNO=1,53;BYDAY=MO",
        "FREQ=HOURLY;INTERVAL=5",
        "FREQ=MINUTELY;INTERVAL=50;BYHOUR=8,9",
        "FREQ=DAILY;UNTIL=20301231T000000",
    ],
)
@pytest.mark.parametrize("start", ["2020-02-29T10:15:00", "2021-01-31T23:59:00"])
def test_a_rule_has_the_same_times_wherever_it_is_begun(text: str, start: str) -> None:
    from dateutil.rrule import rrulestr

    begin = datetime.fromisoformat(start)
    rule = when(rrule=text, start=int(begin.replace(tzinfo=UTC).timestamp() * 1000))
    whole = rrulestr(text, dtstart=begin)
    chance = random.Random(text + start)  # noqa: S311 - as above
    for _ in range(8):
        wall = begin + timedelta(minutes=chance.randrange(60 * 24 * 365 * 5))
        expected = whole.after(wall)
        found = rule.next(int(wall.replace(tzinfo=UTC).timestamp() * 1000))
        if expected is None:
            assert found is None
        else:
            assert found == int(expected.replace(tzinfo=UTC).timestamp() * 1000), wall


def test_a_rule_that_is_counted_or_ended_has_no_more_slots() -> None:
    counted = when(rrule="FREQ=DAILY;COUNT=2", start=0)
    assert counted.upcoming(-1, 5) == [0, 86_400_000]
    ended = when(rrule="FREQ=DAILY;UNTIL=19700103T000000Z", tz="America/New_York", start=0)
    assert ended.upcoming(-1, 5) == [0, 86_400_000, 2 * 86_400_000]


def test_a_rule_with_a_time_in_the_gap_has_it_once() -> None:
    rule = when(
        rrule="FREQ=DAILY;BYHOUR=2;BYMINUTE=30;BYSECOND=0", tz="Europe/Berlin", start=10**12
    )
    assert local(rule, "2026-03-28T12:00", 2) == ["03-29 03:00+0200", "03-30 02:30+0200"]
    assert local(rule, "2026-10-24T12:00", 2) == ["10-25 02:30+0200", "10-26 02:30+0100"]


def test_a_time_on_the_wall_is_an_instant_of_its_zone() -> None:
    gap = instant(datetime(2026, 3, 29, 2, 30), "Europe/Berlin")  # noqa: DTZ001 - a wall's
    assert datetime.fromtimestamp(gap / 1000, UTC).isoformat() == "2026-03-29T01:00:00+00:00"
    fold = instant(datetime(2026, 10, 25, 2, 30), "Europe/Berlin")  # noqa: DTZ001 - a wall's
    assert datetime.fromtimestamp(fold / 1000, UTC).isoformat() == "2026-10-25T00:30:00+00:00"


def test_zones_are_known_on_a_machine_that_has_no_list_of_them() -> None:
    program = """
from duework.shapes.schedules.calendar import When
import zoneinfo
assert zoneinfo.TZPATH == (), zoneinfo.TZPATH
print(When("cron", "15 2 * * *", 0, "Australia/Lord_Howe").next(1791021600000))
"""
    found = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONTZPATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == "1791041400000"


# --- what is refused


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"cron": "* * * * *", "every": 5000},
        {"cron": "61 * * * *"},
        {"cron": "* * *"},
        {"cron": ""},
        {"cron": "0 0 30 2 *"},
        {"cron": "L/2 * * * *"},
        {"cron": "*/0 * * * *"},
        {"cron": "0 0 * * 1#1/2"},
        {"cron": "0 9 * * *", "tz": "Europe/Nowhere"},
        {"cron": "0 9 * * *", "tz": "../etc/passwd"},
        {"cron": "0 9 * * *", "tz": ""},
        {"every": 999},
        {"rrule": "FREQ=SOMETIMES"},
        {"rrule": "INTERVAL=2"},
        {"rrule": "FREQ=DAILY;INTERVAL=0"},
        {"rrule": "FREQ=SECONDLY"},
        {"rrule": "FREQ=DAILY;COUNT=1000000"},
        {"rrule": "DTSTART:20260101T000000\nRRULE:FREQ=DAILY"},
        {"rrule": "FREQ=DAILY;BYHOUR=25"},
        {"rrule": ""},
    ],
)
def test_what_cannot_be_meant_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=r"\w+"):
        when(**options, start=1_800_000_000_000)  # type: ignore[arg-type]


@given(st.text(alphabet="0123456789*/-,#LW FREQ=DAILY;BYMONTH", max_size=30))
def test_no_text_makes_anything_but_a_rule_or_a_usage_error(text: str) -> None:
    for options in ({"cron": text}, {"rrule": text}):
        try:
            when(**options, start=1_800_000_000_000)  # type: ignore[arg-type]
        except UsageError:
            continue


def test_words_for_common_rules_and_rules_in_words() -> None:
    assert when(cron="@daily", start=0).rule == "0 0 * * *"
    assert str(when(cron="0  9 * * MON", tz="Europe/London", start=0)) == (
        "cron 0 9 * * MON Europe/London"
    )
    assert str(when(every=90_000, start=0)) == "every 1m 30s"
    assert str(when(at=0, start=0)) == "at 1970-01-01 00:00:00 UTC"


def test_the_year_9999_is_the_end() -> None:
    assert When("cron", "0 0 1 1 *", 0, "UTC").next(253_370_764_700_000) is None
    assert When("every", "1000", 0).next(253_370_764_799_500) is None


@pytest.mark.parametrize(
    "text",
    [
        "0 9 L * *",
        "0 9 * * 5L",
        "15,45 3 * 2 MON#5",
        "1-5 */7 13 * FRI",
        "10 1 LW * *",
        "0 0 1,15 * 3",
    ],
)
def test_an_expression_means_what_its_parser_says(text: str) -> None:
    from cronsim import CronSim

    chance = random.Random(text)  # noqa: S311 - as above
    for _ in range(50):
        wall = EPOCH + timedelta(days=10_000, seconds=chance.randrange(40 * 365 * 86_400))
        slot = When("cron", text, 0, "UTC").next(int((wall - EPOCH).total_seconds()) * 1000)
        assert slot is not None
        assert EPOCH + timedelta(milliseconds=slot) == next(CronSim(text, wall))
