"""A day of streaks in virtual time: 1,000 people, upstreams of which a tenth fails, and workers that die.

Every person is checked in a process of its own and told by two channels. What became of each message is
compared with what Discord and Telegram really got.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from duework import App, http
from duework.testing import Harness
from proof.section import Result, Scale, Section, tell
from systems.streaks import channels
from systems.streaks.part import part
from systems.streaks.people import Wishes, add
from systems.streaks.promises import promises
from systems.streaks.seed import BOT, ZONES
from systems.streaks.settings import Settings
from systems.twins import Twins, twins

BEGIN = "2026-03-04T00:05:00+00:00"
PEOPLE: dict[Scale, int] = {"short": 50, "full": 1000}
# Over how many hours they are spread.
HOURS: dict[Scale, int] = {"short": 3, "full": 24}
KILLS: dict[Scale, int] = {"short": 4, "full": 20}
QUARTER, HOUR, DAY = 900_000, 3_600_000, 86_400_000
CHANNELS = ("discord", "telegram")
# A tenth of the calls of each, in three ways.
GITHUB_FAULTS = [
    {"route": "graphql", "calls": "4%", "do": "status", "status": 502},
    {"route": "graphql", "calls": "3%", "do": "drop_before"},
    {"route": "graphql", "calls": "3%", "do": "drop_after"},
]
SEND_FAULTS: list[dict[str, Any]] = [
    {"calls": "4%", "do": "drop_after"},
    {"calls": "3%", "do": "status", "status": 500},
    {"calls": "3%", "do": "drop_before"},
]
STATES = ("sent", "unsure", "failed", "skipped")
# A person has a budget of time alone: nobody's runs out, however many they are.
TOO_LONG = "it ran longer than its timeout"


class Evening:
    """The people, the upstreams and a worker."""

    def __init__(self, h: Harness, t: Twins, seed: int, hours: int) -> None:
        self.hours = hours
        self.h, self.t, self.draw = h, t, random.Random(seed)
        self.kills = 0

    def fill(self, count: int) -> None:
        for number in range(1, count + 1):
            self._known(number)
            zone = ZONES[number % len(ZONES)]
            wishes = Wishes(
                zone=zone,
                hour=hour_in(zone, self.h.now + (1 + number % self.hours) * HOUR),
                token=f"ghp_user{number:04}",
                discord=f"{_hook(number)}/token-{number:04}",
                telegram_token=BOT,
                telegram_chat=str(_chat(number)),
            )
            with self.h.app.transaction() as tx:
                add(tx, f"person-{number:04}", wishes, now=self.h.now)

    def _known(self, number: int) -> None:
        login = f"person-{number:04}"
        self.t.github.add_user(login, invented=True)
        self.t.github.add_token(f"ghp_user{number:04}", login)
        self.t.discord.add_hook(str(_hook(number)), f"token-{number:04}")
        self.t.telegram.add_chat(_chat(number))

    def live(self, kills: int) -> None:
        """A quarter of an hour at a time; in some of them a worker dies at some statement."""
        # As long as it takes until the last hour has come, and no second day of anybody.
        quarters = self.hours * 4
        doomed = set(self.draw.sample(range(quarters), min(quarters, kills * 2)))
        for quarter in range(quarters):
            tell("quarters of an hour", quarter, quarters)
            end = self.h.now + QUARTER
            due = self.h.drain()
            if quarter in doomed and self.kills < kills and due <= end:
                self.h.clock.move_to(due)
                self.kills += self.h.crash_worker(at=self.draw.randrange(1, 60))
            self.h.advance((end - self.h.now) / 1000)
        with self.h.app.transaction() as tx:
            # The next day is another one.
            tx.write("update streaks_person set next_at = :later", later=self.h.now + 365 * DAY)
        self.h.advance("2h")

    def judge(self, result: Result, people: int) -> None:
        planned = people * len(CHANNELS)
        found = {(each.person, each.channel): each for each in promises(self.h.app)}
        errors = {job.arguments["person"]: job.error for job in self._ended_badly()}
        rows = self.h.app.read("select id, login from streaks_person")
        got = self._received()
        for row in rows:
            for channel in CHANNELS:
                promise = found.get((row.id, channel))
                state = "skipped" if promise is None else promise.state
                result.count(state)
                self._judge_one(result, row, channel, promise, got, errors.get(row.id))
        strangers = got.keys() - {
            (each.channel, each.address, each.text) for each in found.values()
        }
        result.violations.extend(f"nobody promised {each}" for each in sorted(strangers))
        total = sum(int(result.counts.get(state, 0)) for state in STATES)
        if total != planned or len(rows) != people:
            result.violations.append(f"{planned} were planned, {total} are accounted for")
        result.counts["planned"] = planned
        result.counts["messages at receivers"] = sum(got.values())

    def _ended_badly(self) -> Iterator[Any]:
        for phase in ("failed", "cancelled"):
            yield from self.h.app.jobs(task="streaks.check", phase=phase, limit=1000)

    def _judge_one(
        self, result: Result, row: Any, channel: str, promise: Any, got: Counter[Any], why: Any
    ) -> None:
        name = f"{row.login} by {channel}"
        if promise is None:
            if not why:
                result.violations.append(f"{name}: nothing was promised, and nobody says why")
            elif why.startswith(TOO_LONG):
                result.violations.append(f"{name}: {why}")
            return
        copies = got[channel, promise.address, promise.text]
        wanted = {"sent": {1}, "unsure": {0, 1}, "failed": {0}}.get(promise.state, set())
        if copies not in wanted:
            result.violations.append(f"{name}: {promise.state}, {copies} at the receiver")
        if promise.state in {"failed", "unsure"} and not promise.error:
            result.violations.append(f"{name}: {promise.state} without a reason")

    def _received(self) -> Counter[Any]:
        got = Counter(
            ("discord", str(e["hook"]), e["content"]) for e in self.t.discord.ledger.of("message")
        )
        got.update(
            ("telegram", str(e["chat"]), e["text"]) for e in self.t.telegram.ledger.of("message")
        )
        return got


def hour_in(zone: str, ms: int) -> int:
    return datetime.fromtimestamp(ms / 1000, ZoneInfo(zone)).hour


def _hook(number: int) -> int:
    return 1_200_000_000_000_000_000 + number


def _chat(number: int) -> int:
    return 700_000 + number


@contextmanager
def evening(seed: int, hours: int) -> Iterator[Evening]:
    app = App(processes=4)
    app.include(part)
    before: Settings = part.settings
    with Harness(app, now=BEGIN) as h, twins(h.clock, "github", "discord", "telegram") as t:
        part._settings = Settings(
            github_url=t.github.url, discord_url=t.discord.url, telegram_url=t.telegram.url
        )
        t.github.faults.set(GITHUB_FAULTS, seed)
        t.discord.faults.set([{"route": "execute", **each} for each in SEND_FAULTS], seed)
        t.telegram.faults.set([{"route": "bot", **each} for each in SEND_FAULTS], seed)
        try:
            yield Evening(h, t, seed, hours)
        finally:
            part._settings = before


def run(scale: Scale, seed: int) -> Result:
    result = Result(seed=seed)
    people = PEOPLE[scale]
    with evening(seed, HOURS[scale]) as made:
        made.fill(people)
        made.live(KILLS[scale])
        made.judge(result, people)
        result.counts["people"] = people
        result.counts["workers that died"] = made.kills
    result.floors = {
        "sent": people,
        "unsure": people // 50,
        "workers that died": KILLS[scale] // 2,
    }
    result.planted["a lost reply is sent again"] = _finds_twice(seed)
    result.not_promised.append(
        "Discord and Telegram take no key: a message whose reply was lost, or in whose send the worker"
        " died, is unsure. It is not sent again, so it may be missing."
    )
    return result


def _finds_twice(seed: int) -> bool:
    """The section must say that messages are there twice."""
    found, send = Result(), channels._discord

    async def wrong(hook: str, text: str, tone: str) -> Any:
        try:
            return await send(hook, text, tone)
        except http.LostReply as lost:
            raise http.HttpError(str(lost)) from None

    channels._discord = wrong
    try:
        with evening(seed, 1) as made:
            made.t.discord.faults.set([{"route": "execute", "calls": "1..4", "do": "drop_after"}])
            made.fill(6)
            made.live(0)
            made.judge(found, 6)
    finally:
        channels._discord = send
    return any("at the receiver" in each for each in found.violations)


SECTION = Section(
    name="day",
    title="A day of streaks",
    promise=(
        "Of everything that is planned for a day, sent, unsure, failed and skipped are all there is; no"
        " person gets two messages of a day by one channel, and whatever counts as sent was received once."
    ),
    run=run,
)
