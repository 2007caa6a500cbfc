"""Bugs that are put into the engine of a child on purpose; a proof that misses one proves nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from duework.db import migrate
from duework.db.database import Tx
from duework.db.queries import script
from duework.db.sqlite.database import SqliteDatabase
from duework.kernel import operate, settle
from duework.kernel.lanes import JOBS
from duework.worker import host
from proof.killwork import BY_NAME, Scenario
from proof.shop import Ack, Shop

Plant = Callable[[Shop, Ack], None]


def _apart(shop: Shop, verb: Callable[[Tx], Any]) -> None:
    """In a transaction of its own, through a connection of its own."""
    with shop.app.wiring.engine.database.transaction() as tx:
        verb(tx)


def effect_after_the_commit(shop: Shop, _say: Ack) -> None:
    def with_effects(tx: Tx, ending: Any) -> Any:
        for effect in ending.effects:
            tx.after_commit.append(partial(_apart, shop, effect))
        return ending.but(effects=())

    settle._with_effects = with_effects


def effect_before_the_settle(shop: Shop, _say: Ack) -> None:
    def with_effects(tx: Tx, ending: Any) -> Any:
        for effect in ending.effects:
            effect(tx)
        # What was written so far is committed, and the rest of the group goes on after it.
        database = shop.app.wiring.engine.database
        assert isinstance(database, SqliteDatabase)
        connection = database._write_connection()
        connection.execute("release duework")
        connection.execute("commit")
        connection.execute("begin immediate")
        connection.execute("savepoint duework")
        return ending.but(effects=())

    settle._with_effects = with_effects


def follow_up_after_the_commit(_shop: Shop, _say: Ack) -> None:
    def effect_of(self: Any, new: Any) -> Any:
        def effect(tx: Tx) -> None:
            tx.after_commit.append(partial(_apart_enqueue, self._engine, list(new)))

        return effect

    setattr(host.WorkerHost, "effect_of", effect_of)  # noqa: B010 - a method is replaced


def _apart_enqueue(engine: Any, new: Any) -> None:
    with engine.database.transaction() as tx:
        engine.enqueue(tx, new)


def answered_before_the_commit(_shop: Shop, say: Ack) -> None:
    real = SqliteDatabase.commit

    def commit(self: SqliteDatabase, tx: Tx) -> None:
        say("enqueued", "plain")
        real(self, tx)

    setattr(SqliteDatabase, "commit", commit)  # noqa: B010 - a method is replaced


def rows_before_their_attempts(shop: Shop, _say: Ack) -> None:
    def delete(tx: Tx, found: Mapping[int, int | None], context: Any) -> None:  # noqa: ARG001
        ids = list(found)
        tx.query(JOBS.delete_jobs, {"ids": ids})
        tx.after_commit.append(
            lambda: _apart(shop, lambda late: late.query(JOBS.delete_attempts, {"ids": ids}))
        )

    operate.delete_settled = delete


def migration_recorded_apart(_shop: Shop, _say: Ack) -> None:
    def apply(database: Any, _steps: Any, step: Any) -> bool:
        each, migration = step
        with database.transaction() as tx:
            tx.query(migrate._CREATE, {})
            for statement in script(migration.text):
                tx.query(migrate._statement(statement), {})
        with database.transaction() as tx:
            tx.query(migrate._RECORD, each.row(migration))
        return True

    setattr(migrate, "_apply", apply)  # noqa: B010 - with fewer types


def failure_counted_apart(shop: Shop, _say: Ack) -> None:
    real = settle._record

    def record(tx: Tx, row: Any, ending: Any, context: Any) -> None:
        tx.after_commit.append(partial(_apart, shop, lambda late: real(late, row, ending, context)))

    settle._record = record


PLANTS: dict[str, tuple[Scenario, Plant]] = {
    "an effect is written after the commit": (BY_NAME["settle"], effect_after_the_commit),
    "an effect is committed before its job": (BY_NAME["settle"], effect_before_the_settle),
    "what follows is enqueued after the commit": (BY_NAME["settle"], follow_up_after_the_commit),
    "an enqueue is answered before its commit": (BY_NAME["enqueue"], answered_before_the_commit),
    "a failure is recorded after the commit": (BY_NAME["retry"], failure_counted_apart),
    "jobs are pruned before their attempts": (BY_NAME["prune"], rows_before_their_attempts),
    "a migration is recorded apart from its tables": (
        BY_NAME["migrate"],
        migration_recorded_apart,
    ),
}
