"""What may be registered to run inside the settle: nothing that would never run."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from duework import End, Page, UsageError
from duework.testing import Harness


async def coroutine(tx: Any, job: Any, outcome: str) -> None: ...


def generator(tx: Any, job: Any, outcome: str) -> Iterator[None]:
    yield


async def stream(tx: Any, job: Any, outcome: str) -> AsyncIterator[None]:
    yield


class Callers:
    async def __call__(self, tx: Any, job: Any, outcome: str) -> None: ...

    async def method(self, tx: Any, job: Any, outcome: str) -> None: ...


def more(tx: Any, job: Any, outcome: str, needed: int) -> None: ...


NEVER_RUN = {
    "async def": coroutine,
    "generator": generator,
    "async generator": stream,
    "partial": functools.partial(coroutine),
    "partial of a partial": functools.partial(functools.partial(generator), outcome="x"),
    "object": Callers(),
    "method": Callers().method,
}


@pytest.mark.parametrize("function", NEVER_RUN.values(), ids=NEVER_RUN.keys())
def test_a_reaction_that_would_never_run_is_refused(
    harness: Harness, function: Callable[..., Any]
) -> None:
    @harness.app.task
    async def work() -> None: ...

    @harness.app.chain()
    async def pages(page: Page) -> End:
        return End()

    for register in (work.settled, pages.settled):
        with pytest.raises(UsageError, match=r"never be run.*plain `def`"):
            register(function)
    work.enqueue()
    harness.drain()


@pytest.mark.parametrize("function", [more, lambda tx: None, 7])
def test_a_reaction_that_cannot_be_called_so_is_refused(harness: Harness, function: Any) -> None:
    @harness.app.task
    async def work() -> None: ...

    with pytest.raises(UsageError, match=r"work\.settled"):
        work.settled(function)


def test_plain_partials_and_objects_run(harness: Harness) -> None:
    told: list[tuple[str, str]] = []

    def note(name: str, tx: Any, job: Any, outcome: str) -> None:
        told.append((name, outcome))

    class Noting:
        def __call__(self, tx: Any, job: Any, outcome: str) -> None:
            told.append(("object", outcome))

    @harness.app.task
    async def work() -> None: ...

    work.settled(functools.partial(note, "partial"))
    work.settled(Noting())
    work.enqueue()
    harness.drain()

    assert told == [("partial", "done"), ("object", "done")]


@pytest.mark.filterwarnings("error")
def test_a_reaction_that_gives_back_a_coroutine_fails_the_attempt(harness: Harness) -> None:
    @harness.app.task
    async def work() -> None: ...

    work.settled(lambda *given: coroutine(*given))  # noqa: PLW0108 - on purpose
    job = work.enqueue()
    harness.drain()

    found = job.refresh()
    assert found.state == "failed"
    assert "gave back coroutine and would never be run" in str(found.error)
