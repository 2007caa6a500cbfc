"""How to get a connection to a PostgreSQL server, and what to say when there is none.

The URL's own settings go before our defaults. A password is in no message.
"""

from __future__ import annotations

import os
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from duework.db.database import Retryable
from duework.db.postgres.tx import Connection, first_line
from duework.db.urls import redacted
from duework.errors import UsageError

CONNECTING = {
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 2,
    "tcp_user_timeout": 5000,
    "application_name": "duework",
}
# Keepalives on the server's side too, whose default is two hours: so long the transaction of a client that
# was cut off would keep its locks, and its view of old rows from being cleared up.
SERVER = {
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10s",
    # The one that the driver can read; the role may have another.
    "datestyle": "iso",
}
# What the engine's own connections ask for besides.
WRITER = {
    "default_transaction_isolation": "read\\ committed",
    "enable_seqscan": "off",
    "jit": "off",
    "statement_timeout": "30s",
    "lock_timeout": "10s",
    # Not in force right after a pipeline: psycopg ends one with a Flush, and at that the server forgets
    # the timer. There the keepalives of its side must do.
    "idle_in_transaction_session_timeout": "10s",
}
# The same for one transaction, where a pooler has dropped what was asked for at the start.
WRITING: tuple[bytes, None] = (
    b"""select set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true),
    set_config('statement_timeout', '30s', true), set_config('lock_timeout', '10s', true),
    set_config('idle_in_transaction_session_timeout', '10s', true)""",
    None,
)
# Between two reads of one view may lie some thinking; a client that was cut off in there is gone.
READER = {
    "statement_timeout": WRITER["statement_timeout"],
    "idle_in_transaction_session_timeout": "60s",
}
# The driver gives no code for a connection that was refused, only the server's words.
ADVICE = {
    "password authentication failed": "check the user and the password in the URL",
    "no pg_hba.conf entry": "allow this host and user in the server's pg_hba.conf",
    "does not exist": "create it, or correct the URL",
    "too many clients": "raise max_connections, or end other programs",
    "connection slots": "raise max_connections, or end other programs",
    "too many connections": "raise the limit of the database or of the role",
    "unsupported startup parameter": "for PgBouncer: ignore_startup_parameters = options",
    "Connection refused": "is the server running, and is the port right?",
}


def arguments(url: str, **settings: str) -> dict[str, Any]:
    """What to connect with: our defaults, and before them what the URL says."""
    try:
        given = {name: value for name, value in conninfo_to_dict(url).items() if value is not None}
    except psycopg.Error as error:
        detail = redacted(first_line(error))
        raise UsageError(f"cannot read the database URL {redacted(url)!r}: {detail}") from None
    if "@" in str(given.get("host", "")):
        message = f"cannot read {redacted(url)!r}: write an @ in a user name or password as %40"
        raise UsageError(message)
    ports = str(given.get("port") or "5432").split(",")
    if not all(port.isdigit() or not port for port in ports):
        raise UsageError(f"cannot read {redacted(url)!r}: a port is a number")
    # Of two settings of one name the last one holds.
    own = "".join(f"-c {name}={value} " for name, value in {**SERVER, **settings}.items())
    options = own + str(given.get("options") or os.environ.get("PGOPTIONS", ""))
    return {**CONNECTING, **given, "options": options}


def opened(kind: type[Connection], given: dict[str, Any]) -> Connection:
    """A new connection; `Retryable` says why there is none and what to do."""
    try:
        return settled_in(kind.connect(**given, autocommit=True))
    except psycopg.Error as error:
        host, port = given.get("host", "localhost"), given.get("port", 5432)
        reason = first_line(error).rpartition(" failed: ")[2]
        if password := given.get("password"):
            reason = reason.replace(str(password), "***")
        message = f"PostgreSQL at {host}:{port} cannot be reached: {reason}{_advice(reason)}"
        raise Retryable(message) from error


def settled_in(connection: Connection) -> Connection:
    """Do without prepared statements behind a pooler: the next transaction may be on another session."""
    try:
        row = connection.execute(b"select pg_backend_pid()").fetchone()
    except psycopg.Error:
        connection.close()
        raise
    # A pooler tells its clients a number of its own, by which they may cancel.
    if row is not None and row[0] != connection.info.backend_pid:
        connection.prepare_threshold = None
    return connection


def pooled(connection: Connection) -> bool:
    """Whether a pooler is in between, such as PgBouncer, in whatever mode."""
    return connection.prepare_threshold is None


def _advice(reason: str) -> str:
    """What to do about a server that will not let us in. Its words may be in another language."""
    for words, advice in ADVICE.items():
        if words in reason:
            return f" ({advice})"
    return ""
