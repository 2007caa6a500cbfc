"""What an object starts with its commit beside jobs, and how tasks call objects."""

from __future__ import annotations

from typing import Any

import pytest

from duework import (
    App,
    Conflict,
    DurableObject,
    End,
    Event,
    NotFound,
    Outbox,
    Page,
    Run,
    Sent,
    UsageError,
)
from duework.testing import Harness

Made = dict[str, Any]


class Letters(Outbox[str]):
    def __init__(self, sent: list[str]) -> None:
        self.sent = sent

    async def submit(self, message: str, key: str) -> Sent:
        self.sent.append(message)
        return Sent()


class Trip(DurableObject):
    """Asks for one of each kind with its own row."""

    made: Made

    def open(self) -> None:
        self.sql("create table if not exists leg (name text)")

    def book(self, name: str, *, key: str = "", fail: bool = False) -> int:
        made = type(self).made
        self.sql("insert into leg values (:name)", name=name)
        self.submit(made["mail"].using(key=key or f"mail:{name}"), name)
        self.start(made["sync"], name)
        self.schedule(made["remind"], every="1h", args=(name,), key=f"remind:{name}")
        if fail:
            raise ValueError("no seat")
        return len(self.legs())

    def cancel(self) -> None:
        self.submit(type(self).made["mail"], f"{self.key} is off")
        self.delete()

    def legs(self) -> list[str]:
        return [row.name for row in self.sql("select name from leg order by rowid")]

    def book_once(self, key: str, name: str) -> list[str]:
        if key not in self.legs():
            self.sql("insert into leg values (:name)", name=key)
        return self.legs()

    async def wrong(self) -> None:
        self.submit(type(self).made["mail"], "no")


@pytest.fixture
def done(harness: Harness) -> list[str]:
    done: list[str] = []
    app = harness.app
    letters = Letters(done)

    @app.chain()
    async def sync(page: Page, name: str) -> End:
        done.append(f"synced {name}")
        return End()

    @app.task
    async def remind(name: str) -> None:
        done.append(f"remind {name}")

    Trip.made = {"mail": app.outbox("mail", letters), "sync": sync, "remind": remind}
    return done


def test_an_object_its_message_its_chain_and_its_schedule_are_one_commit(
    harness: Harness, done: list[str]
) -> None:
    trip = harness.app.object(Trip, "rome")

    with pytest.raises(ValueError, match="no seat"):
        trip.book("AZ9", fail=True).result()
    harness.advance("2h")
    assert done == []
    assert trip.legs().result() == []

    assert trip.book("AZ1").result() == 1
    harness.advance("1h")
    assert sorted(done) == ["AZ1", "remind AZ1", "synced AZ1"]
    assert [each.key for each in harness.app.schedules()] == ["remind:AZ1"]


def test_what_one_of_them_refuses_undoes_the_whole_call(harness: Harness, done: list[str]) -> None:
    trip = harness.app.object(Trip, "rome")
    trip.book("AZ1", key="k").result()

    with pytest.raises(Conflict, match="another body"):
        trip.book("AZ2", key="k").result()
    harness.drain()

    assert trip.legs().result() == ["AZ1"]
    assert sorted(done) == ["AZ1", "synced AZ1"]
    assert [each.key for each in harness.app.schedules()] == ["remind:AZ1"]


def test_an_object_that_goes_sends_its_last_message(harness: Harness, done: list[str]) -> None:
    trip = harness.app.object(Trip, "rome")
    trip.book_once("a", "a").result()

    trip.cancel().result()
    harness.drain()

    assert done == ["rome is off"]
    with pytest.raises(NotFound):
        trip.info()


def test_an_async_method_is_told_to_call_a_sync_one(harness: Harness, done: list[str]) -> None:
    with pytest.raises(UsageError, match=r"self\.submit is for those"):
        harness.app.object(Trip, "rome").wrong().result()


@pytest.mark.parametrize("verb", ["submit", "start", "schedule", "enqueue", "set_alarm"])
def test_a_class_that_hides_a_verb_of_every_object_is_refused(verb: str) -> None:
    made = type("Odd", (DurableObject,), {verb: lambda self: None})

    with pytest.raises(UsageError, match=f"Odd.{verb}: that is a verb of every object"):
        App("sqlite:///never-opened.db").object(made, "x")


def test_a_task_calls_an_object_and_its_calls_are_commits_of_their_own(
    harness: Harness, done: list[str]
) -> None:
    app = harness.app
    seen: list[Any] = []

    @app.task(retries=1, backoff="1m")
    async def visit(run: Run, key: str) -> list[str]:
        legs: list[str] = await run.object(Trip, key).book_once(run.key, "x")
        seen.append(legs)
        if run.attempt == 1:
            raise ValueError("after the call")
        return legs

    @app.task
    def look(run: Run, key: str) -> list[str]:
        legs: list[str] = run.object(Trip, key).legs().result()
        return legs

    job = visit.enqueue("rome")
    harness.drain()
    looked = look.enqueue("rome")
    harness.advance("1m")

    # It was not undone by the failure, and the retry made it once more, under the same key.
    assert seen == [[f"visit:{job.id}"]] * 2
    assert looked.refresh().result == job.refresh().result == [f"visit:{job.id}"]


class Door(DurableObject):
    """Says what happens to it."""

    def open(self) -> None:
        self.sql("create table if not exists opened (who text)")

    def enter(self, who: str, *, fail: bool = False) -> None:
        self.sql("insert into opened values (:who)", who=who)
        self.publish("entered", {"door": self.key, "who": who})
        if fail:
            raise ValueError("locked")

    def close(self) -> None:
        self.publish("closed", self.key)
        self.delete()

    def say(self, event: str) -> None:
        self.publish(event)

    async def wrong(self) -> None:
        self.publish("entered")


def test_an_object_publishes_with_its_commit_or_not_at_all(harness: Harness) -> None:
    seen: list[Any] = []

    @harness.app.on("entered")
    async def greet(event: Event) -> None:
        seen.append(event.payload)

    door = harness.app.object(Door, "front")
    with pytest.raises(ValueError, match="locked"):
        door.enter("ada", fail=True).result()
    with pytest.raises(UsageError, match="an event's name"):
        harness.app.object(Door, "back").say("not a name").result()
    with pytest.raises(UsageError, match="sync methods"):
        door.wrong().result()
    harness.drain()
    assert (seen, harness.app.events.search()) == ([], [])

    door.enter("grace").result()
    door.close().result()
    harness.drain()

    assert seen == [{"door": "front", "who": "grace"}]
    assert [each.name for each in harness.app.events.search()] == ["closed", "entered"]
