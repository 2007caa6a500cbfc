"""Jobs that wait for another one start as soon as it is done, not when somebody looks again."""

from __future__ import annotations

import asyncio

from duework import App


def test_a_line_of_jobs_goes_on_at_once(app: App) -> None:
    @app.task
    async def step(n: int) -> int:
        await asyncio.sleep(0.05)
        return n

    line = [step.using(serial="s").enqueue(n) for n in range(4)]
    last = step.using(after=line[-1]).enqueue(4)

    async def work() -> str:
        async with app.running():
            return (await last.await_("8s")).state

    assert asyncio.run(work()) == "done"
