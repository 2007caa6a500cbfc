"""An object that starts others with its commit, with the process lost before every statement in turn."""

from __future__ import annotations

from typing import Any

from duework import DurableObject, End, Outbox, Page, Run, Sent
from duework.shapes.objects.handle import Objects
from duework.testing import Harness
from tests.crash.test_crash import WRITE, effects, h, in_every_call, settle_down

__all__ = ["h"]


class Quiet(Outbox[str]):
    async def submit(self, message: str, key: str) -> Sent:
        return Sent()


class Order(DurableObject):
    made: Any = None

    def open(self) -> None:
        self.sql("create table if not exists line (what text)")

    def place(self, what: str) -> None:
        mail, sync, remind = type(self).made
        self.sql("insert into line values (:what)", what=what)
        self.submit(mail.using(key=what), what)
        self.start(sync, what)
        self.schedule(remind, every="5s", count=1, args=(what,), key=what)
        self.publish("ordered", what)

    def lines(self) -> list[str]:
        return [row.what for row in self.sql("select what from line order by rowid")]


def test_an_object_and_what_it_starts_agree_whenever_the_process_is_lost(h: Harness) -> None:
    @h.app.chain()
    async def sync(page: Page, what: str) -> End:
        page.run.write(WRITE, job=page.run.job.id, what=f"synced {what}")
        return End()

    @h.app.task
    async def remind(run: Run, what: str) -> None:
        run.write(WRITE, job=run.job.id, what=f"remind {what}")

    mail = h.app.outbox("mail", Quiet())
    Order.made = (mail, sync, remind)

    def begin() -> list[str]:
        with h.app.transaction() as tx:
            for table in ("outbox", "page", "chain", "schedule", "event"):
                tx.write(f"delete from duework_{table}")
        h.app.wiring.find(Objects).forget()
        return []

    def act(answered: list[str]) -> None:
        for what in ("apple", "pear"):
            h.app.object(Order, "x").place(what).result()
            answered.append(what)

    def check(answered: list[str]) -> None:
        h.app.wiring.find(Objects).forget()
        lines = h.app.object(Order, "x").lines().result()
        assert lines[: len(answered)] == answered
        assert sorted(each.key or "" for each in mail.messages("queued")) == lines
        assert sorted(each.payload for each in h.app.events.search()) == lines
        settle_down(h)
        expected = [f"{word} {what}" for what in lines for word in ("synced", "remind")]
        assert sorted(effects(h)) == sorted(expected)

    in_every_call(h, begin, act, check, floor=20)
