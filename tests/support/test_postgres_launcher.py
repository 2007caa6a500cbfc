import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.support.postgres import Server, server

# The server is started once.
pytestmark = pytest.mark.xdist_group("launcher")


@pytest.fixture(scope="module")
def pg() -> Iterator[Server]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("TEST_PG_DSN", raising=False)
        with server() as running:
            yield running


def value(dsn: str, query: str) -> object:
    with psycopg.connect(dsn) as connection:
        row = connection.execute(query.encode()).fetchone()
        assert row is not None
        return row[0]


def run(dsn: str, *statements: str) -> None:
    with psycopg.connect(dsn) as connection:
        for statement in statements:
            connection.execute(statement.encode())


@pytest.mark.parametrize(
    ("setting", "expected"),
    [("listen_addresses", "127.0.0.1"), ("fsync", "on"), ("max_connections", "200")],
)
def test_the_server_is_durable_and_listens_on_loopback_only(
    pg: Server, setting: str, expected: str
) -> None:
    assert value(pg.dsn, f"show {setting}") == expected


def test_only_a_server_that_was_asked_not_to_be_durable_does_not_wait_for_the_disk(
    postgres: Server,
) -> None:
    assert value(postgres.dsn, "show fsync") == "off" or "TEST_PG_DSN" in os.environ


def test_a_connection_over_tcp_needs_the_password(pg: Server) -> None:
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(pg.dsn, password="wrong")  # noqa: S106


def test_a_new_database_is_a_copy_of_its_template(pg: Server) -> None:
    run(pg.create_database("original"), "create table t (n int)", "insert into t values (7)")

    copy = pg.create_database("copy", template="original")

    assert value(copy, "select n from t") == 7
    assert value(copy, "select current_database()") == "copy"


def test_dropping_a_database_ends_its_connections(pg: Server) -> None:
    with psycopg.connect(pg.create_database("dropped")) as connection:
        pg.drop_database("dropped")

        with pytest.raises(psycopg.OperationalError):
            connection.execute("select 1")

    pg.drop_database("dropped")


def test_what_was_committed_survives_a_crash_of_the_server(pg: Server) -> None:
    dsn = pg.create_database("crashed")
    run(dsn, "create table t (n int)", "insert into t values (1)")
    uncommitted = psycopg.connect(dsn)
    uncommitted.execute("insert into t values (2)")

    pg.stop("immediate")
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(dsn)
    pg.start()

    assert value(dsn, "select array_agg(n) from t") == [1]
    uncommitted.close()


def test_missing_binaries_are_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TEST_PG_DSN", raising=False)
    monkeypatch.setenv("PG_BIN", str(tmp_path))

    with pytest.raises(FileNotFoundError, match="no PostgreSQL"), server():
        pass


def test_a_running_server_can_be_named_but_not_stopped(
    pg: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_PG_DSN", pg.dsn)

    with server() as named:
        assert value(named.create_database("named"), "select current_database()") == "named"
        with pytest.raises(AssertionError, match="TEST_PG_DSN"):
            named.stop()
