"""What people see: what is coming, what failed and why, and what was sent."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Literal
from zoneinfo import ZoneInfo

import msgspec
from markupsafe import Markup

from duework import Fail, Template, Upload, UsageError, http
from systems.reminders import attempts, book, channels, endpoints, log, planning
from systems.reminders.links import job_of
from systems.reminders.part import part, settings
from systems.reminders.routes import LARGEST, brought
from systems.reminders.rules import Change, NewReminder, known_zone
from systems.reminders.week import DAYS, week
from systems.reminders.words import read_when

DAY_MS = 86_400_000
SHOWN = 50


class View(msgspec.Struct, kw_only=True, frozen=True):
    range: Literal["today", "week", "all"] = "today"


class Say(msgspec.Struct, kw_only=True, frozen=True):
    """The form: what, when, and to whom."""

    title: str = ""
    when: str = ""
    email: str | None = None
    endpoint: str | None = None
    zone: str = "UTC"
    quiet: str | None = None
    repeat: str | None = None


class Usual(msgspec.Struct, kw_only=True, frozen=True):
    """What holds for the entries of a file that say nothing of it."""

    email: str | None = None
    endpoint: str | None = None
    zone: str | None = None


class Edited(msgspec.Struct, kw_only=True, frozen=True):
    """The form of one reminder; an empty time leaves the old one."""

    title: str
    text: str = ""
    when: str = ""
    zone: str = "UTC"
    email: str | None = None
    quiet: str | None = None
    repeat: str | None = None


class NewReceiver(msgspec.Struct, kw_only=True, frozen=True):
    name: str = ""
    url: str = ""
    contact: str | None = None


class Length(msgspec.Struct, kw_only=True, frozen=True):
    length: str = "10m"


class Address(msgspec.Struct, kw_only=True, frozen=True):
    url: str = ""


@part.page("/", title="Reminders", icon="reminders", live=("reminders", "jobs"))
def front(query: View) -> Template:
    now = part.app.now()
    until = {"today": _midnight(now), "week": now + DAYS * DAY_MS, "all": None}[query.range]
    coming = book.coming(until=until, limit=SHOWN)
    return Template(
        "reminders.html",
        range=query.range,
        count=book.count(),
        first=book.coming(limit=1),
        coming=coming,
        more=len(coming) == SHOWN,
        today=_today(now),
        failed=log.failed(limit=10),
        retrying=log.retrying(limit=10),
        attempts=log.attempts_in_all(),
        fires=log.recent(limit=20),
        endpoints=endpoints.every(),
        off=[each for each in endpoints.every() if each.state == "off"],
        week=Markup(week(_week(now))),  # noqa: S704 - made of numbers and names of days
        local=_local,
    )


@part.page("/reminder/{id}", title="A reminder", live=("reminders", "jobs"))
def one(id: str) -> Template:  # noqa: A002 - the path's own word
    found = book.find(id)
    return Template(
        "reminder.html",
        reminder=found,
        following=_following(id, found.zone),
        fires=log.recent(reminder=id, limit=20),
        attempts=log.attempts_in_all(),
        local=_local,
    )


@part.page("/endpoints", title="Endpoints", icon="out", live=("reminders", "jobs"))
def receivers() -> Template:
    return Template(
        "endpoints.html",
        endpoints=endpoints.every(),
        calls=attempts.recent(limit=30),
        most=settings().disable_after,
    )


@part.action("/add")
def add(form: Say) -> str:
    zone = known_zone(form.zone)
    made = book.create(
        NewReminder(
            title=form.title[:200],
            email=form.email or None,
            endpoint=form.endpoint or None,
            zone=zone,
            quiet=form.quiet,
            repeat=form.repeat,
            **read_when(form.when, zone, part.app.now()),
        )
    )
    return f"{made.title}: first on {_local(made.next_fire_at, made.zone)}"


@part.action("/import", max_body=LARGEST)
def bring(form: Usual, file: Upload) -> str:
    """A table or a calendar; a commit of all of it, so what the page says then has happened."""
    usual = {name: value for name, value in msgspec.structs.asdict(form).items() if value}
    with file.open() as content:
        found = brought(content.read(), usual)
    more = f", {found.known} were there already" if found.known else ""
    over = f", {found.over} are over and left out" if found.over else ""
    return f"{file.name}: {found.made} made{more}{over}"


@part.action("/reminder/{id}/snooze")
def snooze(id: str, form: Length) -> str:  # noqa: A002
    made = book.snooze(id, form.length)
    return f"{made.title}: next on {_local(made.next_fire_at, made.zone)}"


@part.action("/reminder/{id}/send-now")
def send_now(id: str) -> str:  # noqa: A002
    book.send_now(id)
    return "It is being sent"


@part.action(
    "/reminder/{id}/delete", confirm="Delete this reminder? What was sent stays in the log."
)
def delete(id: str) -> str:  # noqa: A002
    book.delete(id)
    return "The reminder is deleted"


@part.action("/reminder/{id}/edit")
def edit(id: str, form: Edited) -> str:  # noqa: A002
    zone = known_zone(form.zone)
    times = read_when(form.when, zone, part.app.now()) if form.when.strip() else {}
    made = book.edit(
        id,
        Change(
            title=form.title[:200],
            text=form.text[:5000],
            zone=zone if times else None,
            email=msgspec.UNSET if form.email is None else form.email,
            quiet=form.quiet,
            repeat=form.repeat,
            **times,
        ),
    )
    return f"{made.title}: next on {_local(made.next_fire_at, made.zone)}"


@part.action("/reminder/{id}/done")
def done(id: str) -> str:  # noqa: A002
    return "It is done" if book.done(id) else "It did not wait for that"


@part.page("/done/{token}", title="Done", auth="public", nav=False)
def done_page(token: str) -> Template:
    """What a link in a mail leads to; looking at it changes nothing, since mail programs look, too."""
    return Template("done.html", fire=log.find(job_of(token)), token=token)


@part.action("/done/{token}/confirm", auth="public")
def confirm_done(token: str) -> str:
    return f"{book.done_by_link(job_of(token)).title} is done"


@part.action("/fires/{job}/replay")
async def replay(job: int) -> str:
    try:
        return f"It was answered {await channels.replay(job)}"
    except (http.HttpError, Fail) as error:
        raise UsageError(f"no answer: {error}") from None


@part.action("/fires/{job}/redrive")
def redrive(job: int) -> str:
    log.redrive(job)
    return "What had failed is being sent again"


@part.action("/endpoints/{id}/change")
def change(id: str, form: Address) -> str:  # noqa: A002
    made = endpoints.change(id, url=form.url or None)
    return f"{made.name} is switched on"


@part.action("/endpoints/add")
def add_receiver(form: NewReceiver) -> str:
    made = endpoints.create(form.name, form.url, contact=form.contact or None)
    return f"{made.name} is made. Its secret, which is told this once: {made.secret}"


@part.action(
    "/endpoints/{id}/rotate", confirm="Make a new secret? The old one signs for a day more."
)
def rotate(id: str) -> str:  # noqa: A002
    made = endpoints.rotate(id)
    return f"The new secret of {made.name}, which is told this once: {made.secret}"


@part.action("/endpoints/{id}/test")
async def test_call(id: str) -> str:  # noqa: A002
    try:
        return f"It was answered {await channels.test_call(id)}"
    except (http.HttpError, Fail) as error:
        raise UsageError(f"no answer: {error}") from None


@part.action("/endpoints/{id}/off")
def off(id: str) -> str:  # noqa: A002
    made = endpoints.change(id, on=False)
    return f"{made.name} is switched off"


def _following(reminder: str, zone: str) -> list[tuple[str, bool]]:
    """The next times in words, and whether clocks are turned before."""
    times = [datetime.fromisoformat(each) for each in book.preview(reminder, 5)]
    turned = planning.marked([round(each.timestamp() * 1000) for each in times], zone)
    return [
        (each.strftime("%a %-d %b %Y %H:%M %Z"), mark.turned)
        for each, mark in zip(times, turned, strict=True)
    ]


def _today(now: int) -> Counter[str]:
    """How today's fires ended so far, and how many of those began late."""
    rows = part.app.read(
        "select outcome, count(*) as n, sum(case when fired_at - slot >= 60000 then 1 else 0 end)"
        " as late from reminders_history where fired_at >= :since group by outcome",
        since=_midnight(now) - DAY_MS,
    )
    found = Counter({row.outcome: int(row.n) for row in rows})
    found["late"] = sum(int(row.late) for row in rows)
    return found


def _week(now: int) -> list[tuple[str, int, int]]:
    """How many fires of each of the last seven days went out, and how many failed in part or whole."""
    start = _midnight(now) - DAYS * DAY_MS
    rows = part.app.read(
        "select (fired_at - :start) / :day as day, count(*) as n,"
        " sum(case when outcome in ('partial', 'failed') then 1 else 0 end) as bad"
        " from reminders_history where fired_at >= :start group by 1",
        start=start,
        day=DAY_MS,
    )
    found = {int(row.day): (int(row.n) - int(row.bad), int(row.bad)) for row in rows}
    names = [datetime.fromtimestamp(start / 1000 + day * 86_400, UTC) for day in range(DAYS)]
    return [(name.strftime("%a"), *found.get(day, (0, 0))) for day, name in enumerate(names)]


def _midnight(now: int) -> int:
    """The end of this day in UTC."""
    return (now // DAY_MS + 1) * DAY_MS


def _local(ms: int | None, zone: str) -> str:
    """A time on the walls where the reminder's people are."""
    if ms is None:
        return "no time"
    return datetime.fromtimestamp(ms / 1000, ZoneInfo(zone)).strftime("%a %-d %b %H:%M")
