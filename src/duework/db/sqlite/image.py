"""A private SQLite database in memory, made from pages and taken apart into pages again.

It never touches a file. What would reach out of it (ATTACH, temporary tables) or change how its pages
look (most pragmas) is refused, and so are transactions of the user's own: the owner of the image
opens and ends them.
"""

from __future__ import annotations

import contextlib
import ctypes
import tempfile
from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import apsw

from duework.db.database import check_values, row_type
from duework.errors import DatabaseError, ObjectTooLarge, UsageError

# 64 MB: every page of it is compared after a call that wrote.
LIMIT = 64 * 2**20
_STATEMENTS = 32
_SETUP = "pragma foreign_keys = on; pragma trusted_schema = off; pragma temp_store = memory"
_REFUSED = {
    apsw.SQLITE_ATTACH: "ATTACH is refused inside an object: its database is its own",
    apsw.SQLITE_DETACH: "DETACH is refused inside an object: its database is its own",
    apsw.SQLITE_TRANSACTION: "a method is one transaction: it begins and ends none itself",
    apsw.SQLITE_SAVEPOINT: "a method is one transaction: raise to undo all of it",
}
_TEMPORARY = {
    *(apsw.SQLITE_CREATE_TEMP_TABLE, apsw.SQLITE_CREATE_TEMP_VIEW, apsw.SQLITE_CREATE_TEMP_INDEX),
    *(apsw.SQLITE_CREATE_TEMP_TRIGGER, apsw.SQLITE_DROP_TEMP_TABLE, apsw.SQLITE_DROP_TEMP_VIEW),
}
# The same by another spelling: `create table temp.x`.
_MAKES = {
    *(apsw.SQLITE_CREATE_TABLE, apsw.SQLITE_CREATE_VIEW, apsw.SQLITE_CREATE_INDEX),
    *(apsw.SQLITE_CREATE_TRIGGER, apsw.SQLITE_CREATE_VTABLE),
}
_WATCHED = {*_REFUSED, *_TEMPORARY, *_MAKES, apsw.SQLITE_PRAGMA}
_NO_TEMPORARY = "temporary tables are refused inside an object: they would not be stored"
# Pragmas that take a value; without one a pragma only tells.
_PRAGMAS = {
    *("table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo"),
    *("foreign_key_list", "foreign_key_check", "integrity_check", "quick_check"),
    *("user_version", "application_id", "defer_foreign_keys"),
}
OVER = "the transaction of this call is over: something rolled it back, or the method has returned"


@lru_cache(maxsize=1)
def _empty() -> bytes:
    """A database with nothing in it."""
    return apsw.Connection(":memory:").serialize("main")


class _Guard:
    """What the authorizer knows: whether we are asking, and why it last refused."""

    __slots__ = ("ours", "why")

    def __init__(self) -> None:
        self.ours = True
        self.why = ""


def _allow(
    guard: _Guard,
    code: int,
    first: str | None,
    second: str | None,
    database: str | None,
    _: str | None,
) -> int:
    if guard.ours or code not in _WATCHED:
        return apsw.SQLITE_OK
    if code in _REFUSED:
        guard.why = _REFUSED[code]
        return apsw.SQLITE_DENY
    if code in _TEMPORARY or (code in _MAKES and database == "temp"):
        guard.why = _NO_TEMPORARY
        return apsw.SQLITE_DENY
    if code == apsw.SQLITE_PRAGMA and second is not None and (first or "") not in _PRAGMAS:
        guard.why = f"pragma {first} cannot be set inside an object"
        return apsw.SQLITE_DENY
    return apsw.SQLITE_OK


class Image:
    """One such database, used by one thread at a time."""

    def __init__(self, pages: bytes = b"") -> None:
        connection = apsw.Connection(":memory:", statementcachesize=_STATEMENTS)
        connection.execute(_SETUP).fetchall()
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        # Not a method: the connection would hold on to this, and this to the connection.
        self._guard = _Guard()
        self._allow = partial(_allow, self._guard)
        self._limit = ctypes.c_int64()
        self._connection = connection
        self.load(pages)

    def load(self, pages: bytes) -> None:
        """Become another database: quicker than a new connection, and nothing of the old is left."""
        connection, self._guard.ours = self._connection, True
        try:
            if connection.in_transaction:
                connection.execute("rollback")
            connection.deserialize("main", pages or _empty())
            # Also makes every statement forget what it knew of the tables before.
            connection.authorizer = self._allow
            connection.set_last_insert_rowid(0)
            # A property of the pages, not of the connection.
            self._limit.value = LIMIT
            where = ctypes.addressof(self._limit)
            connection.file_control("main", apsw.SQLITE_FCNTL_SIZE_LIMIT, where)
        except apsw.Error as error:
            connection.close(force=True)
            raise DatabaseError(f"the pages of an object are damaged: {error}") from error

    def begin(self) -> None:
        self._connection.execute("begin")
        self._guard.ours = False

    def commit(self) -> bool:
        """End the transaction; whether it wrote. Raises, undone, if a constraint was put off."""
        connection, self._guard.ours = self._connection, True
        if not connection.in_transaction:
            raise UsageError(OVER)
        wrote = connection.txn_state("main") == apsw.SQLITE_TXN_WRITE
        try:
            connection.execute("commit")
        except apsw.Error as error:
            self.rollback()
            raise _translated(error, self._guard) from error
        return bool(wrote)

    def rollback(self) -> None:
        self._guard.ours = True
        if self._connection.in_transaction:
            self._connection.execute("rollback")

    def sql(self, text: str, values: Mapping[str, Any]) -> list[Any]:
        """Run the user's own SQL; rows with attribute and index access."""
        check_values(text, values)
        if self._guard.ours or not self._connection.in_transaction:
            raise UsageError(OVER)
        try:
            cursor = self._connection.execute(text, values)
            first = cursor.fetchone()
            if first is None:
                return []
            # The description is there only while a row is: after the last one apsw forgets it.
            make = row_type(tuple([column[0] for column in cursor.description]))
            return [make(first), *map(make, cursor.fetchall())]
        except apsw.Error as error:
            raise _translated(error, self._guard) from error

    def pages(self) -> bytes:
        """The whole database as it would be in a file."""
        return self._connection.serialize("main")

    def tables(self) -> dict[str, int]:
        """The rows of each table of its own."""
        found: dict[str, int] = {}
        names = (
            "select name from pragma_table_list where schema = 'main' and name not like 'sqlite_%'"
        )
        rows: list[Any] = self._connection.execute(names).fetchall()
        for (name,) in rows:
            quoted = name.replace('"', '""')
            # The name is the schema's own; a table's name cannot be a parameter.
            text = f'select count(*) from "{quoted}"'  # noqa: S608
            counted: list[Any] = self._connection.execute(text).fetchall()
            found[name] = counted[0][0]
        return found

    def check(self) -> list[str]:
        """What SQLite finds wrong with it."""
        lines = self._connection.execute("pragma quick_check").fetchall()
        return [str(line[0]) for line in lines if line[0] != "ok"]

    def close(self) -> None:
        with contextlib.suppress(apsw.Error):
            self._connection.close(force=True)


def _translated(error: apsw.Error, guard: _Guard) -> Exception:
    if isinstance(error, apsw.AuthError):
        return UsageError(guard.why or str(error))
    if isinstance(error, apsw.FullError):
        return ObjectTooLarge(f"an object holds at most {LIMIT >> 20} MB; nothing was written")
    return DatabaseError(f"{type(error).__name__.removesuffix('Error')}: {error}")


def from_file(path: Path) -> bytes:
    """The pages of an ordinary SQLite file, whatever its page size and journal."""
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    with tempfile.TemporaryDirectory(prefix="duework-") as folder, _readable(path) as connection:
        copy = Path(folder, "object.db")
        connection.execute("pragma page_size = 4096").fetchall()
        connection.execute("vacuum into ?", (str(copy),)).fetchall()
        size = copy.stat().st_size
        if size > LIMIT:
            raise ObjectTooLarge(
                f"{path} has {size >> 20} MB; an object holds at most {LIMIT >> 20} MB"
            )
        pages = copy.read_bytes()
    image = Image(pages)
    try:
        if wrong := image.check():
            raise UsageError(f"{path} is damaged: {wrong[0]}")
    finally:
        image.close()
    return pages


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[apsw.Connection]:
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            yield connection
        finally:
            connection.close(force=True)
    except apsw.Error as error:
        raise UsageError(f"{path} cannot be read as a SQLite database: {error}") from error
