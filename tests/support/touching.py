"""Tasks that name topics, one of them in a process of its own; run as a program it prints what it is told."""

from __future__ import annotations

import asyncio
import json
import os

from duework import App, Run

app = App(os.environ.get("TOUCHING_URL"), processes=1)


@app.task(isolation="process", retries=0)
def apart(run: Run, topic: str, fail: bool = False) -> None:
    run.touch(topic)
    if fail:
        raise ValueError("undone")


async def told() -> list[str]:
    """All topics that come until both jobs have ended."""
    changes = app.changes(coalesce="0s")
    found: set[str] = set()
    enough = asyncio.Event()

    async def listen() -> None:
        async for change in changes:
            found.update(change.topics or ())
            if "user:7" in found:
                enough.set()

    listening = asyncio.create_task(listen())
    async with app.running():
        bad, good = apart.enqueue("user:8", fail=True), apart.enqueue("user:7")
        await bad.await_(timeout="60s")
        await good.await_(timeout="60s")
    await asyncio.wait_for(enough.wait(), 30)
    listening.cancel()
    return sorted(found)


def main() -> None:
    print(json.dumps(asyncio.run(told())))  # noqa: T201
    app.close()
