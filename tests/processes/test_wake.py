"""What wakes an idle worker, what does not, and what ends it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.support.postgres import Server
from tests.support.processes import Bench, Worker, bench, until

pytestmark = pytest.mark.slow


@pytest.fixture
def on_sqlite(tmp_path: Path) -> Iterator[Bench]:
    """For what only a file has: a doorbell, and an end."""
    with bench(f"sqlite:///{tmp_path / 'work.db'}", tmp_path) as made:
        yield made


@pytest.fixture
def on_postgres(postgres: Server, tmp_path: Path) -> Iterator[Bench]:
    """For what only a server has: notifications."""
    with bench(postgres.create_database("wake"), tmp_path) as made:
        yield made
    postgres.drop_database("wake")


def _delays(desk: Bench, times: int = 5) -> list[float]:
    """From enqueue, in this process, to start, in an idle worker; sorted."""
    time.sleep(0.5)
    found = []
    for number in range(times):
        asked = time.monotonic()
        job = desk.tasks.quick.enqueue(f"{number}")
        found.append(desk.started(job, within=5).at - asked)
        job.wait("5s")
        time.sleep(0.1)
    return sorted(found)


def test_the_doorbell_alone_wakes_a_worker(on_sqlite: Bench) -> None:
    on_sqlite.start(no_pulse=True)

    assert _delays(on_sqlite)[2] < 5


def test_without_a_doorbell_the_pulse_of_the_file_does(on_sqlite: Bench, tmp_path: Path) -> None:
    (tmp_path / "no-folder").touch()
    on_sqlite.start(env={"XDG_RUNTIME_DIR": str(tmp_path / "no-folder")})

    assert _delays(on_sqlite)[2] < 5


def test_the_word_of_the_system_is_enough_to_hear_of_a_write(
    on_sqlite: Bench, tmp_path: Path
) -> None:
    (tmp_path / "no-folder").touch()
    on_sqlite.start(no_slow_tick=True, env={"XDG_RUNTIME_DIR": str(tmp_path / "no-folder")})
    # Until it looks no more by itself.
    time.sleep(1.5)

    assert on_sqlite.tasks.quick.enqueue("noticed").wait("5s").state == "done"


def test_without_the_word_of_the_system_a_worker_looks_by_itself(
    on_sqlite: Bench, tmp_path: Path
) -> None:
    (tmp_path / "no-folder").touch()
    on_sqlite.start(no_notices=True, env={"XDG_RUNTIME_DIR": str(tmp_path / "no-folder")})

    assert _delays(on_sqlite)[2] < 5


def test_a_notification_wakes_a_worker(on_postgres: Bench) -> None:
    on_postgres.start()

    assert _delays(on_postgres)[2] < 5


def test_without_notifications_a_worker_looks_by_itself(on_postgres: Bench) -> None:
    on_postgres.start(no_listener=True)

    assert _delays(on_postgres, times=3)[1] < 5


def test_what_is_enqueued_just_before_a_worker_listens_is_found(on_postgres: Bench) -> None:
    worker = on_postgres.start(slow_listener=True)
    born = worker.facts("WorkerStarted")[0]["at"]

    # While nobody listens it looks every half second; it listens after 0.8 s.
    time.sleep(max(0.0, born + 0.65 - time.monotonic()))
    job = on_postgres.tasks.quick.enqueue("in between")

    assert job.wait("5s").state == "done"


def test_an_idle_worker_gives_sqlite_no_statement(on_sqlite: Bench) -> None:
    on_sqlite.tasks.quick.using(delay="1h").enqueue_many([(f"{n}",) for n in range(1000)])
    worker = on_sqlite.start(count=True)
    on_sqlite.tasks.quick.enqueue("now").wait("5s")
    time.sleep(1)

    seen = _statements(worker)
    until(lambda: len(worker.facts("Statements")) >= len(seen) + 5)

    assert seen[-1] > 0
    assert _statements(worker)[-1] == seen[-1]


def _statements(worker: Worker) -> list[int]:
    return [fact["n"] for fact in worker.facts("Statements")]


def test_an_idle_worker_gives_postgres_no_transaction(on_postgres: Bench, postgres: Server) -> None:
    on_postgres.tasks.quick.using(delay="1h").enqueue_many([(f"{n}",) for n in range(1000)])
    on_postgres.start()
    on_postgres.tasks.quick.enqueue("now").wait("5s")
    on_postgres.app.close()
    time.sleep(1)

    # When each of its connections last did anything; the counters of the server come late.
    with psycopg.connect(postgres.dsn, autocommit=True) as looking:
        query = """select pid, state_change from pg_stat_activity
                   where datname = 'wake' and backend_type = 'client backend' order by pid"""
        before = looking.execute(query).fetchall()
        time.sleep(2)
        after = looking.execute(query).fetchall()

    assert before
    assert after == before


@pytest.mark.parametrize("replaced", [False, True])
def test_a_worker_whose_file_is_deleted_or_replaced_stops(
    on_sqlite: Bench, tmp_path: Path, *, replaced: bool
) -> None:
    worker = on_sqlite.start()
    job = on_sqlite.tasks.long.enqueue(30)
    on_sqlite.started(job)
    path = tmp_path / "work.db"
    at = time.monotonic()

    if replaced:
        (tmp_path / "other.db").write_bytes(path.read_bytes())
        os.replace(tmp_path / "other.db", path)
    else:
        path.unlink()

    assert worker.process.wait(5) == 3
    assert time.monotonic() - at < 5
    ended = worker.facts("Ended")[0]
    assert ended["error"] == "Gone"
    assert "deleted or replaced" in ended["why"]
