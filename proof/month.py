"""A month of reminders in virtual time: receivers fail, lose replies and go away, workers die."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import msgspec

from duework import App
from duework.testing import Harness
from proof.section import Result, Scale, Section, tell
from systems.reminders import book, endpoints, log
from systems.reminders.part import part
from systems.reminders.promises import promises
from systems.reminders.providers import resend
from systems.reminders.rules import NewReminder
from systems.reminders.settings import Settings
from systems.reminders.words import read_when
from systems.twins import Twins, twins

# Both changes of the clock lie in these: London's and its like on 29 March, Havana's on the 8th, Lord
# Howe's and Adelaide's back on 5 April, Santiago's on 5 April, Cairo's on 24 April.
BEGIN = "2026-03-06T00:00:00+00:00"
DAYS = 31
ZONES = (
    "UTC",
    "Europe/London",
    "Europe/Berlin",
    "America/New_York",
    "America/Havana",
    "America/Santiago",
    "Australia/Lord_Howe",
    "Australia/Adelaide",
    "Asia/Kolkata",
    "Pacific/Auckland",
)
WORDS = (
    "every monday at 9:15",
    "every other friday at 2:30",
    "every month on the 20th at 8:00",
    "every 10 days at 7:30",
    "every last sunday of the month at 1:30",
    "0 12 * * SAT",
    "every sunday at 2:15",
)
COUNTS: dict[Scale, int] = {"short": 300, "full": 10_000}
MAIL_FAULTS = [
    {"route": "emails.send", "calls": "4%", "do": "drop_after"},
    {"route": "emails.send", "calls": "3%", "do": "status", "status": 500},
    {"route": "emails.send", "calls": "2%", "do": "drop_before"},
]
HOOK_FAULTS = [
    {"route": "hook", "calls": "4%", "do": "drop_after"},
    {"route": "hook", "calls": "5%", "do": "status", "status": 503},
    {"route": "hook", "calls": "3%", "do": "drop_before"},
]


class Month:
    """What was promised, what fired, and what the receivers have."""

    def __init__(self, h: Harness, t: Twins, seed: int) -> None:
        self.h, self.t, self.draw = h, t, random.Random(seed)
        self.foretold: dict[str, list[str]] = {}
        self.kills = 0

    def fill(self, count: int) -> None:
        hooks = [self._endpoint(number) for number in range(12)]
        for number in range(count):
            made = book.create(self._reminder(number, hooks), id_=f"rem_{number:05}")
            self.foretold[made.id] = book.preview(made.id, 50)

    def _endpoint(self, number: int) -> str:
        name = f"person-{number:02}"
        made = endpoints.create(name, f"{self.t.hooks.url}/hook/{name}", id_=f"ep_{number:02}")
        self.t.hooks.endpoint(name, "standard", [made.secret])
        # One is gone, and one is always down.
        self.t.hooks.answer(name, [410] if number == 0 else [503] if number == 1 else [200])
        return made.id

    def _reminder(self, number: int, hooks: list[str]) -> NewReminder:
        draw, zone = self.draw, ZONES[number % len(ZONES)]
        way = draw.choice(("email", "email", "webhook", "both"))
        facts: dict[str, Any] = {"title": f"Reminder {number}", "zone": zone}
        facts["email"] = f"p{number}@demo.example" if way != "webhook" else None
        facts["endpoint"] = draw.choice(hooks) if way != "email" else None
        if number % 3 == 0:
            day = draw.randrange(1, DAYS - 1)
            when = f"in {day} days at {draw.randrange(24)}:{draw.randrange(60):02}"
        else:
            when = WORDS[number % len(WORDS)]
        return NewReminder(**facts, **read_when(when, zone, self.h.now))

    def live(self) -> None:
        """Day after day; twice in each, a worker dies at some statement of what is due."""
        for day in range(DAYS):
            tell("days", day, DAYS)
            end = self.h.now + 86_400_000
            for _ in range(2):
                due = self.h.drain()
                if due is not None and self.h.now < due < end:
                    self.h.clock.move_to(due)
                    self.kills += self.h.crash_worker(at=self.draw.randrange(1, 30))
            self.h.advance((end - self.h.now) / 1000)

    def judge(self, result: Result) -> None:
        end = self.h.now
        self.t.resend.faults.set([])
        self.t.hooks.faults.set([])
        self.h.advance("3h")
        self._judge_slots(result, end)
        self._judge_receivers(result)

    def _judge_slots(self, result: Result, end: int) -> None:
        """Each planned time has fired once, as the preview said; what failed says why."""
        fired: dict[str, list[int]] = {}
        for fire in fires():
            if fire.slot <= end:
                fired.setdefault(fire.reminder, []).append(fire.slot)
            result.count(f"fires: {fire.outcome}")
            if fire.outcome == "failed" and not fire.error:
                result.violations.append(f"fire {fire.job} failed without a reason")
            if fire.outcome == "partial" and not all({**fire.failed, **fire.unsure}.values()):
                result.violations.append(f"a channel of fire {fire.job} failed without a reason")
        for reminder, times in self.foretold.items():
            planned = [ms for ms in map(_ms, times) if ms <= end]
            result.count("slots", len(planned))
            if sorted(fired.get(reminder, [])) != planned:
                seen = Counter(fired.get(reminder, []))
                result.violations.append(
                    f"{reminder}: foretold {planned}, fired {sorted(seen.elements())}"
                )

    def _judge_receivers(self, result: Result) -> None:
        mails = self.t.resend.ledger.counts("key", "mail")
        hooked = self.t.hooks.ledger.counts("id", "delivered")
        made = promises(self.h.app)
        for key, copies in mails.items():
            if copies > 1:
                result.violations.append(f"the mail {key} is there {copies} times")
        known = {each.key for each in made}
        strangers = (mails.keys() | hooked.keys()) - known
        result.violations.extend(f"{each} was promised by nobody" for each in sorted(strangers))
        for each in made:
            result.count(f"channels: {each.state}")
            if each.state == "sent" and each.key not in mails.keys() | hooked.keys():
                result.violations.append(f"{each.key} counts as sent, and nobody has it")
        if self.t.hooks.ledger.of("forged"):
            result.violations.append("a webhook was not signed as it must be")
        result.counts["mails at the receiver"] = len(mails)
        result.counts["webhooks at receivers, by id"] = len(hooked)
        result.counts["webhooks that came again, with their id"] = sum(hooked.values()) - len(
            hooked
        )


def fires() -> Iterator[log.Fire]:
    last = -1
    while rows := part.app.read(
        f"{log.SELECT} where h.job > :last order by h.job limit 1000", last=last
    ):
        last = rows[-1].job
        yield from (log.fire_of(row) for row in rows)


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


@contextmanager
def month(seed: int) -> Iterator[Month]:
    app = App()
    app.include(part)
    before: Settings = part.settings
    with Harness(app, now=BEGIN) as h, twins(h.clock, "resend", "hooks") as t:
        places = {"resend_url": t.resend.url, "hooks_url": t.hooks.url}
        part._settings = msgspec.structs.replace(before, **places)
        t.resend.faults.set(MAIL_FAULTS, seed)
        t.hooks.faults.set(HOOK_FAULTS, seed)
        try:
            yield Month(h, t, seed)
        finally:
            part._settings = before


def run(scale: Scale, seed: int) -> Result:
    result = Result(seed=seed)
    count = COUNTS[scale]
    with month(seed) as made:
        made.fill(count)
        made.live()
        made.judge(result)
        result.counts["reminders"] = count
        result.counts["workers that died"] = made.kills
    result.floors = {"slots": count * 2, "workers that died": 20, "fires: failed": 5}
    result.planted["a new key for every try of a mail"] = _finds_new_keys(seed)
    result.not_promised.append(
        "A webhook whose answer was lost is sent again with its id: a receiver that does not look at ids"
        " sees it twice."
    )
    return result


def _finds_new_keys(seed: int) -> bool:
    """The section must say that a mail is there twice, or that nobody promised it."""
    found, send, draw = Result(), resend.send, random.Random(seed)

    async def wrong(url: str, token: Any, mail: dict[str, Any], key: str) -> None:
        await send(url, token, mail, f"{key}-{draw.random()}")

    resend.send = wrong
    try:
        with month(seed) as made:
            made.fill(20)
            made.h.advance("10d")
            made.judge(found)
    finally:
        resend.send = send
    return bool(found.violations)


SECTION = Section(
    name="month",
    title="A month of reminders",
    promise=(
        "Each planned time fires exactly once, at the time that the preview said, through changes of the"
        " clock in ten zones; no mail is there twice; what failed says why."
    ),
    run=run,
)
