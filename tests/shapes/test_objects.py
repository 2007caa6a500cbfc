"""Durable objects: what a call promises, on both databases, in virtual time."""

from __future__ import annotations

import asyncio
import gc
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from duework import (
    App,
    Conflict,
    DatabaseError,
    DurableObject,
    InvalidArguments,
    LeaseLost,
    NotFound,
    ObjectTooLarge,
    Part,
    Snooze,
    Unavailable,
    UsageError,
)
from duework.clock import pause
from duework.db.writer.writer import Writer
from duework.kernel.surroundings.buffer import Buffer
from duework.shapes.objects import cell as object_cell
from duework.shapes.objects import host as object_host
from duework.shapes.objects import leases as object_leases
from duework.shapes.objects import store as object_store
from duework.shapes.objects.cell import PendingCall
from duework.shapes.objects.handle import Objects
from duework.testing import Harness, WorkerCrashed, doomed
from tests.support.checks import broken_checks, is_sound
from tests.support.clocks import clock_of
from tests.support.docs import environment
from tests.support.processes import until

Hook = Callable[[], None]


class Flight(DurableObject):
    """Seats, each with one occupant."""

    runs = 0
    hook: Hook | None = None

    def open(self) -> None:
        self.sql("create table if not exists seat (id text primary key, occupant text)")

    def assign(self, seat: str, occupant: str) -> int:
        type(self).runs += 1
        if self.sql("select 1 from seat where id = :seat", seat=seat):
            raise Taken(seat)
        self.sql("insert into seat values (:seat, :occupant)", seat=seat, occupant=occupant)
        if (hook := type(self).hook) is not None:
            type(self).hook = None
            hook()
        return len(self.seats())

    def seats(self) -> list[str]:
        return [row.id for row in self.sql("select id from seat order by id")]

    def clear(self, seat: str) -> None:
        self.sql("delete from seat where id = :seat", seat=seat)

    def crash(self, seat: str) -> None:
        self.assign(seat, "nobody")
        raise ZeroDivisionError("in the air")

    def remove(self) -> None:
        self.delete()


class Taken(Exception):
    pass


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    Flight.runs, Flight.hook = 0, None
    yield
    gc.collect()


@pytest.fixture
def other(url: str, app: App) -> Iterator[App]:
    """Another App on the same database, which shares nothing with the first but that."""
    app.wiring.engine  # noqa: B018 - migrates
    made = App(url)
    yield made
    made.close()


def in_thread(call: Callable[[], Any]) -> Any:
    """What another process would do meanwhile."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(call()))
    thread.start()
    thread.join(10)
    return found[0]


# --- calls


def test_an_object_is_made_when_it_is_first_used_and_keeps_what_it_was_told(app: App) -> None:
    ba = app.object(Flight, "BA117")

    assert ba.assign("12A", "Kenton").result() == 1
    assert ba.assign("12B", "Ada").result() == 2
    assert app.object(Flight, "BA118").seats().result() == []
    assert app.object(Flight, "BA117").seats().result() == ["12A", "12B"]


def test_async_code_awaits_the_same_calls(harness: Harness) -> None:
    async def fly() -> list[str]:
        ba = harness.app.object(Flight, "BA117")
        await asyncio.gather(*(ba.assign(f"{n:02}", "x") for n in range(30)))
        return list(await ba.seats())

    assert asyncio.run(fly()) == [f"{n:02}" for n in range(30)]


def test_calls_of_one_object_that_wait_share_a_commit(app: App) -> None:
    async def fly() -> int:
        ba = app.object(Flight, "BA117")
        await ba.seats()
        await asyncio.gather(*(ba.assign(f"{n}", "x") for n in range(100)))
        return int(app.object(Flight, "BA117").info().version)

    assert asyncio.run(fly()) < 60


def test_what_a_method_raises_reaches_its_caller_as_itself_and_changes_nothing(app: App) -> None:
    ba = app.object(Flight, "BA117")
    ba.assign("1", "a").result()
    version = ba.info().version

    with pytest.raises(ZeroDivisionError, match="in the air"):
        ba.crash("2").result()
    with pytest.raises(Taken):
        ba.assign("1", "b").result()
    with pytest.raises(DatabaseError, match="no such table"):
        app.object(Odd, "x").missing().result()

    assert ba.seats().result() == ["1"]
    assert ba.info().version == version
    with pytest.raises(NotFound):
        app.object(Odd, "x").info()


def test_a_call_that_fails_takes_none_of_its_neighbours_with_it(app: App) -> None:
    async def fly() -> list[Any]:
        ba = app.object(Flight, "BA117")
        calls = [ba.assign("1", "a"), ba.crash("2"), ba.assign("3", "c"), ba.assign("3", "d")]
        return await asyncio.gather(*calls, return_exceptions=True)

    found = asyncio.run(fly())

    assert [type(each) for each in found] == [int, ZeroDivisionError, int, Taken]
    assert app.object(Flight, "BA117").seats().result() == ["1", "3"]


def test_attributes_of_a_failed_call_are_gone(app: App) -> None:
    odd = app.object(Odd, "x")

    assert odd.remember(1).result() == [1]
    with pytest.raises(ValueError, match="13"):
        odd.remember(13).result()

    assert odd.remember(2).result() == [2]


def test_only_pages_that_changed_are_written(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = app.object(Ledger, "x")
    ledger.fill(300).result()
    written: list[int] = []
    packed = object_cell.packed
    monkeypatch.setattr(object_cell, "packed", lambda page: written.append(1) or packed(page))

    ledger.note(7).result()

    assert ledger.info().pages > 300
    assert 1 <= len(written) <= 3
    ledger.note(7).result()
    ledger.total().result()
    assert app.admin.verify()[-5].violations == 0


def test_a_query_costs_little_inside_a_method(app: App) -> None:
    ledger = app.object(Ledger, "x")
    ledger.fill(50).result()

    assert min(ledger.hundred_queries().result() for _ in range(20)) < 0.002


class Ledger(DurableObject):
    def open(self) -> None:
        self.sql("create table if not exists line (id integer primary key, body text)")

    def fill(self, pages: int) -> None:
        text = "insert into line (body) values (:body)"
        for _ in range(pages):
            self.sql(text, body="x" * 3800)

    def note(self, line: int) -> None:
        self.sql("update line set body = 'y' || substr(body, 2) where id = :line", line=line)

    def total(self) -> int:
        return int(self.sql("select count(*) as n from line")[0].n)

    def hundred_queries(self) -> float:
        start = perf_counter()
        for line in range(100):
            self.sql("select body from line where id = :line", line=line % 50 + 1)
        return perf_counter() - start

    def blob(self, size: int) -> None:
        self.sql("insert into line (body) values (zeroblob(:size))", size=size)

    def swallow(self, size: int) -> None:
        try:
            self.blob(size)
        except ObjectTooLarge:
            self.sql("delete from line")

    def shrink(self) -> None:
        self.sql("delete from line where id > 1")


class Odd(DurableObject):
    """What one should not do."""

    def missing(self) -> None:
        self.sql("select * from nowhere")

    def do(self, text: str) -> list[Any]:
        return self.sql(text)

    def remember(self, number: int) -> list[int]:
        found: list[int] = getattr(self, "found", [])
        self.found = [*found, number]
        if number == 13:
            raise ValueError("13")
        return self.found

    def call_another(self, app: App) -> None:
        app.object(Flight, "other").assign("1", "x").result()

    def enqueue_past(self, task: Any) -> None:
        task.enqueue("ada")

    def give(self, task: Any, after: int | None = None) -> None:
        self.sql("create table if not exists given (id integer)")
        self.sql("insert into given values (1)")
        self.enqueue(task.using(after=after), "ada")


# --- two processes


def test_of_two_who_change_an_object_at_once_the_loser_runs_again(app: App, other: App) -> None:
    ba = app.object(Flight, "BA117")
    ba.assign("1", "a").result()
    Flight.runs = 0
    Flight.hook = lambda: in_thread(other.object(Flight, "BA117").assign("2", "b").result)

    assert ba.assign("3", "c").result() == 3

    assert Flight.runs == 3
    assert ba.seats().result() == ["1", "2", "3"]


def test_of_two_who_make_an_object_at_once_the_loser_runs_again(app: App, other: App) -> None:
    Flight.hook = lambda: in_thread(other.object(Flight, "BA117").assign("2", "b").result)

    assert app.object(Flight, "BA117").assign("3", "c").result() == 2
    assert other.object(Flight, "BA117").seats().result() == ["2", "3"]


def test_a_read_sees_what_another_process_has_committed(app: App, other: App) -> None:
    ba, theirs = app.object(Flight, "BA117"), other.object(Flight, "BA117")
    assert ba.seats().result() == []
    theirs.assign("1", "a").result()
    assert ba.seats().result() == ["1"]

    theirs.assign("2", "b").result()

    assert ba.seats().result() == ["1", "2"]
    theirs.delete()
    assert ba.seats().result() == []


def test_an_error_that_is_no_longer_true_is_not_told(app: App, other: App) -> None:
    ba = app.object(Flight, "BA117")
    ba.assign("1", "a").result()

    other.object(Flight, "BA117").clear("1").result()

    assert ba.assign("1", "b").result() == 1


def test_an_object_that_was_deleted_and_made_again_is_another_one(app: App, other: App) -> None:
    ba = app.object(Flight, "BA117")
    ba.assign("1", "a").result()
    other.object(Flight, "BA117").remove().result()
    other.object(Flight, "BA117").assign("9", "z").result()

    ba.assign("1", "a").result()

    assert ba.seats().result() == ["1", "9"]


PROGRAM = """
import sys
from duework import App, DurableObject
class Count(DurableObject):
    def open(self): self.sql("create table if not exists n (v integer)")
    def add(self):
        if not self.sql("update n set v = v + 1 returning v"): self.sql("insert into n values (1)")
app = App(sys.argv[1])
print("ready", flush=True); sys.stdin.readline()
for _ in range(60): app.object(Count, "x").add().result()
app.close()
"""


class Count(DurableObject):
    def value(self) -> int:
        return int(self.sql("select v from n")[0].v)


def test_two_real_processes_lose_no_call_on_one_key(url: str, app: App) -> None:
    app.wiring.engine  # noqa: B018 - migrates
    command = [sys.executable, "-c", PROGRAM, url]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": environment()}
    both = [subprocess.Popen(command, **pipes) for _ in range(2)]  # type: ignore[call-overload]
    for each in both:
        each.stdout.readline()
    for each in both:
        each.stdin.write(b"\n")
        each.stdin.flush()

    assert [each.wait(60) for each in both] == [0, 0]
    for each in both:
        each.stdin.close()
        each.stdout.close()
    assert app.object(Count, "x").value().result() == 120


# --- what goes with it


def test_an_object_and_what_it_enqueues_are_one_commit(harness: Harness) -> None:
    app = harness.app

    @app.task
    async def greet(name: str) -> None: ...

    odd = app.object(Odd, "x")
    with pytest.raises(NotFound, match="no job 404"):
        odd.give(greet, after=404).result()
    harness.refute_enqueued(greet)
    with pytest.raises(NotFound):
        odd.info()

    odd.give(greet).result()

    harness.assert_enqueued(greet, "ada")
    assert odd.tables() == {"given": 1}


def test_a_failed_commit_drops_the_copy(harness: Harness) -> None:
    ba = harness.app.object(Flight, "BA117")
    ba.assign("1", "a").result()

    with doomed(harness.app.wiring.engine, 3), pytest.raises(WorkerCrashed):
        ba.assign("2", "b").result()

    assert ba.seats().result() == ["1"]
    assert ba.assign("2", "b").result() == 2


def test_a_refused_job_of_one_object_does_not_stop_the_others(harness: Harness) -> None:
    app = harness.app

    @app.task
    async def greet(name: str) -> None: ...

    async def all_at_once() -> list[Any]:
        calls = [app.object(Odd, f"{n}").give(greet, 404 if n == 3 else None) for n in range(8)]
        return await asyncio.gather(*calls, return_exceptions=True)

    found = asyncio.run(all_at_once())

    assert [type(each) for each in found].count(NotFound) == 1
    assert len(app.objects("Odd")) == 7
    assert len(app.jobs(task="greet")) == 7


def test_an_object_cannot_be_called_where_it_would_wait_for_itself(app: App) -> None:
    @app.task
    async def greet(name: str) -> None: ...

    with pytest.raises(UsageError, match="inside a transaction"):
        app.object(Odd, "x").call_another(app).result()
    with pytest.raises(UsageError, match="inside a transaction"):
        app.object(Odd, "x").enqueue_past(greet).result()
    with app.transaction(), pytest.raises(UsageError, match="inside a transaction"):
        app.object(Flight, "x").assign("1", "a").result()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("attach ':memory:' as more", "ATTACH"),
        ("create temp table t (id)", "temporary"),
        ("create table temp.t (id)", "temporary"),
        ("pragma journal_mode = off", "journal_mode"),
        ("pragma foreign_keys = off", "foreign_keys"),
        ("commit", "one transaction"),
        ("savepoint s", "one transaction"),
    ],
)
def test_what_reaches_out_of_an_object_is_refused(harness: Harness, text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        harness.app.object(Odd, "x").do(text).result()


def test_foreign_keys_are_kept(harness: Harness) -> None:
    odd = harness.app.object(Odd, "x")
    odd.do("create table a (id integer primary key)").result()
    odd.do("create table b (a references a (id) deferrable initially deferred)").result()

    with pytest.raises(DatabaseError, match="FOREIGN KEY"):
        odd.do("insert into b values (1)").result()

    assert odd.tables() == {"a": 0, "b": 0}


def test_an_object_over_its_limit_is_refused_and_stays_as_it_was(app: App) -> None:
    ledger = app.object(Ledger, "x")
    ledger.fill(1).result()

    with pytest.raises(ObjectTooLarge, match="64 MB"):
        ledger.blob(65 * 2**20).result()
    with pytest.raises(UsageError):
        ledger.swallow(65 * 2**20).result()

    assert ledger.total().result() == 1


def test_an_object_gets_smaller_and_larger(app: App) -> None:
    ledger = app.object(Ledger, "x")
    for _ in range(3):
        ledger.fill(20).result()
        ledger.shrink().result()

    assert App.object(app, Ledger, "x").total().result() == 1
    assert [finding.violations for finding in app.admin.verify()[-5:]] == [0] * 5


def test_memory_is_bounded_by_bytes(harness: Harness) -> None:
    app = harness.app
    app.limits = replace(app.limits, object_cache_bytes=1_000_000)
    for n in range(30):
        app.object(Flight, f"{n}").assign("1", "a").result()
        app.object(Flight, f"{n}").seats().result()

    cache = app.wiring.find(Objects).host.cache

    assert 0 < len(cache) < 10
    assert cache.bytes + cache.shelf_bytes <= 1_000_000
    assert app.object(Flight, "0").seats().result() == ["1"]


def test_a_walk_over_many_objects_closes_none_that_is_used_often(harness: Harness) -> None:
    app = harness.app
    app.limits = replace(app.limits, object_cache_bytes=1_000_000)
    often = [app.object(Flight, f"often {n}") for n in range(2)]
    for each in often:
        each.assign("1", "a").result()
        each.seats().result()
    host = app.wiring.find(Objects).host
    before = len(host.cache)

    for n in range(30):
        app.object(Flight, f"{n}").assign("1", "a").result()

    assert (before, len(host.cache)) == (2, 2)
    assert len(host._images) == 1  # noqa: SLF001
    assert [each.seats().result() for each in often] == [["1"], ["1"]]


def test_an_object_that_is_closed_answers_nobody_who_kept_it(harness: Harness) -> None:
    app = harness.app
    kept: list[Flight] = []
    kind = app.wiring.find(Objects).know(Flight)
    app.object(Flight, "x").assign("1", "a").result()
    app.wiring.find(Objects).forget()
    host = app.wiring.find(Objects).host
    host.run(kind, "x", PendingCall(kept.append, (), {}, None))

    def meddle(self: Flight) -> None:
        assert self.key == "y"
        kept[0].sql("delete from seat")

    with pytest.raises(UsageError, match="is over"):
        host.run(kind, "y", PendingCall(meddle, (), {}, None))


def test_a_connection_that_served_another_object_remembers_nothing_of_it(harness: Harness) -> None:
    app = harness.app
    app.limits = replace(app.limits, object_cache_bytes=0)
    first, second = app.object(Odd, "1"), app.object(Odd, "2")
    first.do("create table x (a)").result()
    first.do("create table y (a)").result()
    second.do("create table y (a)").result()
    second.do("create table x (a)").result()

    for n in range(3):
        first.do(f"insert into x values ({n})").result()
        second.do("insert into y values (77)").result()
        assert second.do("select last_insert_rowid() as n").result()[0].n == 0

        assert first.do("select count(*) as n from x").result()[0].n == n + 1
        assert second.do("select count(*) as n from x").result()[0].n == 0
    assert first.tables() == {"x": 3, "y": 0}


def test_a_call_that_nobody_waits_for_warns(harness: Harness) -> None:
    with pytest.warns(RuntimeWarning, match=r"Flight.seats was never called"):
        harness.app.object(Flight, "x").seats()


def test_mistakes_are_told_at_once(harness: Harness) -> None:
    app = harness.app

    class Bad(DurableObject):
        def alarm(self) -> None:  # type: ignore[override]
            """Not async."""

    class Clash(DurableObject):
        def export(self) -> None:
            """A name of the handle's."""

    flight = type("Flight", (DurableObject,), {})
    app.object(Flight, "x")
    for wrong in (Bad, Clash, str, DurableObject, flight):
        with pytest.raises(UsageError):
            app.object(wrong, "x")  # type: ignore[arg-type]
    for key in ("", "\0", "x" * 501):
        with pytest.raises(UsageError):
            app.object(Flight, key)
    with pytest.raises(AttributeError, match="assign"):
        app.object(Flight, "x").nothing()


# --- alarms


class Clock(DurableObject):
    """Counts its alarms; fails as often as it was told to."""

    def open(self) -> None:
        self.sql("create table if not exists rung (at integer)")
        self.sql("create table if not exists trouble (n integer)")

    def arm(self, after: str, failures: int = 0, at: Any = None) -> None:
        self.sql("delete from trouble")
        self.sql("insert into trouble values (:n)", n=failures)
        if at is None:
            self.set_alarm(after)
        else:
            self.set_alarm(at=at)

    def arm_and_fail(self) -> None:
        self.set_alarm("1s")
        raise ValueError("no")

    def disarm(self) -> None:
        self.clear_alarm()

    def remove(self) -> None:
        self.delete()

    def rung(self) -> int:
        return int(self.sql("select count(*) as n from rung")[0].n)

    def note(self, again: str = "") -> int:
        (row,) = self.sql("select n from trouble")
        if row.n <= 0:
            self.sql("insert into rung values (1)")
            if again:
                self.set_alarm(again)
        self.sql("update trouble set n = n - 1")
        return int(row.n)

    async def alarm(self) -> None:
        every = "1m" if self.key.startswith("every") else ""
        if await self.run(self.note, every) > 0:
            raise ValueError("not yet")


def test_an_alarm_rings_once_at_its_time(harness: Harness) -> None:
    clock = harness.app.object(Clock, "x")
    clock.arm("10s").result()
    assert clock.info().alarm == harness.now + 10_000

    harness.advance("9s")
    assert clock.rung().result() == 0
    harness.advance("1s")
    assert clock.rung().result() == 1

    harness.advance("1d")
    assert clock.rung().result() == 1
    assert clock.info().alarm is None
    assert harness.app.read("select id from duework_job") == []
    is_sound(harness)


def test_an_object_has_one_alarm(harness: Harness) -> None:
    clock = harness.app.object(Clock, "x")
    clock.arm("10s").result()
    clock.arm("30s").result()
    clock.arm("", at=harness.now + 20_000).result()
    with pytest.raises(ValueError, match="no"):
        clock.arm_and_fail().result()

    assert len(harness.app.read("select id from duework_job")) == 1
    harness.advance("19s")
    assert clock.rung().result() == 0
    harness.advance("2m")
    assert clock.rung().result() == 1


def test_an_alarm_that_is_taken_off_does_not_ring(harness: Harness) -> None:
    clock = harness.app.object(Clock, "x")
    clock.arm("10s").result()

    clock.disarm().result()
    clock.disarm().result()
    harness.advance("1m")

    assert clock.rung().result() == 0
    assert harness.app.read("select id from duework_job") == []
    clock.arm("10s").result()
    harness.advance("1m")
    assert clock.rung().result() == 1


def test_an_alarm_that_raises_is_tried_again_later_and_later(harness: Harness) -> None:
    clock = harness.app.object(Clock, "x")
    clock.arm("10s", failures=3).result()

    harness.advance("11s")
    assert (clock.info().failures, clock.rung().result()) == (1, 0)
    assert "not yet" in (clock.info().error or "")
    harness.advance("2m")

    assert clock.rung().result() == 1


def test_an_alarm_that_never_succeeds_is_a_failed_job_and_can_be_redriven(
    harness: Harness,
) -> None:
    clock = harness.app.object(Clock, "x")
    clock.arm("10s", failures=11).result()
    harness.advance("3d")
    (failed,) = harness.app.jobs(phase="failed")
    assert clock.rung().result() == 0

    failed.retry()
    harness.advance("1s")

    assert clock.rung().result() == 1
    assert clock.info().alarm is None


def test_an_alarm_may_set_the_next_one(harness: Harness) -> None:
    clock = harness.app.object(Clock, "every minute")
    clock.arm("1m").result()

    for minutes in range(1, 6):
        harness.advance("59s")
        assert clock.rung().result() == minutes - 1
        harness.advance("1s")
        assert clock.rung().result() == minutes
    assert len(harness.app.read("select id from duework_job")) == 1


def test_an_alarm_survives_the_loss_of_its_process(harness: Harness) -> None:
    clock = harness.app.object(Clock, "x")
    clock.arm("10s").result()
    harness.drain()
    harness.crash_worker()

    harness.advance("10s")

    assert clock.rung().result() == 1


def test_a_deleted_object_has_no_alarm(harness: Harness) -> None:
    clock = harness.app.object(Clock, "x")
    clock.arm("10s").result()

    clock.remove().result()

    for table in ("object", "object_page", "job"):
        assert harness.app.read(f"select * from duework_{table}") == []
    with pytest.raises(NotFound):
        clock.info()
    harness.advance("1m")
    assert clock.rung().result() == 0


def test_an_alarm_needs_a_method(harness: Harness) -> None:
    class Mute(DurableObject):
        def arm(self) -> None:
            self.set_alarm("10s")

    with pytest.raises(UsageError, match="async def alarm"):
        harness.app.object(Mute, "x").arm().result()


def test_a_worker_knows_classes_that_it_has_not_used(url: str, app: App) -> None:
    class Sleeper(DurableObject):
        # Not that of the other database, which may still be in memory.
        kind = f"Sleeper-{app.wiring.engine.database.kind}"

        def arm(self) -> None:
            self.sql("create table if not exists woke (id)")
            self.set_alarm("0s")

        def note(self) -> None:
            self.sql("insert into woke values (1)")

        async def alarm(self) -> None:
            await self.run(self.note)

    app.object(Sleeper, "x").arm().result()
    fresh = App(url)

    asyncio.run(fresh.worker().run_until_idle())

    assert app.object(Sleeper, "x").tables() == {"woke": 1}
    fresh.close()


# --- async methods


class Crawl(DurableObject):
    """Async methods that overlap if they are let."""

    inside = 0
    most = 0
    runs = 0
    pause = 0.005
    on_pause: Hook | None = None

    def open(self) -> None:
        self.sql("create table if not exists page (id integer primary key)")

    def add(self) -> int:
        self.sql("insert into page default values")
        return int(self.sql("select count(*) as n from page")[0].n)

    async def visit(self, *, fail: bool = False) -> int:
        cls = type(self)
        cls.runs += 1
        cls.inside += 1
        cls.most = max(cls.most, cls.inside)
        try:
            await asyncio.sleep(self.pause)
            if cls.on_pause is not None:
                hook, cls.on_pause = cls.on_pause, None
                await asyncio.to_thread(hook)
            number = await self.run(self.add)
        finally:
            cls.inside -= 1
        if fail:
            raise Taken("visited")
        return number

    def remove(self) -> None:
        self.delete()

    async def begin_anew(self) -> int:
        await self.run(self.remove)
        return int(await self.run(self.add))

    async def touch_state(self) -> None:
        self.sql("select 1")

    async def call_itself(self, app: App) -> None:
        await app.object(Crawl, self.key).visit()

    async def run_wrongly(self) -> None:
        await self.run(self.visit)


@pytest.fixture
def crawl() -> type[Crawl]:
    Crawl.inside = Crawl.most = Crawl.runs = 0
    Crawl.on_pause = None
    return Crawl


def test_async_methods_run_one_at_a_time_per_key_over_all_processes(
    app: App, other: App, crawl: type[Crawl]
) -> None:
    async def visits(who: App) -> list[int]:
        return await asyncio.gather(*(who.object(crawl, "x").visit() for _ in range(4)))

    async def both() -> list[list[int]]:
        theirs = asyncio.to_thread(lambda: asyncio.run(visits(other)))
        return list(await asyncio.gather(visits(app), theirs))

    found = asyncio.run(both())

    assert sorted(found[0] + found[1]) == list(range(1, 9))
    assert (crawl.most, crawl.runs) == (1, 8)
    assert app.read("select * from duework_object_lease") == []


def test_async_methods_of_different_keys_overlap(harness: Harness, crawl: type[Crawl]) -> None:
    async def visits() -> None:
        await asyncio.gather(*(harness.app.object(crawl, f"{n}").visit() for n in range(20)))

    asyncio.run(visits())

    assert crawl.most > 1


def test_an_async_method_is_not_run_again_for_a_conflict(
    app: App, other: App, crawl: type[Crawl]
) -> None:
    crawl.on_pause = lambda: other.object(crawl, "x").add().result()
    app.object(crawl, "x").add().result()

    assert app.object(crawl, "x").visit().result() == 3
    assert crawl.runs == 1


def test_an_async_method_raises_its_error_and_keeps_what_it_committed(
    harness: Harness, crawl: type[Crawl]
) -> None:
    with pytest.raises(Taken):
        harness.app.object(crawl, "x").visit(fail=True).result()

    assert harness.app.object(crawl, "x").visit().result() == 2


def test_an_async_method_touches_state_only_by_sync_ones(
    harness: Harness, crawl: type[Crawl]
) -> None:
    one = harness.app.object(crawl, "x")

    with pytest.raises(UsageError, match=r"await self\.run"):
        one.touch_state().result()
    with pytest.raises(UsageError, match="sync method"):
        one.run_wrongly().result()
    with pytest.raises(UsageError, match="call it by self"):
        one.call_itself(harness.app).result()


def test_a_lease_that_was_lost_lets_nothing_be_written(
    harness: Harness, crawl: type[Crawl]
) -> None:
    one = harness.app.object(crawl, "x")

    def stolen() -> None:
        with harness.app.transaction() as tx:
            tx.write("update duework_object_lease set holder = 7")

    crawl.on_pause = stolen
    with pytest.raises(LeaseLost):
        one.visit().result()
    with pytest.raises(NotFound):
        one.info()


def _held_elsewhere(app: App, milliseconds: int) -> None:
    """As if another process had taken the lease of the object x."""
    with app.transaction() as tx:
        tx.write(
            "insert into duework_object_lease (kind, key, holder, until)"
            " values ('Crawl', 'x', 7, :until)",
            until=app.now() + milliseconds,
        )


def _visiting(app: App, crawl: type[Crawl]) -> threading.Thread:
    thread = threading.Thread(target=lambda: app.object(crawl, "x").visit().result())
    thread.start()
    return thread


def _let_go(app: App, waiting: threading.Thread) -> None:
    """The other process has ended: whoever waits gets its turn."""
    with app.transaction() as tx:
        tx.write("delete from duework_object_lease")
    waiting.join(10)


def test_whoever_waits_for_another_process_only_reads(app: App, crawl: type[Crawl]) -> None:
    _held_elsewhere(app, 60_000)
    leases, takes = app.wiring.find(Objects).leases, 0
    take = leases._take  # noqa: SLF001

    def counted(tx: Any, claims: Any) -> Any:
        nonlocal takes
        takes += 1
        return take(tx, claims)

    leases._take = counted  # type: ignore[method-assign]  # noqa: SLF001
    thread = _visiting(app, crawl)
    until(lambda: takes)
    thread.join(0.3)
    while_it_was_held = takes
    assert app.read("select wanted from duework_object_lease")[0].wanted == 1
    _let_go(app, thread)

    assert (while_it_was_held, takes, crawl.runs) == (1, 2, 1)


@pytest.fixture
def wanted_crawl(app: App, crawl: type[Crawl], monkeypatch: pytest.MonkeyPatch) -> type[Crawl]:
    """For which somebody in another process waits at any time, and a gap that can be seen."""
    monkeypatch.setattr(object_leases, "_SLICE", 0)
    monkeypatch.setattr(object_leases, "_GAP", 0.5)

    def somebody_waits() -> None:
        with app.transaction() as tx:
            tx.write("update duework_object_lease set wanted = 1")

    crawl.on_pause = somebody_waits
    return crawl


def test_a_line_that_others_wait_for_leaves_them_a_gap(app: App, wanted_crawl: type[Crawl]) -> None:
    ends: list[float] = []

    async def visits() -> None:
        async def visit() -> None:
            await app.object(wanted_crawl, "x").visit()
            ends.append(perf_counter())

        await asyncio.gather(*(visit() for _ in range(3)))

    asyncio.run(visits())

    assert ends[1] - ends[0] > 0.5


@pytest.mark.parametrize("what", ["wrong", "suspended", "idle"])
def test_when_time_jumps_nobody_takes_an_object_that_another_process_holds(
    app: App, crawl: type[Crawl], what: str
) -> None:
    clock = clock_of(app)
    _held_elsewhere(app, 60_000)
    thread = _visiting(app, crawl)
    until(lambda: app.read("select wanted from duework_object_lease")[0].wanted)

    setattr(clock, what, 3_600_000)
    thread.join(0.3)
    while_it_was_held = crawl.runs
    _let_go(app, thread)

    assert (while_it_was_held, crawl.runs) == (0, 1)


def test_a_process_that_was_only_idle_takes_an_object_whose_lease_is_over_at_once(
    app: App, crawl: type[Crawl]
) -> None:
    clock = clock_of(app)
    _held_elsewhere(app, 60_000)
    app.object(crawl, "y").visit().result()

    clock.idle += 3_600_000
    thread = _visiting(app, crawl)
    thread.join(5)

    assert crawl.runs == 2


def test_after_a_suspend_not_even_the_first_to_come_takes_an_object(
    app: App, crawl: type[Crawl]
) -> None:
    """Its holder sleeps for a moment longer, and has not extended its lease yet."""
    clock = clock_of(app)
    _held_elsewhere(app, 60_000)
    app.object(crawl, "y").visit().result()

    clock.suspended += 3_600_000
    thread = _visiting(app, crawl)
    thread.join(0.5)
    while_it_was_held = crawl.runs
    _let_go(app, thread)

    assert (while_it_was_held, crawl.runs) == (1, 2)


def test_whoever_waits_for_another_process_outlives_a_database_that_is_away_for_a_moment(
    app: App, crawl: type[Crawl], monkeypatch: pytest.MonkeyPatch
) -> None:
    _held_elsewhere(app, 300)
    leased, looks = object_store.leased, 0

    def away_at_first(*args: Any) -> bool:
        nonlocal looks
        looks += 1
        if looks == 1:
            raise Unavailable("the server was restarted")
        return leased(*args)

    monkeypatch.setattr(object_store, "leased", away_at_first)
    app.object(crawl, "x").visit().result()

    assert (looks > 1, crawl.runs) == (True, 1)


def test_leases_of_many_objects_are_locked_in_one_order_by_everybody(app: App) -> None:
    locked: list[str] = []

    class Watched:
        def __init__(self, tx: Any) -> None:
            self.tx = tx

        def query(self, statement: Any, values: Any) -> Any:
            locked.append(values["key"])
            return self.tx.query(statement, values)

    now = app.now()
    claims = [object_store.ObjectClaim("Crawl", key, 7, now + 60_000) for key in ("b", "a", "c")]
    other = [object_store.ObjectClaim("Crawl", key, 8, now + 60_000) for key in ("d", "b")]
    with app.transaction() as tx:
        watched: Any = Watched(tx._tx)  # noqa: SLF001
        assert object_store.take_leases(watched, claims, now) == [True, True, True]
        assert object_store.take_leases(watched, other, now) == [True, False]
        assert object_store.drop_leases(watched, claims) == [True, False, False]

    assert locked == ["a", "b", "c", "b", "b", "d", "a", "b", "c"]


def test_one_who_calls_again_and_again_leaves_others_a_gap_too(
    app: App, wanted_crawl: type[Crawl]
) -> None:
    ends: list[float] = []

    async def visits() -> None:
        for _ in range(2):
            await app.object(wanted_crawl, "x").visit()
            ends.append(perf_counter())

    asyncio.run(visits())

    assert ends[1] - ends[0] > 0.5


def test_a_call_that_is_cancelled_while_it_takes_its_lease_leaves_none(
    app: App, crawl: type[Crawl]
) -> None:
    gate = threading.Event()

    def slow(tx: Any, items: list[None]) -> list[None]:
        gate.wait(10)
        return items

    async def cancelled() -> None:
        writer = app.wiring.engine.writer
        busy = asyncio.create_task(writer.acall(slow, [None]))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        call = asyncio.ensure_future(app.object(crawl, "x").visit())
        await asyncio.sleep(0.01)
        call.cancel()
        await asyncio.sleep(0.01)
        gate.set()
        with pytest.raises(asyncio.CancelledError):
            await call
        await busy

    asyncio.run(cancelled())

    assert crawl.runs == 0
    assert app.read("select * from duework_object_lease") == []
    assert app.object(crawl, "x").visit().result() == 1


@pytest.mark.parametrize("by", ["the handle", "a method"])
def test_an_object_that_is_deleted_under_its_async_method_does_not_come_back(
    app: App, other: App, crawl: type[Crawl], by: str
) -> None:
    app.object(crawl, "x").visit().result()
    theirs = other.object(crawl, "x")
    crawl.on_pause = theirs.delete if by == "the handle" else theirs.remove().result

    with pytest.raises(LeaseLost, match="deleted"):
        app.object(crawl, "x").visit().result()

    assert app.read("select * from duework_object") == []
    assert app.object(crawl, "x").visit().result() == 1


def test_an_async_method_that_deletes_its_object_may_begin_anew(
    app: App, crawl: type[Crawl]
) -> None:
    assert app.object(crawl, "x").visit().result() == 1

    assert app.object(crawl, "x").begin_anew().result() == 1


@pytest.mark.parametrize("length", ["15s", "1h"])
def test_the_lease_of_a_dead_process_ends(
    harness: Harness, crawl: type[Crawl], length: str
) -> None:
    _held_elsewhere(harness.app, 15_000)
    thread = _visiting(harness.app, crawl)
    thread.join(0.1)
    while_it_was_held = crawl.runs

    harness.advance(length)
    thread.join(5)
    in_time = crawl.runs
    _let_go(harness.app, thread)

    assert (while_it_was_held, in_time) == (0, 1)


def test_a_busy_event_loop_takes_the_object_of_a_dead_process_all_the_same(
    url: str, crawl: type[Crawl]
) -> None:
    """Its looks are further apart than a lease, which is no standstill of the process."""
    app = App(url, lease="500ms")

    async def busy() -> None:
        while True:
            pause(0.3)
            await asyncio.sleep(0)

    async def visit() -> int:
        others = asyncio.create_task(busy())
        try:
            return await asyncio.wait_for(app.object(crawl, "x").visit(), 10)
        finally:
            others.cancel()

    try:
        _held_elsewhere(app, 1000)
        assert asyncio.run(visit()) == 1
    finally:
        app.close()


def _threads_of_leases() -> int:
    return sum(thread.name == "duework-object-leases" for thread in threading.enumerate())


@pytest.mark.parametrize("how", ["taken", "cancelled"])
def test_a_thread_of_leases_ends_when_nobody_waits_for_an_object_any_more(
    app: App, crawl: type[Crawl], how: str
) -> None:
    _held_elsewhere(app, 60_000)
    until(lambda: not _threads_of_leases())

    async def wait() -> None:
        call = asyncio.ensure_future(app.object(crawl, "x").visit())
        await asyncio.to_thread(until, _threads_of_leases)
        if how == "cancelled":
            call.cancel()
        else:
            with app.transaction() as tx:
                tx.write("delete from duework_object_lease")
        await asyncio.wait([call])

    asyncio.run(wait())

    assert crawl.runs == (how == "taken")
    until(lambda: not _threads_of_leases())


def test_a_long_async_method_keeps_its_lease(url: str, crawl: type[Crawl]) -> None:
    one, two = App(url, lease="2s"), App(url, lease="2s")
    one.wiring.engine  # noqa: B018 - migrates
    crawl.pause = 3
    try:
        thread = threading.Thread(target=one.object(crawl, "x").visit().result)
        thread.start()
        until(lambda: crawl.inside)
        crawl.pause = 0.01
        two.object(crawl, "x").visit().result()
        thread.join()
    finally:
        crawl.pause = 0.005
        one.close()
        two.close()

    assert (crawl.most, crawl.runs) == (1, 2)


class Bell(DurableObject):
    """An alarm that waits in the middle, as one whose process stands still."""

    # Of each attempt that came, what lets it go on.
    came: ClassVar[asyncio.Queue[asyncio.Event]]
    attempts = 0

    def open(self) -> None:
        self.sql("create table if not exists rung (who text)")

    def set_it(self) -> None:
        self.set_alarm("1s")

    def note(self, who: str) -> None:
        self.sql("insert into rung values (:who)", who=who)

    def rung(self) -> list[str]:
        return [row.who for row in self.sql("select who from rung order by rowid")]

    async def alarm(self) -> None:
        type(self).attempts += 1
        gate, who = asyncio.Event(), self.attempts
        await self.run(self.note, f"{who} came")
        self.came.put_nowait(gate)
        await gate.wait()
        await self.run(self.note, f"{who} went")


def test_an_alarm_that_another_process_runs_again_writes_nothing_more(app: App, other: App) -> None:
    Bell.attempts = 0
    app.object(Bell, "x").set_it().result()
    [job] = [row.alarm for row in app.read("select alarm from duework_object")]

    def attempt(who: App, fence: int) -> asyncio.Task[Any]:
        run = SimpleNamespace(job=SimpleNamespace(id=job, fence=fence), _buffer=Buffer())
        who.durable(Bell)
        task = who.wiring.registry.get("Bell.alarm")
        assert task is not None
        return asyncio.create_task(task.function(run, "x"))

    async def both() -> list[Any]:
        Bell.came = asyncio.Queue()
        first = attempt(app, 1)
        one = await Bell.came.get()
        second = attempt(other, 2)
        two = await Bell.came.get()
        one.set()
        lost = (await asyncio.gather(first, return_exceptions=True))[0]
        # One that stood still before it had even begun does not take it back.
        late = await attempt(app, 1)
        two.set()
        return [lost, late, await second]

    lost, late, rang = asyncio.run(asyncio.wait_for(both(), 10))

    assert isinstance(lost, LeaseLost)
    assert isinstance(late, Snooze)
    assert rang is None
    assert app.object(Bell, "x").rung().result() == ["1 came", "2 came", "2 went"]
    assert app.read("select * from duework_object_lease") == []


# --- files, lists, parts


def test_an_exported_object_is_an_ordinary_file(app: App, tmp_path: Path) -> None:
    ba = app.object(Flight, "BA117")
    ba.assign("1", "a").result()
    file = tmp_path / "flight.db"

    assert ba.export(file) == file.stat().st_size
    with sqlite3.connect(file) as connection:
        found = connection.execute("select * from seat").fetchall()
    connection.close()

    assert found == [("1", "a")]
    with pytest.raises(UsageError, match="there already"):
        ba.export(file)
    with pytest.raises(NotFound):
        app.object(Flight, "none").export(tmp_path / "none.db")


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_an_ordinary_file_is_imported_whatever_its_pages(
    harness: Harness, tmp_path: Path, journal: str
) -> None:
    file = tmp_path / "made.db"
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("pragma page_size = 16384")
    connection.execute(f"pragma journal_mode = {journal}")
    connection.execute("create table seat (id text primary key, occupant text)")
    connection.execute("insert into seat values ('7', 'x')")
    ba = harness.app.object(Flight, "BA117")
    for n in range(100):
        ba.assign(f"old {n}", "x" * 300).result()

    harness.app.object("Flight", "BA117").import_(file)
    connection.close()

    assert ba.seats().result() == ["7"]
    assert harness.app.admin.verify()[-5].violations == 0


def test_a_file_that_is_no_database_is_refused(harness: Harness, tmp_path: Path) -> None:
    file = tmp_path / "poem.txt"
    file.write_text("roses are red" * 1000)

    for path in (file, tmp_path / "nothing.db"):
        with pytest.raises(UsageError):
            harness.app.object("Flight", "x").import_(path)
    assert harness.app.objects() == []


def test_objects_are_listed_in_order_and_page_by_page(harness: Harness) -> None:
    app = harness.app
    for key in ("b2", "a1", "b1", "ä"):
        app.object(Flight, key).assign("1", "a").result()
    app.object(Clock, "z").arm("1h").result()

    assert (app.objects()[0].kind, app.objects()[0].key) == ("Clock", "z")
    assert [one.key for one in app.objects("Flight")] == ["a1", "b1", "b2", "ä"]
    assert [one.key for one in app.objects("Flight", prefix="b")] == ["b1", "b2"]
    assert [one.key for one in app.objects("Flight", after="a1", limit=1)] == ["b1"]
    assert len(list(app.all_objects())) == 5
    one = app.object("Clock", "z").info()
    assert (one.version, one.alarm, one.running) == (1, harness.now + 3_600_000, False)
    assert one.bytes == one.pages * 4096
    with pytest.raises(UsageError, match="name it"):
        app.objects(prefix="b")
    with pytest.raises(AttributeError, match="give the class"):
        app.object("Clock", "z").rung()


def test_a_part_gives_its_objects_its_name(harness: Harness) -> None:
    part = Part("air")

    @part.durable
    class Tower(DurableObject):
        def open(self) -> None:
            self.sql("create table if not exists rung (id)")

        def arm(self) -> None:
            self.set_alarm("1s")

        def note(self) -> None:
            self.sql("insert into rung values (1)")

        async def alarm(self) -> None:
            await self.run(self.note)

    harness.app.include(part)
    harness.app.object(Tower, "x").arm().result()
    harness.advance("1s")

    assert harness.app.object("air.Tower", "x").tables() == {"rung": 1}


def test_deleting_says_whether_there_was_one(harness: Harness) -> None:
    ba = harness.app.object(Flight, "BA117")
    assert ba.delete() is False
    ba.assign("1", "a").result()
    assert ba.delete() is True
    assert ba.seats().result() == []


@pytest.mark.parametrize(
    ("damage", "invariant"),
    [
        ("delete from duework_object_page where number = 2", "pages_are_whole"),
        ("delete from duework_object", "page_has_object"),
        ("delete from duework_job", "alarm_is_a_job"),
        ("update duework_object set alarm = null", "alarm_has_object"),
    ],
)
def test_verify_finds_what_is_wrong_with_objects(
    harness: Harness, damage: str, invariant: str
) -> None:
    harness.app.object(Clock, "x").arm("1h").result()
    assert all(finding.violations == 0 for finding in harness.app.admin.verify())

    with harness.app.transaction() as tx:
        tx.write(damage)

    broken = [finding.name for finding in harness.app.admin.verify() if finding.violations]
    assert invariant in broken
    with harness.app.wiring.engine.database.reading() as tx:
        assert sorted(broken_checks(tx)) == sorted(broken), (
            "all at once say the same as each by itself"
        )


def test_a_damaged_object_says_so_and_others_go_on(harness: Harness) -> None:
    app = harness.app
    app.limits = replace(app.limits, object_cache_bytes=0)
    for key in ("bad", "good"):
        app.object(Flight, key).assign("1", "a").result()
    with app.transaction() as tx:
        tx.write(
            "delete from duework_object_page where number = 2 and object ="
            " (select id from duework_object where key = 'bad')"
        )

    async def read() -> list[Any]:
        calls = [app.object(Flight, key).seats() for key in ("bad", "good")]
        return await asyncio.gather(*calls, return_exceptions=True)

    bad, good = asyncio.run(read())

    assert isinstance(bad, DatabaseError)
    assert good == ["1"]


def test_a_slow_method_does_not_hold_up_other_objects(harness: Harness) -> None:
    go = threading.Event()

    class Slow(DurableObject):
        def wait(self) -> None:
            go.wait(10)

    app = harness.app

    async def both() -> None:
        slow = asyncio.ensure_future(_awaited(app.object(Slow, "x").wait()))
        flights = [app.object(Flight, f"{n}").assign("1", "a") for n in range(40)]
        await asyncio.gather(*flights)
        assert not slow.done()
        go.set()
        await slow

    asyncio.run(asyncio.wait_for(both(), 10))


def test_a_call_after_the_end_is_told_so(app: App) -> None:
    ba, new = app.object(Flight, "BA117"), app.object(Flight, "BA118")
    ba.assign("1", "a").result()
    host = app.wiring.find(Objects).host
    app.close()

    for handle in (ba, new):
        with pytest.raises(UsageError, match="closed"):
            handle.seats().result()
    late = PendingCall(Flight.seats, (), {}, None)
    with pytest.raises(UsageError, match="closed"):
        host.run(app.wiring.find(Objects).know(Flight), "BA119", late)


async def _awaited(call: Any) -> Any:
    return await call


def test_importing_what_others_keep_changing_gives_up(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ba = harness.app.object(Flight, "x")
    ba.assign("1", "a").result()
    ba.export(tmp_path / "x.db")
    monkeypatch.setattr(Writer, "call", lambda *_, **__: [object_store.LOST])

    with pytest.raises(Conflict):
        ba.import_(tmp_path / "x.db")


def test_threads_that_ran_calls_end_when_there_are_none(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_host, "IDLE_SECONDS", 0.01)

    async def call() -> None:
        await harness.app.object(Flight, "x").assign("1", "a")

    asyncio.run(call())

    until(lambda: not [t for t in threading.enumerate() if t.name.startswith("duework-objects")])


class Typed(DurableObject):
    def add(self, count: int, names: list[str] | None = None) -> int:
        return count + len(names or [])

    def every(self, *counts: int, **named: float) -> list[Any]:
        return [*counts, *named.values()]

    async def visit(self, count: int) -> int:
        return int(await self.run(self.add, count))

    async def visit_wrongly(self) -> None:
        await self.run(self.add, "1")


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (
            lambda typed: typed.add("1"),
            "the argument count does not fit: Expected `int`, got `str`",
        ),
        (lambda typed: typed.add(1, [2]), "the argument names does not fit: Expected `str`"),
        (lambda typed: typed.add(), "missing a required argument: 'count'"),
        (lambda typed: typed.add(1, nmaes=[]), "unexpected keyword argument 'nmaes'"),
        (lambda typed: typed.every(1, "2"), "the argument counts does not fit"),
        (lambda typed: typed.every(1, half="x"), "the argument half does not fit"),
        (lambda typed: typed.visit("1"), "the argument count does not fit"),
        (
            lambda typed: typed.visit_wrongly().result(),
            "Typed.add: the argument count does not fit",
        ),
    ],
)
def test_arguments_of_methods_are_checked_as_those_of_a_task(
    app: App, call: Callable[[Any], Any], why: str
) -> None:
    with pytest.raises(InvalidArguments, match=re.escape(why)):
        call(app.object(Typed, "x"))

    assert app.read("select * from duework_object") == []


def test_arguments_that_fit_reach_the_method(app: App) -> None:
    typed = app.object(Typed, "x")

    assert typed.add(1).result() == 1
    assert typed.add(count=1, names=("a", "b")).result() == 3
    assert typed.every(1, 2, half=0.5).result() == [1, 2, 0.5]
    assert typed.visit(4).result() == 4
