"""Searching: pages of jobs for people, and the phase that is derived in one place."""

from __future__ import annotations

from typing import Any

import pytest

from duework.kernel import operate
from duework.kernel.job import phase
from duework.kernel.operate import Filter
from tests.support.kernel import LEASE, Kernel

PHASES = ("waiting", "ready", "running", "expired", "done", "failed", "cancelled")


def search(kernel: Kernel, **wanted: Any) -> list[int]:
    with kernel.reading() as tx:
        return [row[0] for row in operate.search(tx, Filter(**wanted), now=kernel.now).rows]


def one_of_each(kernel: Kernel) -> dict[str, int]:
    """A job in every phase, by the time it is now."""
    ids: dict[str, int] = {}
    for name in ("expired", "done", "failed", "cancelled"):
        ids[name] = kernel.enqueue(kernel.new())[0].id
    held = {each.id: each for each in kernel.claim("greet")}
    kernel.settle(
        kernel.done(held[ids["done"]]),
        kernel.ending(held[ids["failed"]], "failed", error="no", keep=None),
        kernel.ending(held[ids["cancelled"]], "cancelled", error="no"),
    )
    kernel.now += LEASE
    ids["running"] = kernel.enqueue(kernel.new())[0].id
    kernel.claim("greet")
    ids["ready"] = kernel.enqueue(kernel.new())[0].id
    ids["waiting"] = kernel.enqueue(kernel.new(at=kernel.now + 1))[0].id
    return ids


def test_every_phase_finds_its_jobs_and_no_others(kernel: Kernel) -> None:
    ids = one_of_each(kernel)

    assert {name: search(kernel, phase=name) for name in PHASES} == {
        name: [ids[name]] for name in PHASES
    }


def test_the_phase_in_python_is_that_in_sql(kernel: Kernel) -> None:
    ids = one_of_each(kernel)

    for name, identifier in ids.items():
        row = kernel.row(identifier)
        assert phase(row.state, row.due, row.worker, kernel.now) == name


def test_a_stored_state_can_be_searched_for_as_well(kernel: Kernel) -> None:
    ids = one_of_each(kernel)

    found = search(kernel, phase="open")

    assert set(found) == {ids[name] for name in ("waiting", "ready", "running", "expired")}


def test_pages_go_on_where_the_last_one_ended_newest_first(kernel: Kernel) -> None:
    made = [job.id for job in kernel.enqueue(*[kernel.new() for _ in range(5)])]

    first = search(kernel, limit=2)
    second = search(kernel, limit=2, before=first[-1])
    third = search(kernel, limit=2, before=second[-1])

    assert first + second + third == made[::-1]


@pytest.mark.parametrize("phase", ["", "failed", "running"])
def test_task_queue_and_key_narrow_the_search(kernel: Kernel, phase: str) -> None:
    new = [
        kernel.new("greet", queue="a", key="k"),
        kernel.new("greet", queue="b"),
        kernel.new("part", queue="a", key="l"),
    ]
    greet_a, greet_b, part_a = (kernel.enqueue(job)[0].id for job in new)
    held = kernel.claim("greet", "part")
    if phase == "failed":
        kernel.settle(*[kernel.ending(each, "failed", error="no", keep=None) for each in held])

    assert search(kernel, phase=phase, task="greet") == [greet_b, greet_a]
    assert search(kernel, phase=phase, queue="a") == [part_a, greet_a]
    assert search(kernel, phase=phase, key="k") == [greet_a]
    assert search(kernel, phase=phase, key="k", task="part") == []
