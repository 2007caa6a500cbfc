"""Events over several processes: workers killed while they handle them; a publisher without their code."""

from __future__ import annotations

from collections import Counter

import pytest

from duework.health.verify import verify
from tests.support.checks import EVERY
from tests.support.processes import Bench, until

pytestmark = pytest.mark.slow

EVENTS = 120


def test_each_of_three_subscribers_gets_each_event_once_whoever_is_killed(desk: Bench) -> None:
    doomed = [desk.start(events=True, concurrency=8) for _ in range(2)]
    until(lambda: len(desk.app.events.subscribers()) == 3)
    ids = [desk.app.publish("shipped", each) for each in range(EVENTS // 2)]
    for number, worker in enumerate(doomed, 1):
        until(lambda many=number * 40: len(desk.notes("start")) > many)
        worker.kill()
        ids += [desk.app.publish("shipped", each) for each in range(EVENTS // 4)]
        desk.start(events=True, concurrency=8)

    until(lambda: len(desk.effects()) >= 3 * EVENTS, within=60)
    until(lambda: not desk.app.jobs(phase="ready") and not desk.app.jobs(phase="running"))

    found = Counter((row.job, row.note) for row in desk.effects())
    assert found == {(event, who): 1 for event in ids for who in ("first", "second", "third")}
    assert {each.state for event in ids for each in desk.app.events.reached(event)} == {"done"}
    with desk.app.wiring.engine.database.reading() as tx:
        assert [each for each in verify(tx, EVERY) if each.violations] == []
