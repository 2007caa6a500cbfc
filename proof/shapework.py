"""The shapes that a storm runs, each leaving traces from which its promises can be checked.

Inside the database: rows that commit with a settle, or not at all. Outside: notes of what began, and the
twin of an upstream, one file for each message, only appended to, which keeps what it was asked and what
it has taken. It honours a key by taking nothing twice under one; whether a message had two keys is told.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from duework import (
    Accepted,
    App,
    Channel,
    DurableObject,
    End,
    Next,
    Outbox,
    Page,
    Pending,
    Rate,
    Run,
    Sent,
)
from proof.tasks import note, started

# Schedules by key: what says when, and the milliseconds between two slots.
SCHEDULES: dict[str, tuple[dict[str, Any], int]] = {
    "tick:0": ({"every": "1s"}, 1000),
    "tick:1": ({"every": "1500ms"}, 1500),
    "tick:2": ({"cron": "* * * * * *"}, 1000),
}
RATE, PERIOD_MS = 20, 1000
# One active chain for each of these, and one object.
LANES = 8
KEYS = 3
TABLES = (
    "create table did_tick (schedule text not null, slot bigint not null, job bigint not null)",
    "create table did_member (batch bigint not null, job bigint not null)",
    "create table did_close (batch bigint not null, job bigint not null, ended bigint not null)",
    "create table did_page (chain bigint not null, number bigint not null, low bigint, high bigint)",
    "create table did_walk (chain bigint not null, items bigint not null)",
    "create table did_choose (job bigint not null, n bigint not null)",
    "create table did_receipt (value text not null)",
)


# --- schedules


async def tick(run: Run, schedule: str) -> None:
    started(run)
    values: dict[str, Any] = {"schedule": schedule, "slot": run.slot, "job": run.job.id}
    run.write(
        "insert into did_tick (schedule, slot, job) values (:schedule, :slot, :job)", **values
    )


# --- batches


async def member(run: Run, n: int, mood: str) -> None:
    started(run)
    values: dict[str, Any] = {"batch": run.job.batch, "job": run.job.id}
    run.write("insert into did_member (batch, job) values (:batch, :job)", **values)
    await asyncio.sleep(0.02 * (n % 4))
    if mood == "doomed" or (mood == "flaky" and run.attempt == 1):
        raise ValueError(mood)


async def closing(run: Run, batch: int) -> None:
    started(run)
    [found] = run.read(
        "select done + failed + cancelled as ended from duework_batch where id = :id", id=batch
    )
    values = {"batch": batch, "job": run.job.id, "ended": found.ended}
    run.write("insert into did_close (batch, job, ended) values (:batch, :job, :ended)", **values)


# --- chains


async def walk(page: Page, lane: int, last: int) -> Next | End:
    """The numbers from 1 to `last`, a few on each page."""
    started(page.run)
    low = (page.cursor or 0) + 1
    high = min(low + page.size - 1, last)
    page.run.write(
        "insert into did_page (chain, number, low, high) values (:chain, :number, :low, :high)",
        chain=page.chain,
        number=page.number,
        low=low,
        high=high,
    )
    await asyncio.sleep(0.05)
    if (page.chain + page.number) % 7 == 0 and page.run.attempt == 1:
        raise ConnectionError(f"not yet, lane {lane}")
    counts = {"items": high - low + 1}
    return End(counts=counts) if high == last else Next(cursor=high, counts=counts)


def walked(tx: Any, chain: Any) -> None:
    values = {"chain": chain.id, "items": chain.counts["items"]}
    tx.write("insert into did_walk (chain, items) values (:chain, :items)", **values)


# --- what is sent to others


def upstream(box: str, n: int, line: str) -> int:
    """Let the twin of another system keep a line about a message; how many it has of that kind."""
    handle = os.open(
        Path(os.environ["UPSTREAM"]) / f"{box}-{n}", os.O_CREAT | os.O_APPEND | os.O_RDWR, 0o600
    )
    try:
        os.write(handle, line.encode() + b"\n")
        text = os.pread(handle, os.fstat(handle).st_size, 0).decode()
        return text.count(line.partition(" ")[0])
    finally:
        os.close(handle)


async def hand_over(box: str, n: int, key: str, mood: str) -> None:
    """Ask the twin to take it: it may refuse, take its time, or lose its answer."""
    asked = upstream(box, n, f"asked {key}")
    if mood == "refused" or (mood == "late" and asked == 1):
        raise RuntimeError(f"{mood}: not taken")
    await asyncio.sleep(0.03)
    upstream(box, n, f"took {key}")
    await asyncio.sleep(0.03)
    if mood == "lost" and asked == 1:
        raise ConnectionResetError("it was taken, and nobody was told")


async def send_keyed(n: int, mood: str, key: str) -> None:
    await hand_over("keyed", n, key, mood)


async def send_blind(n: int, mood: str) -> None:
    await hand_over("blind", n, "-", mood)


async def notify(run: Run, n: int, mood: str) -> dict[str, object]:
    started(run)
    run.write("insert into did_choose (job, n) values (:job, :n)", job=run.job.id, n=n)
    return {each: {"n": n, "mood": mood} for each in ("keyed", "blind")}


@dataclass
class Message:
    n: int
    mood: str


class Slip(Outbox[Message]):
    """An upstream that honours no keys."""

    box = "slip"
    retries = 5
    backoff = "300ms"
    poll_every = "200ms"
    timeout = "20s"

    async def submit(self, message: Message, key: str) -> Accepted | Sent:
        await hand_over(self.box, message.n, key, message.mood)
        return Sent() if message.n % 3 == 0 else Accepted(handle=key)

    async def poll(self, handle: str, message: Message) -> Pending | Sent:
        polls = upstream(self.box, message.n, f"polled {handle}")
        return Sent() if polls > 1 else Pending()


class Mail(Slip):
    """One that honours them for an hour."""

    box = "mail"
    remembers_keys = "1h"


# --- paces


async def paced(run: Run, n: int) -> int:
    began = {"now": run.now, "n": n, "pid": os.getpid()}
    note({"what": "paced", "job": run.job.id, "fence": run.job.fence, **began})
    return n


# --- objects


async def receipt(run: Run, value: str) -> None:
    started(run)
    run.write("insert into did_receipt (value) values (:value)", value=value)


class Ledger(DurableObject):
    """A list that is only appended to, with what else happened, in one order."""

    def open(self) -> None:
        self.sql("create table if not exists log (id integer primary key, what text, value text)")

    def _log(self, what: str, value: str) -> None:
        self.sql("insert into log (what, value) values (:what, :value)", what=what, value=value)

    def add(self, value: str, rings: bool) -> tuple[int, str]:  # noqa: FBT001 - called by its name only
        """Append; how many there are then, and the sum of them all, which only that list has."""
        self._log("add", value)
        if rings:
            self._log("set", value)
            self.set_alarm("300ms")
            self.enqueue(known["receipt"], value)
        return summed([row.value for row in self.sql(ADDED)])

    def enter(self, value: str) -> None:
        self._log("enter", value)

    def leave(self, value: str) -> None:
        self._log("leave", value)

    def log(self) -> list[tuple[str, str]]:
        return [
            (row.what, row.value) for row in self.sql("select what, value from log order by id")
        ]

    async def visit(self, value: str, seconds: float = 0.1) -> None:
        """Nobody else is between these two, or the second one is refused."""
        await self.run(self.enter, value)
        await asyncio.sleep(seconds)
        await self.run(self.leave, value)

    async def alarm(self) -> None:
        """Long enough for a worker to stand still in the middle of it, now and then."""
        await self.visit(f"alarm {uuid.uuid4()}", 0.3)


ADDED = "select value from log where what = 'add' order by id"


def summed(values: list[str]) -> tuple[int, str]:
    """What `add` returns of such a list: two lists with the same sum are the same."""
    return len(values), hashlib.sha256("\n".join(values).encode()).hexdigest()[:16]


async def call(run: Run, key: str, how: str) -> None:
    """A call from inside a worker; each attempt is a call of its own."""
    started(run)
    from proof import shapeprogram  # which imports this module

    one = shapeprogram.app.object(Ledger, key)
    value = f"job {run.job.id} {run.job.fence}"
    if how == "visit":
        await one.visit(value)
    else:
        await one.add(value, how == "ring")
    note({"what": "called", "job": run.job.id, "fence": run.job.fence, "key": key, "value": value})


# The tasks and shapes of the App that they were defined on.
known: dict[str, Any] = {}


def define(app: App) -> dict[str, Any]:
    """Add all of it to an App."""
    kept: dict[str, Any] = {"keep": "forever"}
    for function in (tick, closing, receipt, call):
        known[function.__name__] = app.task(**kept)(function)
    known["member"] = app.task(**kept, retries=1, backoff="200ms")(member)
    known["paced"] = app.task(**kept, pace=Rate(f"{RATE}/{PERIOD_MS}ms"))(paced)
    known["walk"] = app.chain(**kept, page_size=4, key="lane:{lane}", retries=5, backoff="200ms")(
        walk
    )
    known["walk"].finished(walked)
    channels = {"keyed": Channel(send_keyed), "blind": Channel(send_blind, unsure="skip")}
    options: dict[str, Any] = {"partial": "retry-failed", "retries": 2, "backoff": "300ms"}
    known["notify"] = app.delivery(channels=channels, **options, **kept)(notify)
    known["mail"], known["slip"] = app.outbox("mail", Mail()), app.outbox("slip", Slip())
    app.durable(Ledger)
    return known


def set_up(app: App) -> None:
    """The tables, and the schedules."""
    with app.transaction() as tx:
        for table in TABLES:
            tx.write(table)
    for key, (when, _) in SCHEDULES.items():
        app.schedule(
            known["tick"],
            **when,
            args=(key,),
            key=key,
            missed="all",
            missed_limit=1000,
            overlap="queue",
        )
