"""Rows of every shape, for the pages that show them: made by the App's verbs, and run by its worker."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from duework import (
    Accepted,
    Adaptive,
    App,
    Channel,
    DurableObject,
    End,
    Fail,
    Next,
    Outbox,
    Page,
    Pending,
    Quota,
    Rate,
    Rejected,
    Sent,
    Tick,
)
from duework.shapes.objects.handle import Objects


@dataclass
class Letter:
    to: str
    text: str


class Post(Outbox[Letter]):
    """Takes letters to addresses, loses the reply to some, and says of the others when they are sent."""

    poll_every = "1h"
    submit_pace = Tick(50, "10s")

    async def submit(self, message: Letter, key: str) -> Accepted | Rejected | Sent:
        if message.to == "lost":
            raise TimeoutError("no reply after 10 s")
        if "@" not in message.to:
            return Rejected("not an address")
        return Sent() if message.to.startswith("now") else Accepted(handle=key)

    async def poll(self, handle: str, message: Letter) -> Pending:
        return Pending()


class Basket(DurableObject):
    """What somebody wants to buy."""

    def open(self) -> None:
        self.sql("create table if not exists item (name text primary key, count integer)")

    def put(self, name: str) -> None:
        self.sql("insert into item values (:name, 1) on conflict do nothing", name=name)
        self.set_alarm("2h")

    async def alarm(self) -> None: ...


async def send_mail(to: str) -> None: ...


async def send_hook(to: str) -> None:
    if to == "lost":
        raise TimeoutError("connection reset after 1.2 s, the body was sent")
    if to == "gone":
        raise Fail("410: the webhook is gone")


class Shapes:
    """An App that has one of each."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.quota = Quota("strava", windows={"15m": 100, "1d": 1000}, reserve=5)
        self.fetch = app.task(name="fetch", pace=self.quota)(self._nothing)
        self.enrich = app.task(name="enrich", pace=Adaptive(), queue="crawl")(self._nothing)
        self.lookup = app.task(name="lookup", pace=Rate("6/1h", name="github"))(self._nothing)
        self.check = app.task(name="check")(self._picky)
        self.report = app.task(name="report")(self._report)
        self.sync = app.chain(name="activities", page_size=10, key="athlete:{athlete}")(self._page)
        self.notify = app.delivery(
            name="notify",
            channels={"email": Channel(send_mail), "discord": Channel(send_hook, unsure="skip")},
        )(self._chosen)
        self.mail = app.outbox("email", Post())
        app.queue("crawl", concurrency=4)
        app.wiring.find(Objects).know(Basket)

    @staticmethod
    async def _nothing(number: int) -> None: ...

    @staticmethod
    async def _picky(number: int) -> str:
        if number % 9 == 4:
            raise ValueError(f"502 Bad Gateway for user {number}")
        return "ok"

    @staticmethod
    async def _report() -> str:
        return "sent"

    @staticmethod
    def _chosen(to: str) -> dict[str, str]:
        return {"email": "ada", "discord": to}

    @staticmethod
    async def _page(page: Page, athlete: int) -> Next | End:
        if athlete == 13 and page.number == 3:
            raise Fail("403: the token was revoked")
        page.expect(60, of="fetched")
        if page.number >= 6:
            return End(counts={"fetched": 10, "races": 2}, quota={"left": 35})
        delay = "30m" if athlete == 18 and page.number == 3 else None
        left = {"left": 95 - 10 * page.number}
        return Next(
            cursor=page.number * 10, counts={"fetched": 10, "races": 3}, quota=left, delay=delay
        )

    def plan(self) -> None:
        """Schedules of every kind."""
        app = self.app
        app.schedule(
            self.report, key="hourly", cron="0 * * * *", owner="ops", why="the hourly report"
        )
        app.schedule(self.report, key="london", cron="30 1 * * *", tz="Europe/London", owner="ops")
        app.schedule(self.report, key="often", every="1m")
        app.schedule(self.report, key="weekly", rrule="FREQ=WEEKLY;BYDAY=WE", tz="Europe/London")
        app.schedule(self.report, key="nightly", cron="10 2 * * *").pause()
        for _ in range(3):
            app.get_schedule("hourly").fire_now()
            app.get_schedule("often").fire_now()

    def seed(self) -> dict[str, Any]:
        """Some of everything, and where it is."""
        app = self.app
        self.plan()
        batch = app.batch(self.check, range(120), name="hourly 14:00", then=self.report)
        for athlete in (7, 13, 18):
            self.sync.start(athlete=athlete)
        deliveries = [self.notify.enqueue(to).id for to in ("ada", "lost", "gone", "lost")]
        for to in ("now@example.org", "ada@example.org", "nobody", "lost", "bob@example.org"):
            self.mail.using(key=f"order-{to}").enqueue(Letter(to, "hello"))
        for key in ("acme", "globex", "مرحبا 🎈"):
            app.object(Basket, key).put("apples").result()
        self.fetch.enqueue_many([(number,) for number in range(110)])
        self.lookup.enqueue_many([(number,) for number in range(8)])
        self.enrich.enqueue_many([(number,) for number in range(60)])
        asyncio.run(app.worker().run_until_idle())
        waiting = app.batch(self.check.using(delay="1h"), range(40), name="tomorrow")
        [message] = app.outboxes.messages("email", state="unsure", limit=1)
        [chain] = [each for each in app.chains() if each.key == "athlete:18"]
        return {
            "batch": batch.id,
            "open_batch": waiting.id,
            "chain": chain.id,
            "delivery": deliveries[1],
            "message": message.id,
        }
