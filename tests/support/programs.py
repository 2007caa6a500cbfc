"""A program of its own for tests with real processes: an App, its tasks, and a worker.

`python -m tests.support.programs` works until SIGTERM; it writes every fact as a line of JSON to its
standard output. Its database comes from DUEWORK_URL, the rest from PROGRAM, a JSON object (see `start`
in `processes.py`). Every run of a task leaves a line in the file RUNS, and, if it is settled, a row in
the table `effect`.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from duework import (
    App,
    Channel,
    End,
    Event,
    Fail,
    Next,
    Outbox,
    Page,
    Quota,
    Rate,
    Run,
    Send,
    Sent,
    Throttled,
    preparing,
)
from duework.errors import UsageError
from duework.worker.wake import wakeups
from tests.support.receiver import post

TABLE = "create table if not exists effect (job bigint not null, note text not null)"
INSERT = "insert into effect (job, note) values (:job, :note)"
COUNT = """
with recursive c (n) as (select 1 union all select n + 1 from c where n < :rows)
select cast(:who as text) as who, count(*) as n from c
"""

options: dict[str, Any] = json.loads(os.environ.get("PROGRAM", "{}"))
app = App(
    lease=options.get("lease", "1500ms"),
    grace=options.get("grace", "10s"),
    concurrency=options.get("concurrency", 100),
    threads=options.get("threads", 10),
    processes=options.get("processes", 2),
)
app.queue("narrow", concurrency=3)


def note(run: Run, what: str) -> None:
    """One line per event, also from processes that are about to die."""
    line = f"{what} {run.job.id} {os.getpid()} {time.monotonic()} {run.job.fence}\n"
    handle = os.open(os.environ["RUNS"], os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    os.write(handle, line.encode())
    os.close(handle)


@contextlib.contextmanager
def noted(run: Run) -> Any:
    note(run, "start")
    try:
        yield
    except BaseException as error:
        note(run, f"raised-{type(error).__name__}")
        raise
    note(run, "end")


# --- ordinary tasks


@app.task
async def quick(run: Run, name: str = "") -> str:
    run.write(INSERT, job=run.job.id, note=name)
    note(run, "start")
    return name


@app.task(queue="narrow")
async def limited(run: Run) -> None:
    with noted(run):
        run.write(INSERT, job=run.job.id, note="")
        await asyncio.sleep(0.005)


@app.task(pace=Rate("100/1s"))
async def paced(run: Run) -> None:
    note(run, "start")


grant = Quota("grant", windows={"1d": 100})


@app.task(isolation="process", pace=grant)
def isolated_call(run: Run, word: str) -> None:
    """Tells its quota something, from a process of its own."""
    note(run, "start")
    if word == "throttled":
        raise Throttled("1h")
    if word == "spent":
        run.spent(grant, 0)
        return
    grant.saw(used=40, limit=1000)


@app.task
async def nap(run: Run, seconds: float, times: int = 1) -> str:
    """Sleeps the first time, or the first few, and is quick when it is run again."""
    with noted(run):
        run.write(INSERT, job=run.job.id, note=f"fence {run.job.fence}")
        if run.job.fence <= times:
            await asyncio.sleep(seconds)
    return "rested"


@app.chain(page_size=10)
async def walk(page: Page, pages: int) -> Next | End:
    """Its second page sleeps the first time."""
    with noted(page.run):
        page.run.write(INSERT, job=page.run.job.id, note=f"page {page.number}")
        if page.number == 2 and page.run.job.fence == 1:
            await asyncio.sleep(60)
        page.expect(10 * pages)
    counts = {"items": page.size}
    return End(counts) if page.number == pages else Next(10 * page.number, counts)


@app.chain(page_size=1)
async def stroll(page: Page, pages: int) -> Next | End:
    page.run.write(INSERT, job=page.run.job.id, note=f"{page.chain}:{page.number}")
    await asyncio.sleep(0.01)
    counts = {"items": 1}
    return End(counts) if page.number == pages else Next(page.number, counts)


@app.task
async def long(run: Run, seconds: float) -> str:
    with noted(run):
        run.write(INSERT, job=run.job.id, note="")
        await asyncio.sleep(seconds)
    return "slept"


@app.task
def long_thread(run: Run, seconds: float) -> str:
    """A well-behaved thread: it looks at `run.cancelled`."""
    with noted(run):
        run.write(INSERT, job=run.job.id, note="")
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if run.cancelled:
                raise RuntimeError("told to stop")
            time.sleep(0.01)
    return "slept"


@app.task(isolation="process")
def long_isolated(run: Run, seconds: float) -> str:
    with noted(run):
        run.write(INSERT, job=run.job.id, note="")
        time.sleep(seconds)
    return "slept"


@app.task
async def finishes_anyway(run: Run) -> str:
    note(run, "start")
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        note(run, "told")
    return "done all the same"


@app.task
async def killer(run: Run) -> None:
    note(run, "start")
    await asyncio.sleep(0.2)
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(timeout="300ms")
async def deaf(run: Run) -> None:
    """Ignores every cancellation, until the process ends."""
    note(run, "start")
    end = time.monotonic() + 20
    while time.monotonic() < end:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0.1)


@app.task(timeout="300ms")
def stuck(run: Run, seconds: float) -> str:
    """A thread that does not look up until it is through; its result comes too late."""
    run.write(INSERT, job=run.job.id, note="late")
    note(run, "start")
    time.sleep(seconds)
    note(run, "end")
    return "late"


@app.task
async def blocks_the_loop(run: Run, seconds: float) -> None:
    with noted(run):
        run.write(INSERT, job=run.job.id, note="")
        time.sleep(seconds)  # noqa: ASYNC251 - the mistake that is looked for


# --- tasks with a process of their own


@app.task(isolation="process")
def describes_itself(run: Run, name: str) -> dict[str, Any]:
    run.write(INSERT, job=run.job.id, note=name)
    run.enqueue(quick, f"after {name}")
    run.batch(quick, [f"one of {name}", f"two of {name}"], name=name)
    open_files = []
    for handle in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            open_files.append(os.readlink(f"/proc/self/fd/{handle}"))
    address = "none"
    try:
        app.job(1)
    except Exception as error:  # noqa: BLE001 - its text is the point
        address = f"{type(error).__name__}: {error}"
    return {
        "name": name,
        "pid": os.getpid(),
        "environ": sorted(os.environ),
        "values": " ".join(os.environ.values()),
        "files": sorted(open_files),
        "database": address,
    }


@app.task(isolation="process")
async def isolated_async(run: Run, name: str) -> str:
    await asyncio.sleep(0.01)
    run.write(INSERT, job=run.job.id, note=name)
    return name


@app.task(isolation="process", retries=0)
def talks_while_it_ends(run: Run) -> str:
    """Has threads that say how far it is, until the very end, and a result of many frames."""

    def talk() -> None:
        while True:
            run.progress(1, 2, "x" * 100)

    for _ in range(4):
        threading.Thread(target=talk, daemon=True).start()
    time.sleep(0.1)
    return "y" * 900_000


@app.task(isolation="process")
def reads_over_the_pipe(run: Run) -> list[Any]:
    run.progress(3, 10, "a third")
    rows = run.read("select note from effect where note = :note", note="seed")
    time.sleep(1)
    return [row.note for row in rows]


class TooLong(Exception):
    """What an alarm raises."""


def too_long(*_: Any) -> None:
    raise TooLong


def alarm_after(seconds: float, handler: Callable[..., None]) -> None:
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def count(run: Run, who: str, rows: int = 1_000_000) -> str:
    """A slow question, unless it is about few rows."""
    return str(run.read(COUNT, who=who, rows=rows)[0].who)


@app.task(isolation="process", retries=0)
def is_torn_away(run: Run, sizes: list[int]) -> str:
    """An alarm ends its wait for an answer, or for the parent to take a long question."""
    for size in sizes:
        alarm_after(0.05, too_long)
        with contextlib.suppress(TooLong):
            count(run, "x" * size)
            return "was not torn away"
    return count(run, "the last one", rows=1)


@app.task(isolation="process", retries=0)
def asks_while_it_asks(run: Run) -> list[str]:
    heard: list[str] = []
    alarm_after(0.05, lambda *_: heard.append(count(run, "handler", rows=1)))
    heard.append(count(run, "task"))
    return heard


@app.task(isolation="process", retries=0)
def leaves_an_alarm(run: Run) -> str:
    """A question of its thread keeps its result waiting until the alarm."""
    threading.Thread(target=count, args=(run, "thread", 3_000_000), daemon=True).start()
    time.sleep(0.05)
    alarm_after(0.2, too_long)
    return "through"


@app.task(isolation="process", retries=0)
def asks_in_a_fork(run: Run) -> str:
    ours, theirs = os.pipe()
    if os.fork() == 0:
        try:
            said = count(run, "fork", rows=1)
        except UsageError as error:
            said = str(error)
        os.write(theirs, said.encode())
        os._exit(0)
    return os.read(ours, 1000).decode()


@app.task(isolation="process")
def reads_nonsense(run: Run) -> None:
    run.read("select 1 from nowhere")


@app.task(isolation="process")
def exits_at_once(run: Run) -> None:
    run.write(INSERT, job=run.job.id, note="never")
    os._exit(0)


@app.task(isolation="process")
def leaves_a_fork() -> None:
    """Its own end is not the end of the pipe, which the fork keeps open."""
    if os.fork() == 0:
        time.sleep(60)
    os._exit(7)


@app.task(isolation="process")
def leaves_politely(run: Run) -> None:
    run.write(INSERT, job=run.job.id, note="never")
    sys.exit(0)


@app.task(isolation="process")
def segfaults() -> None:
    ctypes.string_at(0)


@app.task(isolation="process", memory_mb=400)
def eats_memory() -> int:
    return len(bytearray(2_000_000_000))


@app.task(isolation="process", cpu_seconds=1)
def burns() -> None:
    while True:
        pass


def _starts_another(run: Run) -> None:
    note(run, "start")
    with subprocess.Popen(["sleep", "60"]) as grandchild:
        note(run, f"grandchild-{grandchild.pid}")
        grandchild.wait()


@app.task(isolation="process", timeout="500ms")
def runs_over(run: Run) -> None:
    _starts_another(run)


@app.task(isolation="process")
def starts_another(run: Run) -> None:
    _starts_another(run)


@app.task(isolation="process")
def commits_a_function(run: Run) -> None:
    run.commit(lambda tx: tx.write(INSERT, job=1, note="never"))


@app.task(isolation="process")
def calls_an_object(run: Run) -> None:
    run.object("Flight", "BA117")


@app.task(isolation="process")
def gives_up() -> None:
    raise Fail("no use")


@app.task(isolation="process", retries=1, backoff="10ms")
def fails_once(run: Run) -> int:
    if run.attempt == 1:
        raise ValueError("the first time")
    return run.attempt


@app.task(isolation="process")
def tiny(number: int) -> int:
    return number


def keyed(url: str, key: str) -> None:
    post(url, "keyed", key)


def plain(url: str) -> None:
    post(url, "plain")


@app.delivery(channels={"keyed": Channel(keyed), "plain": Channel(plain)})
def letter(url: str) -> dict[str, str]:
    return {"keyed": url, "plain": url}


class Choice(msgspec.Struct):
    to: str
    by: int


def choice_made(to: Send, choice: Choice) -> None:
    """Sent by the worker, with what the body's process chose."""
    text = f"{choice.to} {choice.by != os.getpid()} {to.arguments['name']}"
    to.write(INSERT, job=to.arguments["mark"], note=text)
    if choice.to == "once" and to.attempt == 1:
        raise ValueError("not yet")


@app.delivery(
    channels={"first": Channel(choice_made), "second": Channel(choice_made)},
    isolation="process",
    partial="retry-failed",
    retries=1,
    backoff="10ms",
)
async def chosen_apart(run: Run, name: str, mark: int) -> dict[str, Choice] | None:
    """Chooses its channels in a process of its own."""
    note(run, "start")
    run.write(INSERT, job=run.job.id, note=f"chose {run.read('select 1 as one')[0].one}")
    if name == "nobody":
        return None
    if name == "wrong":
        return {"third": Choice("x", 1)}
    return {"first": Choice("once", os.getpid()), "second": Choice("twice", os.getpid())}


class Hook(Outbox[str]):
    """The message is the address that it is sent to."""

    def __init__(self, memory: str | None) -> None:
        self.remembers_keys = memory

    def submit(self, message: str, key: str) -> Sent:  # type: ignore[override]
        post(message, key.partition(":")[0], key)
        return Sent()


mindful = app.outbox("mindful", Hook("1h"))
forgetful = app.outbox("forgetful", Hook(None))


def _connects(there: str) -> None:
    """Waits at its first try before anything has left, and is killed there."""
    with preparing():
        tried = Path(there)
        if not tried.exists():
            tried.touch()
            time.sleep(60)
    with tried.open("a") as file:
        file.write("sent\n")


class Careful(Outbox[str]):
    def submit(self, message: str, key: str) -> Sent:
        _connects(message)
        return Sent()


careful = app.outbox("careful", Careful())


def connects(there: str) -> None:
    _connects(there)


@app.delivery(channels={"plain": Channel(connects)})
def careful_letter(there: str) -> dict[str, str]:
    return {"plain": there}


class Silent(Outbox[str]):
    async def submit(self, message: str, key: str) -> Sent:
        return Sent()


silent = app.outbox("silent", Silent())


@app.task(isolation="process")
def asks_for_all_shapes(run: Run, name: str, *, fails: bool = False) -> None:
    run.start(stroll.using(key=name), 2)
    run.submit(silent.using(key=name), f"from {name}")
    run.schedule(quick, every="1h", args=(f"hourly {name}",), key=name)
    if fails:
        raise Fail("no use")


def _nested() -> Any:
    @app.task(isolation="process")
    def hidden() -> None: ...

    return hidden


hidden = _nested()


# --- the program


def tell(fact: Any) -> None:
    say(type(fact).__name__, **{name: getattr(fact, name) for name in fact.__dataclass_fields__})


def say(fact: str, **fields: Any) -> None:
    line = json.dumps({"fact": fact, "at": time.monotonic(), **fields}) + "\n"
    os.write(sys.stdout.fileno(), line.encode())


def count_statements() -> Callable[[], int]:
    """How many statements apsw has been given so far, apart from the look at `data_version`."""
    import apsw

    lock, total = threading.Lock(), 0

    def seen(_cursor: Any, sql: str, _values: Any) -> bool:
        nonlocal total
        if "data_version" not in sql:
            with lock:
                total += 1
        return True

    def hook(connection: apsw.Connection) -> None:
        connection.exec_trace = seen

    apsw.connection_hooks.append(hook)
    return lambda: total


async def report(counted: Callable[[], int]) -> None:
    while True:
        say("Statements", n=counted())
        await asyncio.sleep(0.5)


# --- three subscribers, two of single events and one of bulks

if options.get("events"):

    async def heard(run: Run, who: str, events: list[Event]) -> None:
        """Slow enough to be killed in."""
        note(run, "start")
        for event in events:
            run.write(INSERT, job=event.id, note=who)
        await asyncio.sleep(0.02)

    @app.on("shipped")
    async def first_ear(run: Run, event: Event) -> None:
        await heard(run, "first", [event])

    @app.on("shipped")
    async def second_ear(run: Run, event: Event) -> None:
        await heard(run, "second", [event])

    @app.on("shipped", bulk=5, within="200ms")
    async def third_ear(run: Run, events: list[Event]) -> None:
        await heard(run, "third", events)


# --- a sweep with one row that kills its process

if options.get("sweep"):

    @app.sweep("select id from track where done is null order by id", parallel=4, every="200ms")
    async def clean(run: Run, id: int) -> None:  # noqa: A002 - the column
        note(run, f"row-{id}")
        if id == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        run.write("update track set done = coalesce(done, 0) + 1 where id = :id", id=id)
        await asyncio.sleep(0.01)


async def main() -> int:
    app.on_fact(tell)
    counted = count_statements() if options.get("count") else None
    if options.get("no_listener"):
        break_the_listener()
    if options.get("slow_listener"):
        delay_the_listener()
    if options.get("no_pulse"):
        wakeups.TICK_SECONDS = wakeups.SOON_SECONDS = wakeups.SLOW_TICK_SECONDS = 60.0
    if options.get("no_slow_tick"):
        wakeups.SLOW_TICK_SECONDS = 60.0
    if options.get("no_notices"):
        wakeups.Notices.of = classmethod(lambda _, __: None)  # type: ignore[assignment]
    if "patience" in options:
        app.limits = replace(app.limits, patience_ms=options["patience"])
    worker = app.worker()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, worker.stop)
    reporting = asyncio.create_task(report(counted)) if counted is not None else None
    try:
        await worker.run()
    except Exception as error:  # noqa: BLE001 - told to the test
        say("Ended", error=type(error).__name__, why=str(error))
        return 3
    finally:
        if reporting is not None:
            reporting.cancel()
        say("Bye", recycle=worker.recycle)
        await asyncio.to_thread(app.close)
    return 0


def break_the_listener() -> None:
    """As behind a pooler that cannot LISTEN: the connection is refused each time."""
    from duework.db.postgres import listen

    def refused(url: str, **settings: str) -> dict[str, Any]:
        return {"host": "127.0.0.1", "port": 1, "connect_timeout": 1}

    listen.arguments = refused


def delay_the_listener() -> None:
    """As on a slow network: it takes a second until notifications arrive."""
    from duework.db.postgres import listen

    serve = listen.Listener._serve  # noqa: SLF001 - the thread's own function

    def late(self: Any) -> None:
        time.sleep(0.8)
        serve(self)

    listen.Listener._serve = late  # type: ignore[method-assign]  # noqa: SLF001


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
