"""Article 002, the durable outbox: its pace, queries inside an object, and pages that change themselves."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.articles.figure import Figure, percentile
from duework import App, DurableObject, Pending
from duework.testing import Harness
from duework.web.tokens import Tokens
from systems.mailroom.mail import NewMessage
from systems.mailroom.outbox import box
from systems.mailroom.part import part
from systems.mailroom.posting import post, post_many
from systems.mailroom.providers.acs import Acs
from systems.mailroom.settings import Settings
from systems.twins import twins

# What the article's loop comes to: 15 submits and 20 polls in a tick of ten seconds.
THEIRS = {1: 90, 2: 59, 3: 40}
IDEAL = {1: 90, 2: 60, 3: 40}


@contextmanager
def settings(**values: object) -> Iterator[None]:
    before = part.settings
    part._settings = Settings(**values)  # type: ignore[arg-type]  # noqa: SLF001 - for this run
    try:
        yield
    finally:
        part._settings = before  # noqa: SLF001


def rates(*, quick: bool) -> list[Figure]:
    return [_rate(polls, 120 if quick else 900) for polls in (1, 2, 3)]


def _rate(polls: int, count: int) -> Figure:
    """Messages a minute, in virtual time, over the twin: it needs so many polls for each."""
    app = App()
    app.include(part)
    with Harness(app) as h, twins(h.clock, "acs") as t, settings(endpoint=t.acs.url):
        t.acs.set_plan("raised")
        t.acs.set_times(running=1)
        asked = _slow_polls(polls)
        for some in range(0, count, 20):
            new = [(f"k-{n}", _new(n)) for n in range(some, min(count, some + 20))]
            post_many(app, "acme", new)
        began = h.now
        with asked:
            _until_sent(h, count)
        minutes = (h.now - began) / 60_000
    ours = f"{count / minutes:.0f}/min"
    what = f"mails a minute at 15 submits and 20 polls in 10 s, each polled {polls} times"
    return Figure("002", what, f"{THEIRS[polls]}/min", ours, f"{IDEAL[polls]}/min")


def _until_sent(h: Harness, count: int) -> None:
    end = h.now + 3_600_000
    while box.counts()["sent"] < count and h.now < end:
        h.advance("10s")


@contextmanager
def _slow_polls(needed: int) -> Iterator[None]:
    """The provider knows what became of a mail when it is asked for so many times."""
    seen: Counter[str] = Counter()
    poll = Acs.poll

    async def counted(self: Acs, handle: str) -> object:
        seen[handle] += 1
        return await poll(self, handle) if seen[handle] >= needed else Pending()

    Acs.poll = counted  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        Acs.poll = poll  # type: ignore[method-assign]


def _new(number: int) -> NewMessage:
    return NewMessage(to=f"p{number}@demo.example", subject=f"Mail {number}", text="Hi")


class Shop(DurableObject):
    """100 parents with a child each."""

    def open(self) -> None:
        self.sql("create table if not exists parent (id integer primary key, name text)")
        self.sql("create table if not exists child (parent int primary key, name text)")

    def fill(self, count: int) -> None:
        for number in range(count):
            self.sql("insert into parent values (:n, :name)", n=number, name=f"p{number}")
            self.sql("insert into child values (:n, :name)", n=number, name=f"c{number}")

    def one_by_one(self) -> tuple[int, float]:
        """A query for the parents, and one for the child of each; rows and seconds."""
        began = time.perf_counter()
        parents = self.sql("select * from parent")
        rows = [self.sql("select * from child where parent = :id", id=each.id) for each in parents]
        return sum(map(len, rows)), time.perf_counter() - began

    def joined(self) -> tuple[int, float]:
        began = time.perf_counter()
        rows = self.sql("select * from parent join child on child.parent = parent.id")
        return len(rows), time.perf_counter() - began


def queries(*, quick: bool) -> list[Figure]:
    """The article: 100 parents over a network of 5 ms take 505 ms, in the object next to nothing."""
    app = App("sqlite://")
    with Harness(app):
        shop = app.object(Shop, "one")
        shop.fill(100).result()
        each, joined = [], []
        for _ in range(5 if quick else 200):
            rows, took = shop.one_by_one().result()
            assert rows == 100
            each.append(took)
            rows, took = shop.joined().result()
            assert rows == 100
            joined.append(took)
    ours, ideal = percentile(each, 0.5) * 1000, percentile(joined, 0.5) * 1000
    what = "101 queries for 100 parents, inside an object; ideal is one join there"
    return [Figure("002", what, "505 ms over a network", f"{ours:.2f} ms", f"{ideal:.2f} ms")]


def pages(*, quick: bool) -> list[Figure]:
    """From the commit of a state to the push on every one of the open pages."""
    count, rounds = (10, 5) if quick else (200, 30)
    with TemporaryDirectory() as folder:
        app = App(f"sqlite:///{Path(folder) / 'pages.db'}")
        app.include(part)
        app.admin.migrate(create=True)
        try:
            late = _pushes(app, count, rounds)
        finally:
            app.close()
    ours = f"{percentile(late, 0.99) * 1000:.0f} ms"
    what = f"state change to page, p99, {count} pages open"
    return [Figure("002", what, "not said", ours, "one frame, 17 ms")]


def _pushes(app: App, count: int, rounds: int) -> list[float]:
    import httpx2
    import uvicorn
    from websockets.sync.client import connect

    listening = socket.create_server(("127.0.0.1", 0))
    host = f"127.0.0.1:{listening.getsockname()[1]}"
    server = uvicorn.Server(uvicorn.Config(app.asgi(), log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    origin = {"origin": f"http://{host}"}
    token = Tokens(app).add("bench", "operate", None)
    answer = httpx2.post(f"http://{host}/login", data={"token": token}, headers=origin)
    cookie = "; ".join(f"{name}={value}" for name, value in answer.cookies.items())
    late: list[float] = []
    try:
        with ExitStack() as stack:
            url = f"ws://{host}/live?page=%2Fmailroom%2F"
            headers = {**origin, "cookie": cookie}
            open_ = [
                stack.enter_context(connect(url, additional_headers=headers, max_size=None))
                for _ in range(count)
            ]
            time.sleep(1)
            for number in range(rounds):
                words = f"Mail {10_000 + number}"
                post(app, "acme", f"k-{number}", _new(10_000 + number))
                began = time.perf_counter()
                readers = [
                    threading.Thread(target=_wait, args=(page, words, began, late))
                    for page in open_
                ]
                for each in readers:
                    each.start()
                for each in readers:
                    each.join()
    finally:
        server.should_exit = True
        thread.join(10)
    return late


def _wait(page: object, words: str, began: float, late: list[float]) -> None:
    while words not in str(page.recv(timeout=30)):  # type: ignore[attr-defined]
        continue
    late.append(time.perf_counter() - began)


FIGURES: dict[str, Callable[..., list[Figure]]] = {"pace": rates, "n+1": queries, "pages": pages}
