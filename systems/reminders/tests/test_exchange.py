"""Reminders come and go as tables and calendars."""

from __future__ import annotations

import pytest

from duework import UsageError
from duework.testing import Harness
from systems.reminders import book, exchange, planning
from systems.reminders.exchange.crons import rrule_of
from systems.reminders.routes import brought
from systems.reminders.tests.conftest import Hook, remind
from systems.reminders.tests.test_web import Web
from systems.twins import Twins

TO = {"email": "ada@demo.example"}
CALENDAR = b"""BEGIN:VCALENDAR\r
VERSION:2.0\r
PRODID:-//x//y//EN\r
BEGIN:VEVENT\r
UID:1@x\r
SUMMARY:Stand-up\\, daily\r
DESCRIPTION:In the small room\r
DTSTART;TZID=Europe/Zurich:20260310T091500\r
RRULE:FREQ=WEEKLY;BYDAY=MO,TU;COUNT=4\r
END:VEVENT\r
BEGIN:VEVENT\r
UID:2@x\r
SUMMARY:Birthday\r
DTSTART;VALUE=DATE:20260501\r
END:VEVENT\r
BEGIN:VEVENT\r
UID:3@x\r
SUMMARY:Long ago\r
DTSTART:20200101T090000Z\r
END:VEVENT\r
BEGIN:VTODO\r
UID:4@x\r
SUMMARY:Taxes\r
DUE:20260331T120000Z\r
END:VTODO\r
END:VCALENDAR\r
"""


def everything() -> dict[str, list[str]]:
    return {each.title: book.preview(each.id, 5) for each in book.every()}


def fill(t: Twins) -> None:
    hook = Hook(t)
    remind(title="Once", at="2026-03-09T09:00", zone="Europe/Oslo")
    remind(title="=Cron, with a comma", cron="0 9 * * MON-FRI", zone="America/New_York")
    remind(title="Rule", rrule="FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=9", zone="Asia/Tokyo")
    remind(title="Length", every="90m", start="2026-03-03T00:00", count=7)
    remind(title="Both", cron="*/20 8 * * *", endpoint=hook.id, quiet="22:00-07:00", repeat="10m")
    remind(title="Long", every="1234567s")
    remind(title="Later", cron="0 9 * * *", start="2026-05-01T00:00", count=3)
    remind(title="Until", cron="0 9 1 * *", end="2026-07-01T00:00")


@pytest.mark.parametrize("form", ["csv", "ics"])
def test_what_goes_out_comes_back_with_the_same_times(h: Harness, t: Twins, form: str) -> None:
    fill(t)
    before = everything()
    content = exchange.to_csv().encode() if form == "csv" else exchange.to_ics(h.now)
    for each in book.every():
        book.delete(each.id)
    h.drain()

    done = brought(content, TO)

    assert (done.made, done.known) == (8, 0)
    assert everything() == before
    assert brought(content, TO).known == 8


def test_a_calendar_brings_events_and_todos_and_leaves_out_what_is_over(
    h: Harness, t: Twins
) -> None:
    done = brought(CALENDAR, {**TO, "zone": "Europe/Oslo"})

    assert (done.made, done.known, done.over) == (3, 0, 1)
    assert everything() == {
        "Stand-up, daily": [
            "2026-03-10T09:15:00+01:00",
            "2026-03-16T09:15:00+01:00",
            "2026-03-17T09:15:00+01:00",
            "2026-03-23T09:15:00+01:00",
        ],
        "Birthday": ["2026-05-01T09:00:00+02:00"],
        "Taxes": ["2026-03-31T12:00:00+00:00"],
    }
    assert brought(CALENDAR, TO).known == 3


def test_a_sheet_may_say_times_in_words(h: Harness) -> None:
    sheet = "title,say,zone,email\nStretch,every weekday at 9:00,Europe/Zurich,ada@demo.example\n"

    assert brought(sheet.encode(), {}).made == 1
    assert everything()["Stretch"][0] == "2026-03-02T09:00:00+01:00"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "names the columns"),
        (b"name,when\nx,y\n", "names the columns"),
        (b"title,at\nx,2026-05-01T09:00\ny,never\n", "line 3: "),
        (b"title,say\nx,soon\n", "line 2: "),
        (b"title,at\nx\n", "line 2: it has other columns"),
        (b"title,at,count\nx,2026-05-01T09:00,many\n", "line 2: "),
        (b"title,at,endpoint\nx,2026-05-01T09:00,ep_none\n", "line 2: there is no endpoint"),
        (b"\xff\xfe", "UTF-8"),
        (b"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nEND:VCALENDAR\r\n", "no calendar"),
        (b"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nSUMMARY:x\r\nEND:VEVENT\r\nEND:VCALENDAR", "entry 1"),
    ],
)
def test_a_file_with_a_mistake_says_where_it_stands_and_brings_nothing(
    h: Harness, content: bytes, why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        brought(content, TO)

    assert book.count() == 0


def test_a_person_sends_a_file_by_the_page_whole_or_not_at_all(h: Harness) -> None:
    web = Web(h)
    wrong = b"title,at\nx,2026-05-01T09:00\ny,never\n"

    none = web.submit("/reminders/import", file=("a.csv", b""), email="ada@demo.example")
    refused = web.submit("/reminders/import", file=("a.csv", wrong), email="ada@demo.example")
    assert book.count() == 0
    made = web.submit("/reminders/import", file=("my/work.ics", CALENDAR), email="ada@demo.example")
    again = web.submit("/reminders/import", file=("work.ics", CALENDAR), email="ada@demo.example")

    assert "names the columns" in none
    assert "line 3: " in refused.lower()
    assert "work.ics: 3 made, 1 are over and left out" in made
    assert "work.ics: 0 made, 3 were there already" in again
    assert book.count() == 3


def event(*lines: str) -> str:
    return "\r\n".join(["BEGIN:VEVENT", "SUMMARY:Stand-up", *lines, "END:VEVENT"])


def calendar(*events: str) -> bytes:
    return "\r\n".join(["BEGIN:VCALENDAR", "VERSION:2.0", *events, "END:VCALENDAR", ""]).encode()


DAILY = ("UID:1@x", "DTSTART;TZID=Europe/Zurich:20260303T091500", "RRULE:FREQ=DAILY")
MOVED = ("UID:1@x", "RECURRENCE-ID;TZID=Europe/Zurich:20260305T091500")


def test_days_that_a_calendar_leaves_out_stay_out_and_one_that_was_moved_comes_then(
    h: Harness,
) -> None:
    content = calendar(
        event(*DAILY, "EXDATE;TZID=Europe/Zurich:20260304T091500", "EXDATE;VALUE=DATE:20260306"),
        event(*MOVED, "DTSTART;TZID=Europe/Zurich:20260305T140000"),
        event("UID:2@x", "DTSTART:20260309T090000Z", "STATUS:CANCELLED"),
    )

    assert brought(content, TO) == exchange.Brought(made=2, known=0, over=1)
    series, moved = sorted((book.preview(each.id, 3) for each in book.every()), key=len)[::-1]
    assert [each[8:16] for each in series] == ["03T09:15", "07T09:15", "08T09:15"]
    assert moved == ["2026-03-05T14:00:00+01:00"]
    assert brought(content, TO).known == 2

    again = exchange.to_ics(h.now)
    for each in book.every():
        book.delete(each.id)
    h.drain()
    brought(again, TO)
    assert series in [book.preview(each.id, 3) for each in book.every()]


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (("DTSTART:20260305T090000", "DTSTART:20260306T090000"), "more than one DTSTART"),
        (("DTSTART:soon",), "its DTSTART is no date"),
        (("DTSTART;VALUE=PERIOD:20260305T090000Z/PT1H",), "its DTSTART is no date"),
        (("DTSTART;TZID=Nowhere:20260305T090000",), "no zone 'Nowhere'"),
        ((*DAILY[1:], "RRULE:FREQ=WEEKLY"), "more than one RRULE"),
        ((*DAILY[1:], "EXDATE:soon"), "its EXDATE cannot be read"),
        (("DTSTART:20260305T090000Z", 'X-DUEWORK-TIMES:{"at": "soon"}'), "at is a time"),
        (("DTSTART:20260305T090000Z", 'X-DUEWORK-TIMES:{"at": 5}'), "Expected `str"),
    ],
)
def test_an_entry_that_cannot_be_used_is_named(
    h: Harness, lines: tuple[str, ...], why: str
) -> None:
    with pytest.raises(UsageError, match=f"entry 1: .*{why}"):
        brought(calendar(event(*lines)), TO)

    assert book.count() == 0


@pytest.mark.parametrize(
    ("sheet", "why"),
    [
        ("x,One,2026-03-05T09:00\nx,Two,2026-03-05T09:00", "line 3: it has the id of line 2"),
        ("a/b,One,2026-03-05T09:00", "line 2: an id is"),
        (f"{'y' * 81},One,2026-03-05T09:00", "line 2: an id is"),
        ("x,O\0ne,2026-03-05T09:00", "NUL"),
    ],
)
def test_each_line_of_a_sheet_has_an_id_of_its_own(h: Harness, sheet: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        brought(f"id,title,at\n{sheet}\n".encode(), TO)

    assert book.count() == 0


def test_a_file_for_a_zone_that_is_not_there_is_refused(h: Harness) -> None:
    for content in (b"title,say\nOne,tomorrow at 9:00\n", CALENDAR):
        with pytest.raises(UsageError, match="there is no zone 'Mars'"):
            brought(content, {**TO, "zone": "Mars"})


def test_more_than_can_be_brought_at_once_is_refused(h: Harness) -> None:
    with pytest.raises(UsageError, match="at most 2000"):
        brought(b"title,cron\n" + b"x,0 9 * * *\n" * 2001, TO)


@pytest.mark.parametrize(
    ("cron", "rule"),
    [
        ("0 9 * * MON-FRI", "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=9;BYMINUTE=0;BYSECOND=0"),
        ("30 8,17 * * *", "FREQ=DAILY;BYHOUR=8,17;BYMINUTE=30;BYSECOND=0"),
        ("0 9 1,15 * *", "FREQ=MONTHLY;BYMONTHDAY=1,15;BYHOUR=9;BYMINUTE=0;BYSECOND=0"),
        ("0 9 24 12 *", "FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=24;BYHOUR=9;BYMINUTE=0;BYSECOND=0"),
        ("0 9 * * 0,6", "FREQ=WEEKLY;BYDAY=SU,SA;BYHOUR=9;BYMINUTE=0;BYSECOND=0"),
        ("*/20 8 * * *", None),
        ("0 9 1 * MON", None),
        ("0 9 L * *", None),
        ("@daily", None),
        ("0 9 * * FRI-MON", None),
    ],
)
def test_a_rule_of_cron_has_one_of_a_calendar_or_none(cron: str, rule: str | None) -> None:
    assert rrule_of(cron) == rule


def test_files_go_in_and_out_by_the_api(h: Harness, t: Twins) -> None:
    web = Web(h)
    remind(title="Stretch", cron="0 9 * * *")

    sheet = web.call("GET", "/api/reminders/export.csv")
    calendar = web.call("GET", "/api/reminders/export.ics")
    assert sheet.headers["content-type"].startswith("text/csv")
    assert b"BEGIN:VEVENT" in calendar.content
    path = "/api/reminders/import?email=ada@demo.example"
    headers = {"authorization": f"Bearer {web.secret}"}
    answer = web.program.post(path, content=CALENDAR, headers=headers)
    assert answer.json() == {"made": 3, "known": 0, "over": 1}
    assert web.program.post(path, content=b"x", headers=headers).status_code == 400


def test_one_curl_makes_a_reminder(h: Harness, t: Twins) -> None:
    web = Web(h)
    headers = {"authorization": f"Bearer {web.secret}"}
    headers["content-type"] = "application/x-www-form-urlencoded"  # what `curl -d` says
    line = "stretch every weekday 9:00 Europe/Zurich to ada@demo.example"

    answer = web.program.post("/remind", content=line, headers=headers)

    assert answer.status_code == 201
    assert (answer.json()["title"], answer.json()["zone"]) == ("Stretch", "Europe/Zurich")
    for wrong in ("stretch soon", "stretch at 9:00", "", "x" * 3000):
        refused = web.program.post("/remind", content=wrong, headers=headers)
        assert refused.status_code in {400, 413}
    assert book.count() == 1


def test_a_line_is_previewed_across_a_change_of_the_clock_and_makes_nothing(
    h: Harness, t: Twins
) -> None:
    line = "stretch every friday and sunday at 9:00 from 27 march to ada@demo.example"

    found = Web(h).call("POST", "/api/reminders/preview", {"say": line, "zone": "Europe/London"})

    assert [(each["at"], each["turned"]) for each in found.json()["next"]][:3] == [
        ("2026-03-27T09:00:00+00:00", False),
        ("2026-03-29T09:00:00+01:00", True),
        ("2026-04-03T09:00:00+01:00", False),
    ]
    assert book.count() == 0


@pytest.mark.parametrize(
    "words",
    ["0 8 * * *", "every day at 8:00", "every 3h", "in 2 days", "at 8:30", "every 3h 2 times",
     "every other monday at 8:00", "every day at 9:00 until 5 march", "every day at 7:00 from 4 march"],
)  # fmt: skip
def test_what_is_previewed_before_is_what_is_previewed_after(h: Harness, words: str) -> None:
    new = planning.said(f"stretch {words} to ada@demo.example", "UTC")

    foretold = [each.at for each in planning.marked(planning.times(new), "UTC")]

    assert foretold == book.preview(book.create(new).id, 5)
