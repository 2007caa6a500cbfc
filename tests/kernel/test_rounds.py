"""A worker's rounds with the database."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from duework.clock import SystemClock
from duework.db.database import Tx
from duework.kernel.engine import Engine
from duework.kernel.lanes import JOBS
from duework.kernel.machine import processes
from duework.kernel.machine.clock_watch import TakeoverPause
from duework.kernel.tasks import Registry
from duework.worker.rounds import Round, RoundResult, Rounds
from tests.support.kernel import LEASE, ME, OTHER, START, Kernel


def test_one_that_was_too_slow_learns_who_was_quicker(kernel: Kernel) -> None:
    engine = Engine(kernel.database, Registry())
    hold = TakeoverPause(engine.clock, engine.clock_watch, LEASE)
    turns = Rounds(engine, processes.this_process(ME, START), hold, lambda _: None)
    other = processes.this_process(OTHER, START)

    def verb(tx: Tx) -> RoundResult:
        query = tx.query

        def meanwhile(statement: Any, values: Any) -> Any:
            rows = query(statement, values)
            if statement.name == "lanes":
                # As if it had come from another transaction, after this one has looked around.
                query(JOBS.worker_is, {**asdict(other), "limits": None})
            return rows

        tx.query = meanwhile  # type: ignore[method-assign]
        [result] = turns.settle_and_claim(tx, [Round([], kernel.want("greet"))])
        return result

    assert [worker.id for worker in kernel.run(verb).workers] == [OTHER]


class Clock(SystemClock):
    """A wall clock that can be set, and goes by no server."""

    time = START
    wrong = 0

    def wall(self) -> int:
        return self.time + self.wrong

    def boot(self) -> int:
        return self.time - START

    def follow(self, now: int, boot: int, within: int = 0) -> None: ...


def test_a_step_that_another_thread_has_noticed_meanwhile_costs_nobody_a_lease(
    kernel: Kernel,
) -> None:
    """Noticed after the worker has decided to take its turn, and before the turn is taken."""
    clock, turn = Clock(), Round([], kernel.want("greet"))
    engine = Engine(kernel.database, Registry(), clock)
    hold = TakeoverPause(clock, engine.clock_watch, LEASE)
    turns = Rounds(engine, processes.this_process(ME, START), hold, lambda _: None)
    kernel.enqueue(kernel.new())
    [held] = kernel.claim("greet", worker=OTHER)

    clock.wrong = 3_600_000
    engine.clock_watch.checked_now()
    [result] = kernel.run(lambda tx: turns.settle_and_claim(tx, [turn]))
    assert list(result.recovered) == []

    clock.time += LEASE
    [result] = kernel.run(lambda tx: turns.settle_and_claim(tx, [turn]))
    assert [ending.id for ending in result.recovered] == [held.id], "one lease later it is over"
