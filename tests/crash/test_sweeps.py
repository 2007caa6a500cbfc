"""A sweep whose worker is lost before every statement in turn."""

from __future__ import annotations

from typing import Any

from duework import Run, Tick
from duework.shapes.sweeps import SHAPE
from duework.testing import Harness
from tests.crash.test_crash import at_every_point, h, in_every_call

__all__ = ["h"]

TODO = "select id from track where done is null order by id"


def forgotten(h: Harness) -> None:
    with h.app.transaction() as tx:
        for table in ("duework_sweep", "duework_sweep_item", "duework_pace", "track"):
            tx.write(f"delete from {table}")
        rows = [{"id": each} for each in range(5)]
        tx.write("insert into track (id) values (:id)", rows=rows)
    h.app.wiring.arm()


def sound(h: Harness) -> None:
    with h.app.wiring.engine.database.reading() as tx:
        for invariant in SHAPE.checks():
            assert tx.query(invariant.statement, {"bound": 9}) == [], invariant.name


def swept(h: Harness) -> Any:
    with h.app.transaction() as tx:
        tx.write("create table track (id bigint primary key, done bigint)")

    @h.app.sweep(TODO, parallel=2, pace=Tick(10, "1s"), backoff="1s")
    async def enrich(run: Run, id: int) -> None:  # noqa: A002 - the column
        run.write("update track set done = coalesce(done, 0) + 1 where id = :id", id=id)
        if id == 3 and run.now < started[0] + 1000:
            raise ValueError("not yet")

    started = [h.app.now()]
    return enrich, started


def test_each_item_takes_effect_once(h: Harness) -> None:
    enrich, started = swept(h)

    def begin() -> None:
        started[0] = h.app.now()
        forgotten(h)

    def check(_: Any) -> None:
        sound(h)
        rows = h.app.read("select id, done from track order by id")
        assert [(row.id, row.done) for row in rows] == [(each, 1) for each in range(5)]
        assert enrich.status().done == 5
        assert len(h.app.jobs(task="enrich")) == 1

    at_every_point(h, begin, check, floor=25)


def test_a_sweep_is_stopped_or_started_whole_or_not_at_all(h: Harness) -> None:
    enrich, _ = swept(h)

    def begin() -> None:
        forgotten(h)

    def act(_: Any) -> None:
        enrich.stop()
        enrich.start()
        enrich.reset()

    def check(_: Any) -> None:
        sound(h)
        status = enrich.status()
        assert status.running == (status.job is not None)

    in_every_call(h, begin, act, check, floor=10)
