"""Requests that wait for another one, and go along with it in its transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from duework.db.database import Retryable, Tx
from duework.db.writer.requests import AttachedRequest, Request
from duework.db.writer.writer import Writer
from duework.errors import DatabaseError
from tests.support.kernel import Kernel

TABLE = "create table note (what text primary key)"
INSERT = "insert into note (what) values (:what)"


@pytest.fixture(autouse=True)
def table(kernel: Kernel) -> None:
    with kernel.database.transaction() as tx:
        tx.write(TABLE)


def note(tx: Tx, items: list[str]) -> Sequence[str]:
    for item in items:
        tx.write(INSERT, what=item)
    return items


def note_along(tx: Tx, items: list[str]) -> Sequence[str]:
    return note(tx, items)


def notes(kernel: Kernel) -> list[str]:
    return [row.what for row in kernel.read("select what from note order by what")]


def with_attached(
    writer: Writer,
    ask: Callable[[AttachedRequest], object],
    *,
    verb: Any = note_along,
    beside: Callable[[Request], bool] = lambda request: request.verb is note,
) -> tuple[object, list[Any]]:
    """What `ask` came to while an attached request was left, and what that was answered with."""
    answers: list[Any] = []

    async def program() -> object:
        attached = AttachedRequest(
            *(verb, ["along"]),
            loop=asyncio.get_running_loop(),
            beside=beside,
            then=lambda answered: answers.append(answered.value),
        )
        writer.attached.leave(attached)
        try:
            return await asyncio.to_thread(ask, attached)
        except Exception as error:  # noqa: BLE001 - the answer
            return error
        finally:
            # What was told in the other thread is heard in one of the next rounds of the loop.
            await asyncio.sleep(0)
            while attached.begun and not answers:  # noqa: ASYNC110 - that it was heard tells nobody
                await asyncio.sleep(0.01)

    return asyncio.run(program()), answers


def test_an_attached_request_goes_along_with_the_request_it_waits_for(kernel: Kernel) -> None:
    commits: list[Tx] = []
    commit = kernel.database.commit

    def counted(tx: Tx) -> None:
        commits.append(tx)
        commit(tx)

    kernel.database.commit = counted  # type: ignore[method-assign]
    answer, answers = with_attached(kernel.writer, lambda _: kernel.writer.call(note, ["asked"]))

    assert (answer, answers) == (["asked"], [["along"]])
    assert notes(kernel) == ["along", "asked"]
    assert len(commits) == 1


def test_it_goes_along_with_a_group_and_only_once(kernel: Kernel) -> None:
    async def together() -> list[Sequence[str]]:
        return await asyncio.gather(*(kernel.writer.acall(note, [str(n)]) for n in range(3)))

    _, answers = with_attached(kernel.writer, lambda _: asyncio.run(together()))

    assert answers == [["along"]]
    assert notes(kernel) == ["0", "1", "2", "along"]


def test_it_does_not_go_along_with_others(kernel: Kernel) -> None:
    _, answers = with_attached(
        kernel.writer, lambda _: kernel.writer.call(note, ["asked"]), beside=lambda _: False
    )

    assert answers == []
    assert notes(kernel) == ["asked"]


def test_what_was_taken_back_is_not_run(kernel: Kernel) -> None:
    def ask(attached: AttachedRequest) -> None:
        assert kernel.writer.attached.take_back(attached)
        kernel.writer.call(note, ["asked"])
        assert not kernel.writer.attached.take_back(attached)

    _, answers = with_attached(kernel.writer, ask)

    assert answers == []
    assert notes(kernel) == ["asked"]


def test_an_attached_request_that_fails_costs_the_others_nothing(kernel: Kernel) -> None:
    def fails(tx: Tx, items: list[str]) -> Sequence[str]:
        note(tx, items)
        raise LookupError("no")

    answer, answers = with_attached(
        kernel.writer, lambda _: kernel.writer.call(note, ["asked"]), verb=fails
    )

    assert (answer, answers) == (["asked"], [None])
    assert notes(kernel) == ["asked"]


def test_where_the_request_fails_the_attached_one_did_not_happen(kernel: Kernel) -> None:
    kernel.writer.call(note, ["taken"])

    def ask(_: AttachedRequest) -> object:
        return kernel.writer.call(note, ["taken"])

    answer, answers = with_attached(kernel.writer, ask)

    assert isinstance(answer, DatabaseError)
    assert answers in ([], [None])
    assert notes(kernel) == ["taken"]


def test_where_the_commit_fails_the_attached_one_did_not_happen(kernel: Kernel) -> None:
    commit = kernel.database.commit
    tries: list[Tx] = []

    def fails_once(tx: Tx) -> None:
        tries.append(tx)
        if len(tries) == 1:
            raise Retryable("the disk failed")
        commit(tx)

    kernel.database.commit = fails_once  # type: ignore[method-assign]
    answer, answers = with_attached(kernel.writer, lambda _: kernel.writer.call(note, ["asked"]))

    assert (answer, answers) == (["asked"], [None])
    assert notes(kernel) == ["asked"]


def test_nothing_goes_along_on_the_last_of_the_disk(kernel: Kernel) -> None:
    kernel.database.disk_full_reason = lambda: "the disk is full"  # type: ignore[method-assign]

    _, answers = with_attached(
        kernel.writer, lambda _: kernel.writer.call(note, ["asked"], patience=None)
    )

    assert answers == []
    assert notes(kernel) == ["asked"]
