"""A sync of 2,500 items in pages, cancelled in the middle, resumed, and whole at the end."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from duework import App, Chain, End, Next, Page

UPSTREAM = range(1, 2501)


async def fetch(after: int, size: int) -> list[int]:
    """Stands for an API that has pages."""
    await asyncio.sleep(0.01)
    return list(UPSTREAM[after : after + size])


async def main(url: str) -> None:
    app = App(url)

    @app.chain(page_size=500, key="athlete:{athlete}", retries=3)
    async def activities(page: Page, athlete: int) -> Next | End:
        found = await fetch(page.cursor or 0, page.size)
        rows = [{"id": each, "athlete": athlete} for each in found]
        page.run.write("insert into activity (id, athlete) values (:id, :athlete)", rows=rows)
        page.expect(len(UPSTREAM))
        counts = {"fetched": len(found)}
        return Next(found[-1], counts) if len(found) == page.size else End(counts)

    @activities.finished
    def reconcile(tx: Any, chain: Chain) -> dict[str, int]:
        stored = tx.read("select count(*) as n from activity")[0].n
        return {"missing": chain.counts["fetched"] - stored}

    with app.transaction() as tx:
        tx.write("create table activity (id bigint primary key, athlete bigint)")
    async with app.running():
        sync = await activities.astart(athlete=7)
        while (await sync.aprogress()).pages < 2:  # noqa: ASYNC110 - looks from outside
            await asyncio.sleep(0.005)
        await sync.acancel("enough for now")
        # The page that was running is completed, and no other follows.
        await asyncio.sleep(0.2)
        stopped = await sync.aprogress()
        print(f"{stopped.state} after {stopped.pages} pages, {stopped.percent} %")
        await sync.aresume()
        await sync.await_(timeout="10s")
        for page in sync.pages():
            print(f"page {page.number}: {page.phase}, {page.counts}")
        print(f"in all: {dict((await sync.aprogress()).counts)}")
    app.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(f"sqlite:///{Path(folder, 'chain.db')}"))
