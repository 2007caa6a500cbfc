"""A worker's turn with the database."""

from __future__ import annotations

from typing import Any

from duework.db.database import Tx
from duework.kernel import liveness
from duework.kernel.engine import Engine
from duework.kernel.lanes import Q
from duework.kernel.tasks import Registry
from duework.kernel.turns import Turn, TurnResult, Turns
from tests.support.kernel import ME, OTHER, START, Kernel


def test_one_that_was_too_slow_learns_who_was_quicker(kernel: Kernel) -> None:
    engine = Engine(kernel.database, Registry())
    turns = Turns(engine, liveness.this_process(ME, START))
    other = liveness.this_process(OTHER, START)

    def verb(tx: Tx) -> TurnResult:
        query = tx.query

        def meanwhile(statement: Any, values: Any) -> Any:
            rows = query(statement, values)
            if statement.name == "lanes":
                # As if it had come from another transaction, after this one has looked around.
                query(Q.worker_is, {name: getattr(other, name) for name in other.__slots__})
            return rows

        tx.query = meanwhile  # type: ignore[method-assign]
        [result] = turns.take(tx, [Turn([], kernel.want("greet"))])
        return result

    assert [worker.id for worker in kernel.run(verb).workers] == [OTHER]
