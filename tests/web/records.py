"""Rows of events, sweeps, workflows, budgets, blobs, metrics and tags, for the pages that show them."""

from __future__ import annotations

import asyncio
from typing import Any

from duework import App, Event, Run

# Stays text wherever it stands, however long, and whichever way it reads.
NASTY = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)> مرحبا 🎈 \u202e"
LONGEST = "x" * 128


class Records:
    """An App that has one of each."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.hear = app.on("shipped", name="hear", retries=0)(self._hear)
        self.clean = app.sweep("select 7 as number", name="clean", backoff="1h")(self._clean)
        self.llm = app.budget("llm", limit=50)
        self.order = app.task(name="order")(self._order)

    @staticmethod
    async def _hear(event: Event[Any]) -> None:
        if event.payload == NASTY:
            raise ValueError(NASTY)

    @staticmethod
    async def _clean(number: int) -> None:
        raise ValueError(f"row {number}: {NASTY}")

    @staticmethod
    async def _order(run: Run, item: str) -> Any:
        await run.step("charge", lambda: item)
        await run.sleep("1ms")
        return await run.wait_for("approved", key=item)

    def seed(self) -> dict[str, Any]:
        """Some of everything, and where it is."""
        app = self.app
        event = app.publish("shipped", NASTY)
        app.publish(LONGEST, {"of": LONGEST})
        flows = [self.order.using(tags=("tenant:7",)).enqueue(item).id for item in (NASTY, LONGEST)]
        with self.llm.reserve(5, note=NASTY):
            pass
        app.budget(LONGEST[:100], limit=1).status()
        app.blobs.put(NASTY.replace("\u202e", ""), b"x" * 100_000, ttl="1h")
        app.blobs.put(LONGEST * 2, "x")
        app.metrics.add("sold", 12, item=NASTY.replace("\u202e", ""), place=LONGEST)
        app.metrics.time("packed", 1.5)
        asyncio.run(app.worker().run_until_idle())
        return {"event": event, "flow": flows[0], "other_flow": flows[1]}


PAGES = [
    "/events",
    "/events/{event}",
    "/sweeps/one?name=clean",
    "/steps/{flow}",
    "/budgets",
    "/budgets/one?name=llm",
    "/blobs",
    "/metrics/names",
    "/metrics/one?name=sold&span=minute",
    "/jobs?tag=tenant:7",
]
