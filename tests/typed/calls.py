"""Right calls, and wrong ones, each of which is marked: type checkers must find exactly those.

Nothing of this runs: `test_calls.py` gives it to mypy and to pyright.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, assert_type

from duework import (
    App,
    AsyncResource,
    Batch,
    Chain,
    DurableObject,
    End,
    Exponential,
    Job,
    Next,
    Outbox,
    OutboxMessage,
    Page,
    Part,
    Rate,
    Resource,
    Run,
    Schedule,
    Sent,
    Snooze,
    Transaction,
)
from duework.kernel.job import Enqueued
from duework.shapes.objects.proxy import Call, ObjectHandle

app = App("sqlite:///typed.db")
part = Part("shop")

# --- options of a task


@app.task(retries=3, backoff=("1m", "5m"), timeout="10s", pace=[Rate("5/1s")], keep=None)
async def greet(name: str) -> str:
    return f"hello {name}"


@part.task(cron="0 9 * * *", tz="Europe/London", overlap="skip", owner="ops", name="check")
def nightly() -> int:
    return 7


@app.task(backoff=Exponential(), retry_on=ValueError, give_up_on=(KeyError, OSError))
def add(run: Run, one: int, two: int, *, deep: bool = False) -> float | Snooze:
    return Snooze("1s") if deep else one + two


@app.task
def five(a: int, b: str, c: float, d: bytes, e: bool = False) -> None: ...


app.task(retry=3)  # wrong
app.task(retries="three")  # wrong
app.task(missed="never", every="1m")  # wrong
part.task(isolation="thread")  # wrong
app.task(backoff={"first": "1m"})  # wrong
app.task(retry_on="ValueError")  # wrong
app.task(pace="5/1s")  # wrong
app.task(timeout=None)  # wrong
app.task(retries=3)(7)  # wrong

# --- enqueue

assert_type(greet.enqueue("ada"), Job[str])
assert_type(greet.enqueue("ada").result, str)
assert_type(greet.enqueue("ada").value("5s"), str)
assert_type(greet.enqueue("ada").wait().result, str)
assert_type(add.enqueue(1, two=2, deep=True), Job[float | Snooze])
plain: Coroutine[Any, Any, str] = greet("ada")
assert_type(nightly(), int)
greet.enqueue(7)  # wrong
greet.enqueue()  # wrong
greet.enqueue(nam="ada")  # wrong
add.enqueue(1, 2, 3)  # wrong

# --- using

greet.using(delay="10m", key="greet:ada", priority=5, once="forever").enqueue("ada")
greet.using(after=greet.enqueue("ada"), when_running=None).using(at=7).enqueue("ada")
greet.using(dely="10m")  # wrong
greet.using(priority="high")  # wrong
greet.using(after="a job")  # wrong
greet.using(expires=object())  # wrong
greet.using(when_running="never")  # wrong
greet.using(delay="10m").enqueue(7)  # wrong

# --- many

assert_type(greet.enqueue_many([("ada",), ("bob",)]), list[Job[str]])
assert_type(greet.using(delay=1).enqueue_many((name,) for name in "ab"), list[Job[str]])
assert_type(nightly.enqueue_many([()]), list[Job[int]])
add.enqueue_many([(1, 2)])
five.enqueue_many([(1, "a", 0.5, b"")])
five.enqueue_many([(1, "a", 0.5, b"", True)])
greet.enqueue_many([(7,)])  # wrong
greet.enqueue_many(["ada"])  # wrong
greet.enqueue_many([("ada", "bob")])  # wrong
add.enqueue_many([(1, "two")])  # wrong
five.enqueue_many([(1, "a", 0.5)])  # wrong


async def many_in_async_code() -> None:
    assert_type(await greet.aenqueue("ada"), Job[str])
    assert_type(await greet.aenqueue_many([("ada",)]), list[Job[str]])
    await greet.aenqueue(7)  # wrong
    await greet.aenqueue_many([(7,)])  # wrong


# --- batches

assert_type(app.batch(greet, ["ada", "bob"], name="nightly", then=nightly, keep="7d"), Batch)
app.batch(greet, [("ada",), ("bob",)], member_key="{name}", once="2d")
app.batch(greet.using(queue="mail"), (name for name in "ab"))
app.batch(add, [(1, 2), (3, 4)])
app.batch(greet, [7])  # wrong
app.batch(add, [1, 2])  # wrong
app.batch(add, [(1, "two")])  # wrong
app.batch(greet, ["ada"], nam="nightly")  # wrong


async def batch_in_async_code() -> None:
    assert_type(await app.abatch(greet, ["ada"]), Batch)
    await app.abatch(greet, [7])  # wrong


# --- schedules

assert_type(app.schedule(nightly, every="5m"), Schedule)
app.schedule(greet, cron="0 9 * * *", args=("ada",), key="greet:ada", tz="Europe/London")
app.schedule(add, rrule="FREQ=DAILY", args=(1, 2), key="add").edit(every="1h", missed="once")
app.schedule(greet, every="5m")  # wrong
app.schedule(greet, every="5m", args=(7,), key="greet:7")  # wrong
app.schedule(nightly, evry="5m")  # wrong
app.schedule(nightly, every="5m", overlap="never")  # wrong
app.schedule(nightly, every="5m").edit(evry="1h")  # wrong

# --- chains


@app.chain(page_size=100, key="athlete:{athlete}", retries=5)
async def activities(page: Page, athlete: int) -> Next | End:
    counts = {"rows": 7}
    return Next(cursor=1, counts=counts) if page.cursor is None else End(counts=counts)


assert_type(activities.start(7), Chain)
activities.using(key="athlete:7", delay="1m").start(athlete=7)
app.chain(pagesize=100)  # wrong
activities.start("seven")  # wrong
activities.using(kee="athlete:7")  # wrong
Next(cursor=1, counts={"rows": "seven"})  # wrong

# --- outboxes


class Mail(Outbox[str]):
    async def submit(self, message: str, key: str) -> Sent:
        return Sent()


mail = app.outbox("mail", Mail())
assert_type(mail.enqueue("hello"), OutboxMessage)
mail.using(key="order-7", lane="tenant-3").enqueue("hello")
mail.enqueue(7)  # wrong
mail.using(lain="tenant-3")  # wrong

# --- objects


@app.durable
class Seat(DurableObject):
    def take(self, who: str) -> int:
        self.enqueue(greet, who)
        self.submit(mail, who)
        self.start(activities, 7)
        self.schedule(nightly, every="1h")
        self.enqueue(greet, 7)  # wrong
        self.submit(mail, 7)  # wrong
        self.start(activities, "seven")  # wrong
        self.schedule(greet, every="1h")  # wrong
        return 7

    async def alarm(self) -> None:
        assert_type(await self.run(self.take, "ada"), int)
        await self.run(self.take, 7)  # wrong

    async def ask(self, who: str) -> str:
        return who


seat = app.object(Seat, "12A")
assert_type(seat, ObjectHandle[Seat])
assert_type(seat.call(Seat.take, "ada"), Call[int])
assert_type(seat.call(Seat.take, who="ada").result(), int)
assert_type(seat.call(Seat.ask, "ada").result(), str)
seat.call(Seat.take, 7)  # wrong
seat.call(Seat.take)  # wrong
app.object(int, "12A")  # wrong

# --- with a commit


def within(tx: Transaction) -> None:
    assert_type(tx.enqueue(greet, "ada"), Enqueued)
    assert_type(tx.enqueue(add.using(delay="1m"), 1, two=2), Enqueued)
    assert_type(tx.batch(greet, ["ada"], name="nightly"), Enqueued)
    tx.start(activities.using(delay="1m"), athlete=7)
    tx.schedule(greet, every="5m", args=("ada",), key="greet:ada")
    tx.submit(mail.using(key="order-7"), "hello")
    tx.enqueue(greet, 7)  # wrong
    tx.enqueue(greet)  # wrong
    tx.enqueue(add.using(delay="1m"), 1, three=3)  # wrong
    tx.batch(greet, [7])  # wrong
    tx.start(activities, "seven")  # wrong
    tx.schedule(greet, every="5m")  # wrong
    tx.submit(mail, 7)  # wrong


@app.resource
async def pool() -> AsyncIterator[int]:
    yield 7


@app.resource
def lock() -> Iterator[str]:
    yield "held"


assert_type(pool, AsyncResource[int])
assert_type(lock, Resource[str])


@app.task
async def work(run: Run) -> None:
    run.enqueue(greet, "ada")
    run.batch(add, [(1, 2)], then=nightly)
    run.start(activities, 7)
    run.schedule(nightly, every="5m")
    run.submit(mail, "hello")
    assert_type(await run.resource(pool), int)
    assert_type(run.resource(lock), str)
    assert_type(await run.object(Seat, "12A").call(Seat.take, "ada"), int)
    run.enqueue(greet, 7)  # wrong
    run.batch(add, [7])  # wrong
    run.start(activities, "seven")  # wrong
    run.schedule(nightly, evry="5m")  # wrong
    run.submit(mail, 7)  # wrong


# --- lookups

assert_type(app.job(7), Job[Any])
assert_type(app.get_batch(7), Batch)
assert_type(app.get_chain(7), Chain)
assert_type(app.get_schedule("nightly"), Schedule)
assert_type(app.get_message(7), OutboxMessage)
assert_type(app.jobs(phase="failed", limit=5), list[Job[Any]])
app.get_batch("seven")  # wrong
app.jobs(fase="failed")  # wrong
app.get_schedule(key=7)  # wrong


async def lookups_in_async_code() -> None:
    assert_type(await app.ajob(7), Job[Any])
    assert_type(await app.aget_batch(7), Batch)
    await app.aget_batch("seven")  # wrong
