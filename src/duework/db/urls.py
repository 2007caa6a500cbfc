"""Which database a URL means, and how to show a URL without its password.

Drivers are imported here and only when one is opened: `import duework` loads neither of them.
"""

from __future__ import annotations

import re
from pathlib import Path

from duework.db.database import Database
from duework.errors import UsageError

DURABILITIES = ("power", "process")

# To the last @, so that a password that was not percent-encoded does not show its tail.
_IN_AUTHORITY = re.compile(r"(://[^:/?#@]*):.*@", re.DOTALL)
_IN_QUERY = re.compile(
    r"((?:^|[?&\s])(?:ssl)?password\s*=\s*)('(?:[^'\\]|\\.)*'|[^&\s]*)", re.IGNORECASE
)


def open_database(url: str, durability: str = "power") -> Database:
    """The database at a URL; nothing is opened until it is used."""
    if durability not in DURABILITIES:
        known = " or ".join(map(repr, DURABILITIES))
        raise UsageError(f"durability is {known}, not {durability!r}")
    scheme, separator, _ = url.partition("://")
    if separator and scheme == "sqlite":
        from duework.db.sqlite.database import SqliteDatabase

        return SqliteDatabase(url, durability)
    if served(url):
        from duework.db.postgres.database import PostgresDatabase

        return PostgresDatabase(url, durability)
    if not url:
        raise UsageError("the database URL is empty: is the variable set that it is taken from?")
    hint = ", without SQLAlchemy's +driver" if "+" in scheme else ""
    raise UsageError(
        f"cannot read the database URL {redacted(url)!r}:"
        f" write sqlite:///work.db or postgresql://user@host/name{hint}"
    )


def served(url: str) -> bool:
    """Whether a server is there, whose clock rules."""
    scheme, separator, _ = url.partition("://")
    return bool(separator) and scheme in {"postgresql", "postgres"}


def database_file(url: str) -> Path | None:
    """The file that a URL names; None where there is a server."""
    if not url.startswith("sqlite://"):
        return None
    from duework.db.sqlite.url import parse

    return parse(url)[0]


def missing(url: str) -> str | None:
    """The database file that opening this URL would have to make; None if there is none to make."""
    if (path := database_file(url)) is None:
        return None
    # An empty file is what `touch` leaves: opening it would write to it.
    return None if path.exists() and path.stat().st_size > 0 else str(path)


def redacted(url: str) -> str:
    """The URL with `***` in place of its passwords."""
    return _IN_QUERY.sub(r"\1***", _IN_AUTHORITY.sub(r"\1:***@", url))
