"""Sweeps over several processes: one sweeper at a time, and a row that kills its process."""

from __future__ import annotations

import pytest

from tests.support.processes import Bench, until

pytestmark = pytest.mark.slow

ROWS = 40


def test_a_row_that_kills_its_process_never_blocks_the_others(desk: Bench) -> None:
    with desk.app.transaction() as tx:
        tx.write("create table track (id bigint primary key, done bigint)")
        tx.write("insert into track (id) values (:id)", rows=[{"id": each} for each in range(ROWS)])
    deaths = 0
    # It may be dead by the time that one looks whether it has started.
    worker = desk.start(sweep=True, ready=False)

    def swept() -> bool:
        nonlocal deaths, worker
        if worker.process.poll() is not None:
            deaths += 1
            worker = desk.start(sweep=True, ready=False)
        return len(desk.app.read("select id from track where done is null")) == 1

    until(swept, within=60, every=0.1)

    rows = desk.app.read("select id, done from track order by id")
    assert [row.done for row in rows] == [None if each == 3 else 1 for each in range(ROWS)]
    assert deaths == 2
    assert [each.key for each in desk.app.sweeps.failing("clean")] == ["3"]


def test_of_two_workers_one_sweeps(desk: Bench) -> None:
    with desk.app.transaction() as tx:
        tx.write("create table track (id bigint primary key, done bigint)")
        rows = [{"id": each} for each in range(100, 100 + ROWS)]
        tx.write("insert into track (id) values (:id)", rows=rows)
    for _ in range(2):
        desk.start(sweep=True)

    until(lambda: not desk.app.read("select id from track where done is null"), within=30)

    assert {row.done for row in desk.app.read("select done from track")} == {1}
    assert len(desk.app.jobs(task="clean")) == 1
    starts = [each for each in desk.notes() if each.what.startswith("row-")]
    assert len(starts) == ROWS
