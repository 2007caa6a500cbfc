"""The pages of operators: everybody with the latest batches, and one person with all there is."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from duework import Reply, Template, Transaction
from systems.streaks import people, views
from systems.streaks.channels import TOPIC, addresses, notify
from systems.streaks.part import part
from systems.streaks.people import Wishes, find
from systems.streaks.rest import AWAY, WEEKDAYS
from systems.streaks.streak import local_day, zones

PAGE = 100
LIST = """
select id, login, zone, hour, active, has_token, problem, discord_problem, telegram_problem, last_error,
discord_hook, telegram_chat, next_at,
(select streak from streaks_day where person = streaks_person.id order by day desc limit 1) as streak
from streaks_person where login_key > :after order by login_key limit :limit
"""
COUNTS = """
select count(*) as people, coalesce(sum(case when active = 0 then 1 else 0 end), 0) as paused,
coalesce(sum(case when problem is not null then 1 else 0 end), 0) as refused,
min(case when active = 1 and has_token = 1 and problem is null then next_at end) as next_at
from streaks_person
"""
LAST = """
select day, contributions, streak, weekly, at_risk from streaks_day
where person = :id order by day desc limit 1
"""


class After(msgspec.Struct):
    """Where a list goes on."""

    after: str = ""


class Form(msgspec.Struct, kw_only=True):
    """What the settings of a person send; what is empty stays as it is."""

    hour: int | None = None
    zone: str | None = None
    second_hour: str = ""
    weekly: bool = False
    token: str | None = None
    discord: str | None = None
    telegram_token: str | None = None
    telegram_chat: str | None = None
    only_at_risk: bool = False
    shown: bool = False
    days_off: list[str] = []
    away_from: str | None = None
    away_until: str | None = None

    def wishes(self) -> Wishes:
        """The same, as the rules for people take it."""
        given = msgspec.structs.asdict(self)
        return Wishes(**{**given, "days_off": ",".join(self.days_off)})


class Back(msgspec.Struct):
    """Holidays that are taken back, by their first day."""

    first: str


class NewPerson(msgspec.Struct, kw_only=True):
    """Somebody to be registered."""

    login: str
    zone: str = "UTC"
    hour: int = 20


@part.page("/", title="Streaks", icon="streaks", live=(TOPIC,))
def everybody(query: After) -> Template:
    """All people, and the batches that checked them."""
    app = part.app
    found = app.read(LIST, after=query.after.lower(), limit=PAGE + 1)
    return Template(
        "people.html",
        people=found[:PAGE],
        more=found[PAGE - 1].login if len(found) > PAGE else None,
        paged=bool(query.after),
        counts=app.read(COUNTS)[0],
        batches=[(each, each.progress()) for each in app.batches(name="streaks", limit=6)],
        now=app.now(),
        zones=zones(),
    )


@part.page("/people/{login}", live=(TOPIC,), nav=False)
def one(login: str) -> Template:
    """A person: how it stands, the last year, what was sent, settings."""
    row = find(part.app, login)
    return show(row, f"/streaks/people/{row.login}")


def show(row: Any, acts: str, *, mine: bool = False) -> Template:
    """The page of one person, for operators or the person; `acts` is where its forms go."""
    app = part.app
    person, now = row, app.now()
    last = app.read(LAST, id=person.id)
    stored = app.read("select * from streaks_calendar where person = :id", id=person.id)
    return Template(
        "person.html",
        one=person,
        acts=acts,
        mine=mine,
        verdict=views.verdict(person, last[0] if last else None, now),
        calendar=views.calendar(stored[0] if stored else None, local_day(now, person.zone)),
        longest=stored[0].longest if stored else None,
        streak=last[0].streak if last else None,
        history=views.history(app, person.id),
        hours=range(24),
        weekdays=WEEKDAYS,
        away=app.read(AWAY, id=person.id),
        zones=zones(),
        now=now,
    )


@part.action("/people")
def register(form: NewPerson, tx: Transaction) -> Reply:
    """Register somebody; tokens are put in on the person's own page."""
    wishes = Wishes(zone=form.zone, hour=form.hour)
    people.add(tx, form.login, wishes, now=part.app.now())
    return Reply(303, headers={"location": f"/streaks/people/{form.login}"})


@part.action("/people/{login}/settings")
def save(login: str, form: Form, tx: Transaction) -> str:
    """Change what was given."""
    people.change(tx, find(tx, login).id, form.wishes(), now=part.app.now())
    return "Saved"


@part.action("/people/{login}/back")
def come_back(login: str, form: Back, tx: Transaction) -> str:
    """Take holidays back."""
    people.come_back(tx, find(tx, login).id, form.first)
    return "Taken back"


@part.action("/people/{login}/pause")
def pause(login: str, tx: Transaction) -> str:
    """No more checks and messages, until they are resumed."""
    people.set_active(tx, find(tx, login).id, active=False, now=part.app.now())
    return f"{login} is paused"


@part.action("/people/{login}/resume")
def resume(login: str, tx: Transaction) -> str:
    """Go on from the next planned time."""
    people.set_active(tx, find(tx, login).id, active=True, now=part.app.now())
    return f"{login} goes on"


@part.action("/people/{login}/test")
def send_test(login: str, tx: Transaction) -> str:
    """One message by each channel, once a minute at most."""
    return enqueue_test(tx, find(tx, login))


def enqueue_test(tx: Transaction, person: Any) -> str:
    """The same, for whoever asks."""
    if not addresses(person):
        raise people.Refused("channel", "put in a Discord webhook or a Telegram chat first")
    now = part.app.now()
    here = datetime.fromtimestamp(now / 1000, ZoneInfo(person.zone))
    day = f"{here:%Y-%m-%d} test {here:%H:%M}"
    text = f"{person.login}, this is a test of {here:%a} {here.day} {here:%b %H:%M}."
    # By the minute everywhere: another zone is no way to ask more often.
    once = notify.using(key=f"{person.id}:test:{now // 60_000}", once="1h")
    tx.enqueue(once, person.id, day, text)
    return "A test message is on its way"


@part.action("/people/{login}/delete", confirm="Delete {login} with its tokens and history?")
def delete(login: str, tx: Transaction) -> Reply:
    """Nothing of the person stays."""
    people.delete(tx, find(tx, login).id)
    return Reply(303, headers={"location": "/streaks/"})
