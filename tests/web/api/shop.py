"""An App with one of each shape, for programs that ask about it."""

from __future__ import annotations

from typing import Any

from duework import (
    App,
    Channel,
    DurableObject,
    End,
    Event,
    Next,
    Outbox,
    Page,
    Rate,
    Rejected,
    Run,
    Sent,
)

HOSTILE = "\x1b[2J<script>alert(1)</script> \u202e é"


class Post(Outbox[str]):
    async def submit(self, message: str, key: str) -> Sent | Rejected:
        return Sent() if message == "good" else Rejected(message)


class Drawer(DurableObject):
    def put(self, thing: str) -> None:
        self.sql("create table if not exists thing (name text)")
        self.sql("insert into thing values (:thing)", thing=thing)


def shop(url: str, blobs: str | None = None) -> App:
    """Its tasks: greet, add, fails, gone, tell; and one of each shape."""
    app = App(url, blobs=blobs)

    @app.task
    async def greet(name: str, polite: bool = False) -> str:
        return f"hello {name}"

    @app.task(pace=Rate("1000/1s", name="slow"))
    async def add(a: int, b: int) -> int:
        return a + b

    @app.task(queue="mail")
    async def fails(text: str) -> None:
        raise ValueError(text)

    @app.task(keep=0)
    async def gone(text: str) -> None: ...

    @app.task
    async def tell(batch: int) -> None: ...

    @app.chain(key="user:{user}", retries=0)
    async def pull(page: Page, user: int, fail: int = 0) -> Next | End:
        if page.number == fail:
            raise ConnectionError("no")
        page.expect(30)
        counts: dict[str, int | float] = {"items": 10}
        return End(counts) if page.number == 3 else Next(page.number, counts)

    app.outbox("post", Post())

    async def lost(payload: str) -> None:
        raise TimeoutError(payload)

    @app.delivery(channels={"email": Channel(lost)})
    def remind(to: str) -> dict[str, Any]:
        return {"email": to}

    _records(app)
    return app


def _records(app: App) -> None:
    """A subscriber that fails, a sweep with a bad item, a workflow that waits, a budget and a metric."""

    @app.on("sold", retries=0)
    async def ship(event: Event[Any]) -> None:
        raise ConnectionError("no van")

    @app.sweep("select 2 as shelf", retries=0, every="1h", start=False)
    async def count_stock(shelf: int) -> None:
        raise ValueError(HOSTILE)

    llm = app.budget("llm", limit=5)

    @app.task
    async def order(run: Run, item: str) -> Any:
        paid = await run.step("charge", charge, item)
        return paid, await run.wait_for("approved", key=item)

    async def charge(item: str) -> str:
        async with llm.reserve(1, note=item) as spend:
            spend.settle("0.5")
        app.metrics.add("charged", 1, item=item)
        return f"paid {item}"
