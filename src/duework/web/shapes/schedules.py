"""Schedules: what fired, what is next; fire now, pause, resume, postpone, edit with a preview, delete."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response

from duework.clock import FOREVER, as_datetime
from duework.db.database import Tx
from duework.durations import human, milliseconds
from duework.errors import UsageError
from duework.shapes.schedules.calendar import When
from duework.shapes.schedules.cron_words import cron_words
from duework.shapes.schedules.declare import Scheduling
from duework.shapes.schedules.handle import Schedule
from duework.shapes.schedules.plan import TIMES
from duework.shapes.schedules.row import Row
from duework.shapes.schedules.verbs import ScheduleVerbs
from duework.web.acts import acted, ask, sure
from duework.web.drawn.fires import RANGES, RESULTS, Fired, Strip, around_turn, lately, with_turns
from duework.web.filters import at_clock, dur, zone_of
from duework.web.lists import PAGE, address, required, show, text
from duework.web.regions import regions
from duework.web.table import NavItem, OwnPage
from duework.web.visits import Undo, Visit

# A strip moves on, though nothing is written.
STRIP_SECONDS = 30.0
# So many are drawn: the table below has all.
STRIP = 12
# What a form calls them, and what a schedule does: `why` is what every form says of itself.
FIELDS = {"tz": "tz", "missed": "missed", "overlap": "overlap", "owner": "owner", "purpose": "why"}


def schedules(visit: Visit) -> Response:
    """By key, with a strip of what was fired and what comes."""
    over = visit.asked("range") or "24h"
    if over not in RANGES:
        raise HTTPException(400, f"A range is one of {', '.join(RANGES)}.")
    prefix, after = text(visit, "prefix"), text(visit, "after")
    found = visit.app.schedules(prefix, after=after, limit=PAGE + 1)
    shown, now = found[:PAGE], visit.app.now()
    with visit.app.wiring.engine.database.reading() as tx:
        past = lately(tx, now)
    strip = Strip(now, over, visit.zone)
    visit.again = STRIP_SECONDS if shown else None

    def here(**more: str) -> str:
        asked = {"range": "" if over == "24h" else over, "prefix": prefix, **more}
        return address(visit.base, "/schedules", **asked)

    active = [each for each in shown if each.state == "active"]
    failing = {each.key for each in shown if _failing(past.of(each.key))}
    drawn = sorted(shown, key=lambda each: (each.key not in failing, each.due or FOREVER))
    return show(
        *(visit, "schedules.html"),
        rows=shown,
        late=[each for each in active if (each.due or now) < now - visit.app.wiring.late_ms],
        paused=[each for each in shown if each.state == "paused"],
        going=len(active),
        failing=failing,
        next=min(active, key=lambda each: each.due or 0, default=None),
        axis=strip.axis(),
        strip=drawn[:STRIP],
        tracks={each.key: strip.row(each, past.of(each.key)) for each in drawn[:STRIP]},
        results={each.key: past.of(each.key)[RESULTS - 1 :: -1] for each in shown},
        fires=lambda each: _fires(visit, each),
        five=lambda each: _five(visit, each),
        ranges=[(f"{each[:-1]} {each[-1]}", here(range=each), each == over) for each in RANGES],
        filters=[("prefix", "Keys that begin with", prefix)],
        kept=[("range", over)] if over != "24h" else [],
        chosen=[("prefix", prefix, here(prefix=""))] if prefix else [],
        newest=here() if after else "",
        older=here(after=shown[-1].key) if len(found) > PAGE else "",
        order="By key",
    )


def _failing(fires: Sequence[Fired]) -> bool:
    """Whether the newest that has ended did not end well."""
    return bool(fires) and fires[0].glyph == "failed"


def _fires(visit: Visit, schedule: Schedule) -> tuple[str, str]:
    """When it fires, in words, and the zone that these are in; none where they are in the viewer's."""
    if schedule.kind == "at":
        return f"once, {at_clock(schedule.start, visit.app.now(), visit.zone)}", ""
    if schedule.kind == "every":
        return f"every {dur(int(schedule.rule))}", ""
    words = cron_words(schedule.rule) if schedule.kind == "cron" else f"rrule {schedule.rule}"
    return words, schedule.tz


def _five(visit: Visit, schedule: Schedule) -> str:
    """The next times in the viewer's zone: those of one day without it."""
    words: list[str] = []
    day = None
    for each in schedule.next(5):
        here = each.astimezone(visit.zone)
        words.append(
            f"{here:%H:%M}" if here.date() == day else f"{here:%a} {here.day} {here:%b %H:%M}"
        )
        day = here.date()
    return ", ".join(words)


def schedule(visit: Visit) -> Response:
    """One schedule: its strip, its next times in its own zone, what it fired."""
    found, now = visit.app.get_schedule(required(visit, "key")), visit.app.now()
    over = "7d" if found.kind == "at" or _gap(found) > RANGES["24h"] // 8 else "24h"
    with visit.app.wiring.engine.database.reading() as tx:
        past = lately(tx, now)
    strip = Strip(now, over, visit.zone)
    when = When(found.kind, found.rule, found.start, found.tz, found.ends)
    slots = [round(each.timestamp() * 1000) for each in found.next(5)]
    visit.again = STRIP_SECONDS
    return show(
        *(visit, "schedule.html"),
        heading=found.key,
        schedule=found,
        fires=_fires(visit, found),
        late=found.state == "active" and (found.due or now) < now - visit.app.wiring.late_ms,
        axis=strip.axis(),
        track=strip.row(found, past.of(found.key)),
        coming=with_turns(slots, found.tz),
        turning=around_turn(when, now) if found.slot is not None else [],
        fired=past.of(found.key)[:20],
        since=past.since,
    )


def _gap(found: Schedule) -> int:
    """How far its next two times are apart."""
    times = found.next(2)
    return round((times[1] - times[0]).total_seconds() * 1000) if len(times) > 1 else 0


# --- acting


def _book(
    visit: Visit, what: str, verb: Callable[[ScheduleVerbs, Tx, str], Any], said: str
) -> Response:
    key = required(visit, "key")

    def act(tx: Tx) -> str:
        answer = verb(ScheduleVerbs(visit.app.wiring.engine), tx, key)
        return answer.state if isinstance(answer, Row) else f"job {answer}"

    back = {"pause": "resume", "resume": "pause"}.get(what)
    undo = Undo(f"/schedules/{back}", [("key", key)]) if back else None
    return acted(visit, what, f"schedule {key}", act, said, undo)


def pause(visit: Visit) -> Response:
    return _book(
        visit, "pause", ScheduleVerbs.pause, "It is paused: nothing is fired until it is resumed"
    )


def resume(visit: Visit) -> Response:
    return _book(visit, "resume", ScheduleVerbs.resume, "It goes on with its next time")


def fire(visit: Visit) -> Response:
    """One job at once, beside the plan."""
    return _book(visit, "fire", ScheduleVerbs.fire_now, "Fired: {}")


def postpone(visit: Visit) -> Response:
    """Fire the next slot later; the plan stays as it is."""
    length = milliseconds(required(visit, "length"))
    return _book(
        *(visit, "postpone"),
        lambda book, tx, key: book.postpone(tx, key, length),
        f"The next fire is put off by {human(length)}",
    )


def delete(visit: Visit) -> Response:
    """Fire no more and forget it, after typing its key."""
    key = required(visit, "key")
    visit.app.get_schedule(key)
    typed = f"delete {key}"[:60]
    if not sure(visit) or (visit.sent("typed") != typed and not visit.by_program):
        return ask(
            *(visit, f"Delete schedule {key}?", "It fires no more and is forgotten."),
            effects=[
                ("failed", "The schedule and its counts are deleted"),
                ("done", "What it has fired stays"),
                ("paused", "Rather not? Pause it: it can be resumed"),
            ],
            fields=[("key", key)],
            back="/schedules",
            crumb=("/schedules", "Schedules"),
            keep="Keep it",
            button="Delete the schedule",
            typed=typed,
            wrong=f"That is not “{typed}”." if visit.sent("sure") == "yes" else "",
        )
    return _book(visit, "delete", ScheduleVerbs.delete, f"Schedule {key} is deleted")


# --- editing


def edit(visit: Visit) -> Response:
    """A form, with what it would mean: the next five times, and those around a change of the clocks."""
    found = visit.app.get_schedule(required(visit, "key"))
    given = _given(visit, found)
    coming, turning, words = [], [], ""
    try:
        when = _planned(visit, found, given)
        now = visit.app.now()
        coming = with_turns(when.upcoming(now, 5), when.tz)
        turning = around_turn(when, now)
    except UsageError as error:
        words = str(error)
    status = 400 if words and visit.request.method == "POST" else 200
    return visit.render(
        *(visit, "schedule_edit.html"),
        status=status,
        schedule=found,
        fires=_fires(visit, found),
        given=given,
        coming=coming,
        turning=turning,
        words=words,
        changed=bool(_options(found, given)),
        viewer=zone_of(given["tz"]),
    )


def _given(visit: Visit, found: Schedule) -> dict[str, str]:
    """The fields as they were sent or asked for, else as the schedule has them."""
    has = {
        "kind": found.kind,
        "rule": _rule(found),
        **{name: getattr(found, of) for name, of in FIELDS.items()},
    }
    sent = {name: text(visit, name).strip() for name in has}
    filled = bool(visit.sent("rule") or visit.asked("rule"))
    return sent if filled else has


def _rule(found: Schedule) -> str:
    if found.kind == "every":
        return human(int(found.rule))
    if found.kind == "at":
        return as_datetime(found.start).astimezone(zone_of(found.tz)).isoformat()
    return found.rule


def _options(found: Schedule, given: dict[str, str]) -> dict[str, Any]:
    """What differs, as `edit` takes it."""
    options: dict[str, Any] = {
        of: given[name] for name, of in FIELDS.items() if given[name] != getattr(found, of)
    }
    if given["kind"] not in TIMES:
        raise UsageError("a schedule is one of cron, every, rrule and at")
    if (given["kind"], given["rule"]) != (found.kind, _rule(found)):
        value: Any = given["rule"]
        if given["kind"] == "at" and value.isdigit():
            value = int(value)
        options[given["kind"]] = value
    return options


def _planned(visit: Visit, found: Schedule, given: dict[str, str]) -> When:
    """When it would fire; `UsageError` if that cannot be."""
    book, options = visit.app.wiring.find(Scheduling), _options(found, given)
    row = copy.copy(book.find_row(found.key))
    if options:
        book.edit(found.key, None, options)(row)
    return row.when


def save(visit: Visit) -> Response:
    """Change it as the form says; what cannot be is said at the form."""
    found = visit.app.get_schedule(required(visit, "key"))
    given = _given(visit, found)
    if visit.sent("preview"):
        return edit(visit)
    try:
        options = _options(found, given)
        if not options:
            return visit.redirect(visit.back("/schedules"), "Nothing was changed")
        change = visit.app.wiring.find(Scheduling).edit(found.key, None, options)
    except UsageError:
        return edit(visit)
    what = ", ".join(f"{name}={value}" for name, value in options.items())[:200]
    return _book(
        visit, f"edit {what}", lambda book, tx, key: book.edit(tx, key, change), "It is changed"
    )


LIVE = regions("schedules", strip=10.0, schedules=1.0)
ONE = regions("schedules", head=1.0, detail=1.0)
NAV = NavItem("Schedules", "schedules", "Work", key="s")
PAGES = [
    OwnPage("/schedules", schedules, live=LIVE, nav=NAV),
    OwnPage("/schedules/one", schedule, live=ONE),
    OwnPage("/schedules/edit", edit, "operate"),
    OwnPage("/schedules/edit", save, "operate", "POST"),
    OwnPage("/schedules/pause", pause, "operate", "POST"),
    OwnPage("/schedules/resume", resume, "operate", "POST"),
    OwnPage("/schedules/fire", fire, "operate", "POST"),
    OwnPage("/schedules/postpone", postpone, "operate", "POST"),
    OwnPage("/schedules/delete", delete, "admin", "POST"),
]
