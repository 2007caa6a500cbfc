"""Many isolated tasks that each ask a server over https, and say who made their TLS context."""

from __future__ import annotations

import asyncio
import json
import os

from duework import App, http
from duework.outside import wire

MADE_IN = os.getpid()
app = App(os.environ.get("CHECKS_URL"), processes=2)
github = http.Client(os.environ.get("CHECKS_SERVER", "https://nowhere"), ca=os.environ["CHECKS_CA"])


def facts(reply: http.Response, before: int) -> list[int]:
    after = wire.tls.cache_info().misses
    return [int(reply.check().text), before, after, MADE_IN, os.getpid()]


@app.task(isolation="process")
async def check(user: int) -> list[int]:
    before = wire.tls.cache_info().misses
    reply = await github.get(f"/users/{user}")
    return facts(reply, before)


@app.task(isolation="process")
def check_in_thread(user: int) -> list[int]:
    before = wire.tls.cache_info().misses
    reply = github.call("GET", f"/users/{user}")
    return facts(reply, before)


async def work(count: int) -> None:
    jobs = check.enqueue_many([(user,) for user in range(count - 1)])
    jobs.append(check_in_thread.enqueue(count - 1))
    async with app.running():
        print(json.dumps([(await job.await_(timeout="5m")).result for job in jobs]))  # noqa: T201


def main(count: int) -> None:
    asyncio.run(work(count))
    app.close()
