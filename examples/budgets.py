"""A budget: five questions, money for three of them, and somebody who raises it."""

import asyncio
import tempfile
from pathlib import Path

from duework import App

folder = tempfile.TemporaryDirectory()
app = App(f"sqlite:///{Path(folder.name) / 'budgets.db'}")
llm = app.budget("llm", limit="0.06", per="month")


@app.task
async def ask(number: int) -> str:
    async with llm.reserve("0.02") as spend:
        spend.settle("0.018")
    return f"answer {number}"


async def main() -> None:
    jobs = [ask.enqueue(number) for number in range(5)]
    async with app.running():
        await asyncio.sleep(1)
        waiting = [job for job in app.jobs(task="ask") if job.phase == "waiting"]
        print(f"{llm.status().spent} spent, {len(waiting)} wait")
        llm.raise_to("1")
        for job in jobs:
            await job.await_("10s")
    print(f"{llm.status().spent} spent, {len(llm.status().ledger())} rows in the ledger")


if __name__ == "__main__":
    asyncio.run(main())
    app.close()
    folder.cleanup()
