"""Labelled jobs, with the process lost before each statement in turn: a job and what it carries are one."""

from __future__ import annotations

import pytest

from duework import Run
from duework.testing import Harness
from tests.crash.test_crash import EFFECT, at_every_point
from tests.support.checks import is_sound


@pytest.fixture
def h(harness: Harness) -> Harness:
    with harness.app.transaction() as tx:
        tx.write(EFFECT)
    return harness


def test_a_lost_process_leaves_no_job_without_its_labels(h: Harness) -> None:
    @h.app.task
    async def child(number: int) -> None: ...

    wait = child.using(key="k", delay="1h", replace=True, latest="2h")

    @h.app.task
    async def parent(run: Run) -> None:
        run.enqueue(wait.using(tags=("a",), headers={"x": "1"}), 1)
        run.enqueue(wait.using(tags=("b",)), 2)
        run.enqueue(child.using(key="own", tags=("c",)), 3)

    def begin() -> None:
        with h.app.transaction() as tx:
            tx.write("delete from duework_tag")
            tx.write("delete from duework_label")
        parent.enqueue()

    def check(_: None) -> None:
        assert [job.arguments for job in h.app.tagged("b")] == [{"number": 2}]
        assert h.app.tagged("a") == []
        assert [job.arguments for job in h.app.tagged("c")] == [{"number": 3}]
        assert len(h.app.read("select * from duework_label")) == 2
        is_sound(h)

    at_every_point(h, begin, check, floor=8)
