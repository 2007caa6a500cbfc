"""DBOS on SQLite: workflows of five recorded steps, which do nothing else. Prints the seconds they took.

python -m bench.peers.dbos_workflows COUNT
"""

import asyncio
import json
import os
import sys
import time

from dbos import DBOS

from bench.peers.protocol import FOLDER

STEPS = 5
# So many are under way at a time: it starts a task for each, and all of them want the one writer.
AT_ONCE = 100


async def main(count: int) -> float:
    DBOS(
        config={
            "name": "bench",
            "system_database_url": f"sqlite:///{FOLDER}/dbos.db",
            "run_admin_server": False,
            "log_level": "ERROR",
            "application_version": "1",
        }
    )

    @DBOS.step(name="effect")
    async def effect(step: int) -> int:
        return step

    @DBOS.workflow(name="flow")
    async def flow() -> int:
        return sum([await effect(step) for step in range(STEPS)])

    DBOS.launch()
    places = asyncio.Semaphore(AT_ONCE)

    async def one() -> int:
        async with places:
            handle = await DBOS.start_workflow_async(flow)
            return await handle.get_result()

    began = time.perf_counter()
    done = await asyncio.gather(*(one() for _ in range(count)))
    took = time.perf_counter() - began
    assert done == [sum(range(STEPS))] * count
    return took


if __name__ == "__main__":
    seconds = asyncio.run(main(int(sys.argv[1])))
    print(json.dumps(seconds), flush=True)
    os._exit(0)
