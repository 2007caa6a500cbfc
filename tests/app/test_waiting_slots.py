"""A task that waits for another job lends its slot: nothing starves."""

from __future__ import annotations

import asyncio
import threading

from duework import App, Job


def _run(app: App, jobs: list[Job[int]]) -> list[int]:
    async def program() -> list[int]:
        async with app.running():
            return [await job.avalue("30s") for job in jobs]

    return asyncio.run(program())


def test_tasks_that_wait_for_jobs_of_their_own_app_do_not_starve(url: str) -> None:
    app = App(url, threads=2)

    @app.task
    def child(number: int) -> int:
        return number

    @app.task
    def parent(number: int) -> int:
        return child.enqueue(number).value("20s")

    @app.task
    def grandparent(number: int) -> int:
        return parent.enqueue(number).value("20s")

    jobs = [grandparent.enqueue(number) for number in range(4)]

    assert _run(app, jobs) == [0, 1, 2, 3]
    app.close()


def test_slots_that_were_lent_are_taken_back(url: str) -> None:
    app = App(url, threads=2)
    inside, most, lock = 0, 0, threading.Lock()

    @app.task
    def child(number: int) -> int:
        return number

    @app.task
    def parent(number: int) -> int:
        return child.enqueue(number).value("20s")

    @app.task
    def after(number: int) -> int:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        threading.Event().wait(0.02)
        with lock:
            inside -= 1
        return number

    async def program() -> None:
        async with app.running():
            for job in await parent.aenqueue_many([(number,) for number in range(4)]):
                await job.avalue("30s")
            for job in await after.aenqueue_many([(number,) for number in range(10)]):
                await job.avalue("30s")

    asyncio.run(program())
    assert most == 2
    app.close()
