"""The order of locks: the same for everybody, so that no two transactions wait for each other."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from importlib import resources
from typing import Any

import pytest

from duework.db.database import Tx
from duework.db.queries import load
from duework.kernel import enqueue, settle
from duework.kernel.job import Enqueued, NewJob
from tests.support.kernel import Kernel


def enqueue_spied(kernel: Kernel, *new: NewJob) -> list[tuple[str, Any]]:
    def verb(tx: Tx) -> list[Enqueued]:
        return enqueue.enqueue(tx, new, ids=kernel.ids, lanes=kernel.lanes, now=kernel.now)  # type: ignore[arg-type]

    return kernel.spied(verb)[1]


def test_keys_are_taken_in_the_order_of_the_keys(kernel: Kernel) -> None:
    seen = enqueue_spied(kernel, *[kernel.new(key=key) for key in "cabd"])

    assert [values["key"] for name, values in seen if name == "insert_keyed"] == list("abcd")


def test_serial_values_are_locked_before_anything_is_written_and_in_order(kernel: Kernel) -> None:
    seen = enqueue_spied(kernel, *[kernel.new(serial=serial) for serial in "cab"])

    names = [name for name, _ in seen]
    assert [values["serials"] for name, values in seen if name == "lock_serials"] == [list("abc")]
    assert names.index("lock_serials") < names.index("insert_one")


def test_lanes_are_made_in_the_order_of_their_names(kernel: Kernel) -> None:
    seen = enqueue_spied(kernel, *[kernel.new(task) for task in ("c", "a", "b")])

    assert [values["task"] for name, values in seen if name == "new_lane"] == ["a", "b", "c"]


def test_rows_are_locked_and_settled_in_the_order_of_their_ids(kernel: Kernel) -> None:
    kernel.enqueue(*[kernel.new() for _ in range(4)])
    held = kernel.claim("greet")[::-1]
    endings = [kernel.ending(each, "failed", error="no", keep=None) for each in held]

    def verb(tx: Tx) -> Sequence[Any]:
        return settle.settle(tx, endings, kernel.settle_context())

    _, seen = kernel.spied(verb)

    assert [values["ids"] for name, values in seen if name == "held"] == [[1, 2, 3, 4]]
    assert [rows[0][-1] for name, rows in seen if name == "rewrite"] == [1, 2, 3, 4]


def test_two_writers_with_the_same_keys_in_opposite_order_both_get_through(
    emptied: str, kernel: Kernel
) -> None:
    keys = [f"k{number}" for number in range(30)]
    failures: list[BaseException] = []

    def write(mine: Kernel, order: list[str]) -> None:
        try:
            for number in range(10):
                mine.enqueue(*[mine.new(f"t{number}", key=key, serial=key) for key in order])
        except BaseException as error:  # noqa: BLE001 - told below
            failures.append(error)

    with Kernel(emptied) as other:
        other.ids._last = 10**6  # noqa: SLF001 - ids of another process
        threads = [
            threading.Thread(target=write, args=(kernel, keys)),
            threading.Thread(target=write, args=(other, keys[::-1])),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert failures == []
    assert len(kernel.rows()) == 300


def test_every_text_of_its_own_for_postgresql_says_why() -> None:
    text = (resources.files("duework.kernel") / "jobs.postgres.sql").read_text()

    for piece in text.split("-- name: ")[1:]:
        assert piece.splitlines()[1].startswith("-- Differs: "), piece.splitlines()[0]


@pytest.mark.parametrize("name", sorted(vars(load("duework.kernel", "jobs"))))
def test_no_statement_asks_what_time_it_is(name: str) -> None:
    statement = vars(load("duework.kernel", "jobs"))[name]

    for text in (statement.sqlite, statement.postgres):
        for word in ("now()", "current_", "datetime(", "strftime", "clock_timestamp", "julianday"):
            assert word not in text.lower()
