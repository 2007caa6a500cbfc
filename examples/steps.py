"""A workflow: charged once, asleep without a worker, and shipped when somebody says so."""

import asyncio
import tempfile
from pathlib import Path

from duework import App, Run

folder = tempfile.TemporaryDirectory()
app = App(f"sqlite:///{Path(folder.name) / 'steps.db'}")


async def charge(order: int) -> str:
    print(f"order {order}: charged")
    return f"receipt-{order}"


@app.task
async def fulfil(run: Run, order: int) -> str:
    receipt = await run.step("charge", charge, order)
    await run.sleep("200ms")
    approval = await run.wait_for("approved", key=str(order))
    print(f"order {order}: approved by {approval['by']}")
    return receipt


async def main() -> None:
    job = fulfil.enqueue(7)
    app.signal("approved", {"by": "ada"}, key="7")
    async with app.running():
        print("result:", (await job.await_("10s")).result)
    for step in app.get_workflow(job.id).steps():
        print(f"{step.place}. {step.name} ({step.kind}): {step.state}")


if __name__ == "__main__":
    asyncio.run(main())
    app.close()
    folder.cleanup()
